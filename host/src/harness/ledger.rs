//! Who published which harness, when, why, and from which sources?
//!
//! A ledger is a folder with one file for each publication, `000001.json` and so on. An entry is
//! written beside its place, brought to the device, and moved there only if the place is free:
//! it is whole or absent whenever the program is killed, and of two publishers that want one
//! number the slower one reads again. Each entry holds the seal of the one before it, so that a
//! damaged or rewritten history shows.

use std::collections::BTreeMap;
use std::fs;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::home::HomeError;
use super::utc;
use crate::store::Digest;

/// The layout of entries that this program writes and reads.
const LAYOUT: u32 = 1;

/// Times that a publisher who found its number taken tries the next one.
const TRIES: u32 = 1000;

/// What a publication was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PublicationKind {
    /// A harness that the ledger did not have before, or a change made on purpose.
    Publish,
    /// A harness of before, named by its digest.
    Activate,
    /// Back to the harness before.
    Rollback,
}

impl PublicationKind {
    /// The word in the entry.
    pub fn name(self) -> &'static str {
        match self {
            Self::Publish => "publish",
            Self::Activate => "activate",
            Self::Rollback => "rollback",
        }
    }
}

/// What a publisher says; number, time and predecessor are the ledger's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewEntry {
    pub kind: PublicationKind,
    /// Who publishes: a person's name, a gate's id.
    pub actor: String,
    /// Why, in words.
    pub reason: String,
    pub harness: Digest,
    /// Plugin name to the digest of the source that it was built from, where that is known.
    pub sources: BTreeMap<String, Digest>,
    /// Publications with one key are one publication: it is written at most once.
    pub key: Option<String>,
}

/// One publication.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LedgerEntry {
    layout: u32,
    /// Counts from 1, without gaps.
    pub number: u64,
    /// RFC 3339, UTC.
    pub at: String,
    pub kind: PublicationKind,
    pub actor: String,
    pub reason: String,
    /// The harness that became current.
    pub harness: Digest,
    /// The harness that was current before; none for the first.
    pub previous: Option<Digest>,
    /// Plugin name to source digest, for the plugins whose source is known.
    pub sources: BTreeMap<String, Digest>,
    /// What makes it the same publication when it is asked for again.
    pub key: Option<String>,
    /// The seal of the entry before.
    after: Option<Digest>,
}

/// An entry as its file holds it.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sealed {
    entry: LedgerEntry,
    /// SHA-256 of the entry's JSON without white space.
    seal: Digest,
}

/// Only the layout, so that an entry of another layout is told apart from a damaged one.
#[derive(Deserialize)]
struct AnyLayout {
    entry: Layout,
}

#[derive(Deserialize)]
struct Layout {
    layout: u32,
}

/// What came of [`Ledger::append`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Appended {
    pub entry: LedgerEntry,
    /// False when an entry with the same key was there already.
    pub new: bool,
}

/// On which state of the ledger a publication builds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Base {
    /// Whatever is current then: the harness does not depend on what was before.
    Any,
    /// The ledger whose last entry has this number (0: it is empty), since the harness was
    /// made from the one that was current then.
    Entry(u64),
}

/// A folder of publications. Safe to use from several processes.
#[derive(Clone, Debug)]
pub struct Ledger {
    dir: PathBuf,
}

impl Ledger {
    /// The ledger in `dir`; nothing is read or made yet.
    pub(super) fn new(dir: PathBuf) -> Self {
        Self { dir }
    }

    /// The folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    fn path(&self, number: u64) -> PathBuf {
        self.dir.join(format!("{number:06}.json"))
    }

    /// All entries, oldest first, each checked.
    ///
    /// # Errors
    /// A file that is damaged, of another layout, missing in between, or no entry at all: the
    /// error names it.
    pub fn entries(&self) -> Result<Vec<LedgerEntry>, HomeError> {
        let mut entries: Vec<LedgerEntry> = Vec::new();
        let mut seal = None;
        for (number, path) in self.files()? {
            let due = entries.len() as u64 + 1;
            if number != due {
                return Err(HomeError::Gap { path: self.path(due), next: path });
            }
            let Sealed { entry, seal: found } = read(&path)?;
            if entry.number != number || entry.after != seal {
                let what = "it does not follow the entry before it".to_owned();
                return Err(HomeError::Damaged { path, what });
            }
            seal = Some(found);
            entries.push(entry);
        }
        Ok(entries)
    }

    /// Writes an entry as the last one. On return it is on the device.
    ///
    /// # Errors
    /// [`HomeError::Moved`] when the ledger is not at `base` any more; all of [`Self::entries`].
    pub(super) fn append(&self, new: &NewEntry, base: Base) -> Result<Appended, HomeError> {
        for _ in 0..TRIES {
            let entries = self.entries()?;
            let same = |entry: &&LedgerEntry| new.key.is_some() && entry.key == new.key;
            if let Some(entry) = entries.iter().find(same) {
                return Ok(Appended { entry: entry.clone(), new: false });
            }
            let last = entries.last();
            let number = last.map_or(0, |entry| entry.number);
            if let Base::Entry(expected) = base
                && expected != number
            {
                return Err(HomeError::Moved { expected, found: number });
            }
            let entry = LedgerEntry {
                layout: LAYOUT,
                number: number + 1,
                at: utc::utc_now(),
                kind: new.kind,
                actor: new.actor.clone(),
                reason: new.reason.clone(),
                harness: new.harness,
                previous: last.map(|entry| entry.harness),
                sources: new.sources.clone(),
                key: new.key.clone(),
                after: last.map(seal_of),
            };
            if self.place(&entry)? {
                return Ok(Appended { entry, new: true });
            }
        }
        Err(HomeError::Crowded { dir: self.dir.clone(), tries: TRIES })
    }

    /// Puts the entry at its number, whole; false when somebody else took the number.
    fn place(&self, entry: &LedgerEntry) -> Result<bool, HomeError> {
        let path = self.path(entry.number);
        let fail = |source| HomeError::Io { action: "write", path: path.clone(), source };
        let sealed = Sealed { seal: seal_of(entry), entry: entry.clone() };
        // Plain data with string keys always has a JSON form.
        let mut text = serde_json::to_string_pretty(&sealed).unwrap_or_default();
        text.push('\n');
        let mut file = tempfile::Builder::new().prefix(".new-").tempfile_in(&self.dir).map_err(fail)?;
        file.write_all(text.as_bytes()).map_err(fail)?;
        file.as_file().sync_all().map_err(fail)?;
        match file.persist_noclobber(&path) {
            Ok(_) => {}
            Err(error) if error.error.kind() == ErrorKind::AlreadyExists => return Ok(false),
            Err(error) => return Err(fail(error.error)),
        }
        // The new name is only durable once the folder is.
        fs::File::open(&self.dir).and_then(|folder| folder.sync_all()).map_err(fail)?;
        Ok(true)
    }

    /// The files of the ledger by number. Names with a dot first are unfinished entries.
    fn files(&self) -> Result<BTreeMap<u64, PathBuf>, HomeError> {
        let fail = |source| HomeError::Io { action: "read", path: self.dir.clone(), source };
        let mut files = BTreeMap::new();
        for file in fs::read_dir(&self.dir).map_err(fail)? {
            let name = file.map_err(fail)?.file_name().to_string_lossy().into_owned();
            if name.starts_with('.') {
                continue;
            }
            let number = name.strip_suffix(".json").and_then(|digits| digits.parse().ok());
            match number {
                Some(number) if self.path(number) == self.dir.join(&name) => {
                    files.insert(number, self.dir.join(name));
                }
                _ => {
                    let what = "its name is not a number of six digits and `.json`".to_owned();
                    return Err(HomeError::Damaged { path: self.dir.join(name), what });
                }
            }
        }
        Ok(files)
    }
}

/// Reads and checks one file.
fn read(path: &Path) -> Result<Sealed, HomeError> {
    let damaged = |what: String| HomeError::Damaged { path: path.to_owned(), what };
    let bytes =
        fs::read(path).map_err(|source| HomeError::Io { action: "read", path: path.to_owned(), source })?;
    let layout: AnyLayout = serde_json::from_slice(&bytes).map_err(|error| damaged(error.to_string()))?;
    let found = layout.entry.layout;
    if found != LAYOUT {
        return Err(HomeError::Layout { path: path.to_owned(), found, known: LAYOUT });
    }
    let sealed: Sealed = serde_json::from_slice(&bytes).map_err(|error| damaged(error.to_string()))?;
    if seal_of(&sealed.entry) != sealed.seal {
        return Err(damaged("what it says was changed after it was written".to_owned()));
    }
    Ok(sealed)
}

/// The seal of an entry: its fields in the order of the type, so the same on every machine.
fn seal_of(entry: &LedgerEntry) -> Digest {
    Digest::of(serde_json::to_string(entry).unwrap_or_default().as_bytes())
}
