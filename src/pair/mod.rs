//! What is shipped? A pair: a policy checkpoint and a harness, with every
//! component and its source, all named by digest.
//!
//! ```text
//! pair.json            digests of everything below, policy version, contract
//! harness.json         the canonical manifest; its SHA-256 is the harness digest
//! policy/              a folder that Hugging Face loads
//! components/HEX.wasm  one for each plugin of the harness
//! sources/HEX.rs       the source of each plugin that the run built, with the ending of its language
//! ```
//!
//! Skills are training only and never part of a pair.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use tandem_host::harness::HarnessManifest;
use tandem_host::store::{BlobStore, Digest};

use crate::campaign::RunRecord;

/// The layout that this program reads and writes.
const LAYOUT: u32 = 1;

/// `pair.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PairManifest {
    pub layout: u32,
    pub contract: String,
    pub harness: Digest,
    pub plugins: Vec<PairPlugin>,
    /// Digest of each file, by its path in the pair.
    pub files: BTreeMap<String, Digest>,
}

/// A plugin of the pair and where it came from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PairPlugin {
    pub name: String,
    pub component: Digest,
    /// None for a plugin that the run was given and did not build.
    pub source: Option<Digest>,
}

/// Writes the pair to `out`, replacing an earlier one. `policy` is a finished
/// policy folder, which is moved into the pair.
pub fn write(out: &Path, policy: &Path, harness: &Digest, record: &RunRecord) -> Result<()> {
    let parent = out.parent().context("a pair needs a folder to lie in")?;
    let staging = tempfile::Builder::new().prefix(".pair-").tempdir_in(parent)?;
    let root = staging.path();
    let manifest = record.harness(harness)?;
    write_file(&root.join("harness.json"), manifest.canonical_json().as_bytes())?;
    let mut plugins = Vec::new();
    for plugin in &manifest.plugins {
        let component = record.blobs().get(&plugin.digest)?;
        write_file(&root.join("components").join(format!("{}.wasm", plugin.digest.hex())), &component)?;
        let source = record.source_of(&plugin.digest)?;
        if let Some(source) = &source {
            let file = format!("{}.{}", source.digest.hex(), source.language.extension());
            write_file(&root.join("sources").join(file), &record.blobs().get(&source.digest)?)?;
        }
        plugins.push(PairPlugin {
            name: plugin.name.clone(),
            component: plugin.digest,
            source: source.map(|source| source.digest),
        });
    }
    fs::rename(policy, root.join("policy"))
        .with_context(|| format!("{} cannot be moved into the pair", policy.display()))?;
    let mut files = BTreeMap::new();
    for path in files_below(root)? {
        let name = path.strip_prefix(root)?.to_string_lossy().into_owned();
        files.insert(name, digest_of(&path)?);
    }
    let pair =
        PairManifest { layout: LAYOUT, contract: manifest.contract, harness: *harness, plugins, files };
    write_file(&root.join("pair.json"), serde_json::to_string_pretty(&pair)?.as_bytes())?;
    if out.exists() {
        let old = tempfile::Builder::new().prefix(".pair-old-").tempdir_in(parent)?;
        fs::rename(out, old.path().join("pair"))?;
    }
    let root = staging.keep();
    fs::rename(&root, out).with_context(|| format!("the pair cannot be put at {}", out.display()))?;
    Ok(())
}

/// Reads a pair and checks every digest in it. The error names the first file
/// that is missing, changed, or not in the manifest.
pub fn verify(pair: &Path) -> Result<PairManifest> {
    let path = pair.join("pair.json");
    let text = fs::read_to_string(&path).with_context(|| {
        format!("{} cannot be read\nhelp: a pair is the folder `pair` of a finished run", path.display())
    })?;
    let manifest: PairManifest =
        serde_json::from_str(&text).with_context(|| format!("{} is not a pair manifest", path.display()))?;
    if manifest.layout != LAYOUT {
        bail!(
            "the pair has layout {}, and this program reads layout {LAYOUT}\nhelp: use the program version that wrote it",
            manifest.layout
        );
    }
    for (name, expected) in &manifest.files {
        let file = pair.join(name);
        let found = digest_of(&file)
            .with_context(|| format!("the pair lacks its file {name}\nhelp: copy the pair again"))?;
        if found != *expected {
            bail!(
                "file {name} of the pair was changed: its digest is {found}, and {expected} is expected\nhelp: copy the pair again"
            );
        }
    }
    for file in files_below(pair)? {
        let name = file.strip_prefix(pair)?.to_string_lossy().into_owned();
        if name != "pair.json" && !manifest.files.contains_key(&name) {
            bail!(
                "the pair holds {name}, which its manifest does not name\nhelp: delete that file, or copy the pair again"
            );
        }
    }
    let json = fs::read(pair.join("harness.json"))?;
    if Digest::of(&json) != manifest.harness {
        bail!("harness.json has digest {}, and the pair names {}", Digest::of(&json), manifest.harness);
    }
    for plugin in &manifest.plugins {
        let name = format!("components/{}.wasm", plugin.component.hex());
        if manifest.files.get(&name) != Some(&plugin.component) {
            bail!("the component of plugin {} is not what its name says", plugin.name);
        }
    }
    Ok(manifest)
}

fn write_file(path: &Path, bytes: &[u8]) -> Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let mut file = fs::File::create(path).with_context(|| format!("{} cannot be made", path.display()))?;
    std::io::Write::write_all(&mut file, bytes)
        .and_then(|()| file.sync_all())
        .with_context(|| format!("{} cannot be written: is the disk full?", path.display()))
}

fn digest_of(path: &Path) -> Result<Digest> {
    let bytes = fs::read(path).with_context(|| format!("{} cannot be read", path.display()))?;
    Ok(Digest::of(&bytes))
}

fn files_below(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).with_context(|| format!("{} cannot be read", folder.display()))? {
            let path = entry?.path();
            if path.is_dir() { folders.push(path) } else { files.push(path) }
        }
    }
    files.sort();
    Ok(files)
}

/// The harness of a verified pair, its components put into `blobs`.
pub fn harness(pair: &Path, blobs: &BlobStore) -> Result<HarnessManifest> {
    let manifest = verify(pair)?;
    for plugin in &manifest.plugins {
        blobs.put(&fs::read(pair.join("components").join(format!("{}.wasm", plugin.component.hex())))?)?;
    }
    let json = fs::read(pair.join("harness.json"))?;
    Ok(HarnessManifest::from_json("harness.json of the pair", &json)?)
}
