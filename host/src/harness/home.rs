//! Which harness is current in a folder on disk, and which was before?
//!
//! A harness home is a folder with `blobs/` (components, canonical manifests, sources) and
//! `ledger/`. The harness of the last entry is the current one. The folder of a run is a harness
//! home too. It publishes to nobody: a running host swaps with [`super::Generations::publish`].

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::error::HarnessError;
use super::ledger::{Appended, Base, Ledger, LedgerEntry, NewEntry, PublicationKind};
use super::manifest::HarnessManifest;
use crate::store::{BlobStore, Digest, StoreError};

/// Fewest digits of a digest that name a harness.
const PREFIX: usize = 4;

/// Why a harness home does not do what was asked. Nothing was published.
#[derive(Debug, thiserror::Error)]
pub enum HomeError {
    #[error("`{dir}` is not a harness home: it has no folder `ledger`\nhelp: `tandem harness add` makes one; `--home DIR` names another", dir = .dir.display())]
    NotAHome { dir: PathBuf },
    #[error("cannot {action} `{path}`: {source}\nhelp: check the path, its permissions and the room on the disk", path = .path.display())]
    Io { action: &'static str, path: PathBuf, source: io::Error },
    #[error("the ledger entry `{path}` is damaged: {what}\nhelp: bring the file back from a copy of the folder; nothing is published until then", path = .path.display())]
    Damaged { path: PathBuf, what: String },
    #[error("the ledger entry `{path}` has layout {found}, and this program reads layout {known}\nhelp: use the program version that wrote it", path = .path.display())]
    Layout { path: PathBuf, found: u32, known: u32 },
    #[error("the ledger entry `{path}` is missing, and `{next}` is there\nhelp: bring the file back from a copy of the folder; nothing is published until then", path = .path.display(), next = .next.display())]
    Gap { path: PathBuf, next: PathBuf },
    #[error(
        "somebody else published meanwhile: the ledger was at entry {expected} and is at entry {found}\nhelp: look at it with `tandem harness log`, then do it again"
    )]
    Moved { expected: u64, found: u64 },
    #[error("so many publish to `{dir}` at once that {tries} tries found no free number\nhelp: do it again when fewer do", dir = .dir.display())]
    Crowded { dir: PathBuf, tries: u32 },
    #[error("nothing is published in `{dir}` yet\nhelp: `tandem harness add` or `tandem harness activate FILE.toml` publishes the first harness", dir = .dir.display())]
    Empty { dir: PathBuf },
    #[error("there is no harness before the current one in `{dir}`\nhelp: `tandem harness log` shows what was published; `tandem harness activate DIGEST` takes any of it", dir = .dir.display())]
    NothingBefore { dir: PathBuf },
    #[error("`{word}` names no harness of `{dir}`\nhelp: take a digest, or at least {PREFIX} of its digits, from `tandem harness log`; or `current`, `previous`, or a manifest file", dir = .dir.display())]
    Unknown { word: String, dir: PathBuf },
    #[error("`{word}` names {} harnesses: {}\nhelp: give more digits", .found.len(), list(.found))]
    Ambiguous { word: String, found: Vec<Digest> },
    #[error("the component of the plugin `{plugin}` of the harness {harness} is not at hand: {source}")]
    Component { plugin: String, harness: Digest, source: StoreError },
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Harness(#[from] HarnessError),
}

fn list(digests: &[Digest]) -> String {
    digests.iter().map(Digest::to_string).collect::<Vec<_>>().join(", ")
}

/// A folder with harnesses and their history.
#[derive(Clone, Debug)]
pub struct HarnessHome {
    dir: PathBuf,
    blobs: BlobStore,
    ledger: Ledger,
}

impl HarnessHome {
    /// Opens a home that is there.
    pub fn open(dir: &Path) -> Result<Self, HomeError> {
        if !dir.join("ledger").is_dir() {
            return Err(HomeError::NotAHome { dir: dir.to_owned() });
        }
        Self::create(dir)
    }

    /// Opens a home, making it if it is not there.
    pub fn create(dir: &Path) -> Result<Self, HomeError> {
        let ledger = dir.join("ledger");
        fs::create_dir_all(&ledger).map_err(|source| HomeError::Io {
            action: "make the folder",
            path: ledger.clone(),
            source,
        })?;
        Ok(Self {
            dir: dir.to_owned(),
            blobs: BlobStore::open(dir.join("blobs"))?,
            ledger: Ledger::new(ledger),
        })
    }

    /// The folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Components, canonical manifests and sources.
    pub fn blobs(&self) -> &BlobStore {
        &self.blobs
    }

    /// All publications, oldest first.
    pub fn log(&self) -> Result<Vec<LedgerEntry>, HomeError> {
        self.ledger.entries()
    }

    /// A kept harness.
    pub fn manifest(&self, digest: &Digest) -> Result<HarnessManifest, HomeError> {
        let json = self.blobs.get(digest)?;
        Ok(HarnessManifest::from_json(&format!("the harness {digest}"), &json)?)
    }

    /// Writes a publication into the ledger: from then on its harness is current here. It should
    /// have been built ([`super::Generation::build`] keeps its manifest); this checks only that
    /// manifest and components are at hand. Sources of plugins that stay the same come along
    /// from the entry before.
    ///
    /// # Errors
    /// [`HomeError::Moved`] when the ledger is not at `base` any more.
    pub fn publish(&self, mut new: NewEntry, base: Base) -> Result<Appended, HomeError> {
        let manifest = self.manifest(&new.harness)?;
        for plugin in &manifest.plugins {
            if !self.blobs.contains(&plugin.digest) {
                let source = StoreError::Missing { digest: plugin.digest, dir: self.blobs.dir().to_owned() };
                return Err(HomeError::Component {
                    plugin: plugin.name.clone(),
                    harness: new.harness,
                    source,
                });
            }
        }
        let components: BTreeMap<_, _> =
            manifest.plugins.iter().map(|plugin| (&plugin.name, plugin.digest)).collect();
        for (name, source) in self.known_sources(&components)? {
            new.sources.entry(name).or_insert(source);
        }
        self.ledger.append(&new, base)
    }

    /// Sources of these plugins (name to component) as the newest entries know them.
    fn known_sources(
        &self,
        components: &BTreeMap<&String, Digest>,
    ) -> Result<BTreeMap<String, Digest>, HomeError> {
        let mut known = BTreeMap::new();
        let mut manifests: BTreeMap<Digest, HarnessManifest> = BTreeMap::new();
        for entry in self.log()?.into_iter().rev() {
            let wanted = entry
                .sources
                .iter()
                .any(|(name, _)| components.contains_key(name) && !known.contains_key(name));
            if !wanted {
                continue;
            }
            let manifest = match manifests.entry(entry.harness) {
                std::collections::btree_map::Entry::Occupied(held) => held.into_mut(),
                std::collections::btree_map::Entry::Vacant(free) => {
                    free.insert(self.manifest(&entry.harness)?)
                }
            };
            for plugin in &manifest.plugins {
                if let Some(source) = entry.sources.get(&plugin.name)
                    && components.get(&plugin.name) == Some(&plugin.digest)
                {
                    known.entry(plugin.name.clone()).or_insert(*source);
                }
            }
        }
        Ok(known)
    }

    /// The harness that `word` names: `current`, `previous` (what a rollback goes back to), a
    /// digest, or at least four of its first digits.
    pub fn resolve(&self, word: &str) -> Result<Digest, HomeError> {
        let log = self.log()?;
        match word {
            "current" => {
                let last = log.last().ok_or_else(|| HomeError::Empty { dir: self.dir.clone() })?;
                return Ok(last.harness);
            }
            "previous" => {
                return before(&log).ok_or_else(|| HomeError::NothingBefore { dir: self.dir.clone() });
            }
            _ => {}
        }
        let digits = word.strip_prefix("sha256:").unwrap_or(word);
        let unknown = || HomeError::Unknown { word: word.to_owned(), dir: self.dir.clone() };
        if digits.len() < PREFIX || !digits.chars().all(|c| matches!(c, '0'..='9' | 'a'..='f')) {
            return Err(unknown());
        }
        let mut found: Vec<Digest> =
            log.iter().map(|entry| entry.harness).filter(|digest| digest.hex().starts_with(digits)).collect();
        found.sort();
        found.dedup();
        if found.is_empty() {
            // A harness that was built and never published.
            found = self.kept(digits)?;
        }
        match found.as_slice() {
            [] => Err(unknown()),
            [one] => Ok(*one),
            _ => Err(HomeError::Ambiguous { word: word.to_owned(), found }),
        }
    }

    /// The harnesses among the blobs whose digest starts with `digits`.
    fn kept(&self, digits: &str) -> Result<Vec<Digest>, HomeError> {
        let dir = self.blobs.dir();
        let fail = |source| HomeError::Io { action: "read", path: dir.to_owned(), source };
        let mut found = Vec::new();
        for file in fs::read_dir(dir).map_err(fail)? {
            let name = file.map_err(fail)?.file_name().to_string_lossy().into_owned();
            let Ok(digest) = format!("sha256:{name}").parse() else { continue };
            if name.starts_with(digits) && self.manifest(&digest).is_ok() {
                found.push(digest);
            }
        }
        found.sort();
        Ok(found)
    }
}

/// The harness that a rollback goes back to. A rollback takes what it undid off the history, so
/// that a second one goes a step further back and never to what was just left.
fn before(log: &[LedgerEntry]) -> Option<Digest> {
    let mut history: Vec<Digest> = Vec::new();
    for entry in log {
        if entry.kind == PublicationKind::Rollback
            && let Some(at) = history.iter().rposition(|digest| *digest == entry.harness)
        {
            history.truncate(at);
        }
        history.push(entry.harness);
    }
    let current = history.pop()?;
    history.into_iter().rev().find(|digest| *digest != current)
}
