//! What does a teacher propose? The same type, whoever wrote it.

use serde::{Deserialize, Serialize};
use tandem_host::forge::Language;
use tandem_host::store::Digest;

use super::signals::Signal;

/// What a model says about the plugin that it wrote.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// Lower-case letters, digits and `-`.
    pub name: String,
    /// One sentence: why it should help.
    pub mechanism: String,
    /// Hook points that it exports, `tools` included.
    pub points: Vec<String>,
    /// Capabilities that it asks for.
    #[serde(default)]
    pub grants: Vec<String>,
    /// Signals that should become rarer; the first is the one that it answers.
    pub fixes: Vec<String>,
    /// What could get worse, a sentence each.
    #[serde(default)]
    pub risks: Vec<String>,
}

/// A proposed plugin: source, and what its manifest entry needs.
#[derive(Clone, Debug, PartialEq)]
pub struct Proposal {
    /// The name in the harness manifest; an entry of the same name is replaced.
    pub name: String,
    /// The trouble that it answers.
    pub signal: Signal,
    pub language: Language,
    /// One file.
    pub source: String,
    /// Capabilities that it asks for.
    pub grants: Vec<String>,
    /// One sentence: why this should help.
    pub rationale: String,
    /// What a model said about it; the catalog says nothing beyond the fields above.
    pub manifest: Option<Manifest>,
}

impl Proposal {
    /// The digest of the source text, by which a proposal is known.
    pub fn source_digest(&self) -> Digest {
        Digest::of(self.source.as_bytes())
    }
}
