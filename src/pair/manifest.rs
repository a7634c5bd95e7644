//! What does `pair.json` say?
//!
//! Its `digest` names the whole pair: SHA-256 over the bytes of `pair.json` with the 64 digits of
//! that one value written as zeros. Since the file names the digest of every other file, two pairs
//! with one digest are the same to the last byte.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};
use tandem_host::harness::CONTRACT;
use tandem_host::policy::Sampling;
use tandem_host::store::Digest;

use super::error::PairError;
use super::evaluation::Evaluation;
use super::files::{is_inside, write_file};
use super::provenance::Provenance;
use crate::evolve::Edit;

/// The layout that this program writes. Layout 1 is still verified.
pub const LAYOUT: u32 = 2;
/// The file's name.
pub const FILE: &str = "pair.json";
const ZEROS: &str = "sha256:0000000000000000000000000000000000000000000000000000000000000000";

/// `pair.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PairManifest {
    pub layout: u32,
    /// Of the whole pair.
    pub digest: Digest,
    /// The campaign that it comes from.
    pub name: String,
    /// The version of the program that packed it.
    pub program: String,
    /// The contract between host and plugins that the harness needs.
    pub contract: String,
    pub harness: Digest,
    pub policy: PairPolicy,
    /// In the order of the harness.
    pub plugins: Vec<PairPlugin>,
    /// In the order in which they were accepted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub edits: Vec<PairEdit>,
    /// What it solved, if the run came to its table.
    pub evaluation: Option<Evaluation>,
    pub licences: Licences,
    /// Digest of each file but this one, by its path in the pair.
    pub files: BTreeMap<String, Digest>,
}

/// Which weights are in a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum PolicyForm {
    /// All of them, the trained adapter folded in.
    Full,
    /// The trained adapter alone; the base is named by digest.
    Adapter,
}

/// The policy of a pair.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PairPolicy {
    pub form: PolicyForm,
    /// Of the folder `policy`: SHA-256 of what `sha256sum` prints of its files, by name.
    pub digest: Digest,
    /// The integer that grew with each update of the run.
    pub version: u64,
    pub base: BasePolicy,
    /// SHA-256 of the chat template's source; none where the vocabulary alone decides it.
    pub chat_template: Option<Digest>,
    /// Most tokens of one conversation in the run.
    pub context: usize,
    /// How replies were sampled in training and evaluation.
    pub sampling: Sampling,
}

/// What the run began with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BasePolicy {
    /// A name of `tandem model list`, a hub id, or the name of a file or folder.
    pub name: String,
    /// Of the file; of a folder as above, over its weights, configuration and tokenizer.
    pub digest: Digest,
    /// The adapter that went on it before training, as the folder's digest.
    pub start: Option<Digest>,
}

/// A plugin of the pair and where it came from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PairPlugin {
    pub name: String,
    pub component: Digest,
    /// None for a plugin that the run was given and did not build.
    pub source: Option<PairSource>,
    pub provenance: Provenance,
}

/// A change of prompts, settings, limits or order that a gate let in and that the harness shows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PairEdit {
    pub name: String,
    /// What it changes, for people.
    pub changes: String,
    pub edit: Edit,
    pub provenance: Provenance,
}

/// The source that a component was built from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PairSource {
    pub digest: Digest,
    pub language: String,
    pub file: String,
}

/// Under which terms the parts come, as far as that is known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Licences {
    /// Of the base policy, which the trained one is a derivative of.
    pub base_policy: Option<String>,
    /// By plugin name; those of the built-in catalog have this program's licence.
    pub plugins: BTreeMap<String, Option<String>>,
}

/// Only the layout, so that a pair of another layout is told apart from a damaged one.
#[derive(Deserialize)]
struct AnyLayout {
    layout: u64,
}

impl PairManifest {
    /// Sets the digest and writes the file into `folder`.
    pub fn seal(&mut self, folder: &Path) -> Result<(), PairError> {
        let path = folder.join(FILE);
        self.digest = ZEROS.parse().map_err(|error| PairError::Torn { what: format!("{error}") })?;
        let text = serde_json::to_string_pretty(self)
            .map_err(|error| PairError::BadManifest { path: path.clone(), reason: error.to_string() })?;
        let text = format!("{text}\n");
        self.digest = Digest::of(text.as_bytes());
        write_file(&path, text.replacen(ZEROS, &self.digest.to_string(), 1).as_bytes())
    }

    /// Reads it and checks all that it can be asked alone: layout, its own digest, contract, and that
    /// it names no place outside the pair.
    pub fn read(folder: &Path) -> Result<Self, PairError> {
        let path = folder.join(FILE);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(PairError::NotAPair { path: folder.to_owned() });
            }
            Err(error) => return Err(PairError::io("read", &path)(error)),
        };
        let bad = |error: serde_json::Error| PairError::BadManifest {
            path: path.clone(),
            reason: error.to_string(),
        };
        match serde_json::from_str::<AnyLayout>(&text).map_err(bad)?.layout {
            1 => return Err(PairError::Layout1 { path: folder.to_owned() }),
            layout if layout == u64::from(LAYOUT) => {}
            found => return Err(PairError::Layout { found }),
        }
        let manifest: Self = serde_json::from_str(&text).map_err(bad)?;
        let found = Digest::of(text.replacen(&manifest.digest.to_string(), ZEROS, 1).as_bytes());
        if found != manifest.digest {
            return Err(PairError::Manifest { expected: manifest.digest, found });
        }
        if manifest.contract != CONTRACT {
            return Err(PairError::Contract { found: manifest.contract });
        }
        if let Some(file) = manifest.files.keys().find(|name| !is_inside(name)) {
            return Err(PairError::Outside { file: file.clone() });
        }
        Ok(manifest)
    }
}
