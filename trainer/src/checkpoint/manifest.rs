//! What is a checkpoint's identity, and are its files the ones that were written?

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::CheckpointError;

/// The file's name in the checkpoint folder.
pub(super) const FILE: &str = "tandem.json";
const FORMAT: u32 = 1;

/// What the caller knows about a checkpoint and the folder cannot tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckpointInfo {
    /// The integer that grows with each published update.
    pub policy_version: u64,
    /// The harness that the policy was trained against.
    pub harness_digest: Option<String>,
    /// The checkpoint that this one continues.
    pub parent: Option<String>,
    /// The name of the policy at the root of the line, such as `SmolLM2-135M-Instruct`.
    pub base: String,
}

/// What a checkpoint folder holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CheckpointKind {
    /// All weights, tokenizer and configuration.
    Full,
    /// LoRA factors over the policy named by `base`.
    Adapter,
}

/// The contents of `tandem.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// Version of this format.
    pub format: u32,
    pub kind: CheckpointKind,
    pub policy_version: u64,
    pub harness_digest: Option<String>,
    pub parent: Option<String>,
    pub base: String,
    /// The sha256 of each other file in the folder, in hex.
    pub files: BTreeMap<String, String>,
}

impl Manifest {
    /// Describes the files that lie in `folder` now, and writes the description beside them.
    pub(super) fn write(
        folder: &Path,
        kind: CheckpointKind,
        info: &CheckpointInfo,
    ) -> Result<(), CheckpointError> {
        let files = digests_of(folder)?;
        let CheckpointInfo { policy_version, harness_digest, parent, base } = info.clone();
        let format = FORMAT;
        let manifest = Self { format, kind, policy_version, harness_digest, parent, base, files };
        super::hf::write_json(&folder.join(FILE), &manifest)
    }
}

/// The sha256 of each file in `folder`, by name.
pub(crate) fn digests_of(folder: &Path) -> Result<BTreeMap<String, String>, CheckpointError> {
    let mut files = BTreeMap::new();
    for entry in std::fs::read_dir(folder).map_err(CheckpointError::io(folder))? {
        let entry = entry.map_err(CheckpointError::io(folder))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        files.insert(name, sha256(&entry.path())?);
    }
    Ok(files)
}

/// Compares each listed file of the folder with what was written; `listing` names the file that
/// the list comes from.
pub(crate) fn verify_digests(
    folder: &Path,
    listing: &str,
    files: &BTreeMap<String, String>,
) -> Result<(), CheckpointError> {
    for (name, expected) in files {
        let path = folder.join(name);
        if Path::new(name).file_name() != Some(name.as_ref()) {
            let reason = format!("it names `{name}`, which is no file of this folder");
            return Err(CheckpointError::corrupt(&folder.join(listing), reason));
        }
        if !path.exists() {
            return Err(CheckpointError::Missing { path, needed: "the folder's own list names the file" });
        }
        let found = sha256(&path)?;
        if found != *expected {
            let reason = format!("its sha256 is {found}, {listing} says {expected}");
            return Err(CheckpointError::corrupt(&path, reason));
        }
    }
    Ok(())
}

/// The manifest of a checkpoint folder, once all files agree with it; none for a folder that was
/// not written here.
///
/// # Errors
/// If the manifest cannot be read, or a file is missing or differs.
pub fn manifest_of(folder: &Path) -> Result<Option<Manifest>, CheckpointError> {
    let manifest = read_manifest(folder)?;
    if let Some(manifest) = &manifest {
        verify_digests(folder, FILE, &manifest.files)?;
    }
    Ok(manifest)
}

/// The manifest alone, without a look at the files it lists.
pub(super) fn read_manifest(folder: &Path) -> Result<Option<Manifest>, CheckpointError> {
    let path = folder.join(FILE);
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(CheckpointError::Io { path, source }),
    };
    let manifest: Manifest =
        serde_json::from_str(&text).map_err(|error| CheckpointError::corrupt(&path, error))?;
    if manifest.format != FORMAT {
        let reason = format!("it has format {}, this program reads format {FORMAT}", manifest.format);
        return Err(CheckpointError::corrupt(&path, reason));
    }
    Ok(Some(manifest))
}

fn sha256(path: &Path) -> Result<String, CheckpointError> {
    let mut file = File::open(path).map_err(CheckpointError::io(path))?;
    let mut hasher = Sha256::new();
    std::io::copy(&mut file, &mut hasher).map_err(CheckpointError::io(path))?;
    Ok(hex::encode(hasher.finalize()))
}
