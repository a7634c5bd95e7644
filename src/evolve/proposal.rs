//! What does a teacher propose? The same type, whoever wrote it.

use serde::{Deserialize, Serialize};
use tandem_host::store::Digest;

use super::edit::Edit;
use super::signals::Signal;

/// What a model says about the change that it proposes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// Lower-case letters, digits and `-`.
    pub name: String,
    /// One sentence: why it should help.
    pub mechanism: String,
    /// Hook points that a plugin exports, `tools` included; none of another change.
    #[serde(default)]
    pub points: Vec<String>,
    /// Capabilities that a plugin asks for.
    #[serde(default)]
    pub grants: Vec<String>,
    /// Signals that should become rarer; the first is the one that it answers.
    pub fixes: Vec<String>,
    /// What could get worse, a sentence each.
    #[serde(default)]
    pub risks: Vec<String>,
}

/// A proposed change of the harness.
#[derive(Clone, Debug, PartialEq)]
pub struct Proposal {
    /// What people call it. Of a plugin, its name in the harness manifest: an entry of the same name is
    /// replaced.
    pub name: String,
    /// The trouble that it answers.
    pub signal: Signal,
    pub edit: Edit,
    /// One sentence: why this should help.
    pub rationale: String,
    /// What a model said about it; the catalog says nothing beyond the fields above.
    pub manifest: Option<Manifest>,
}

impl Proposal {
    /// The digest of the edit, by which a proposal is known.
    pub fn digest(&self) -> Digest {
        self.edit.digest()
    }
}
