//! What made a component, so that anybody can make it again?

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::store::Digest;

use super::language::Language;

/// One thing that took part in a build: a compiler, an SDK, a lock file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tool {
    /// Such as `rustc`, `tandem-plugin` or `package-lock.json`.
    pub name: String,
    /// As it calls itself.
    pub version: String,
    /// Over its files.
    pub digest: Digest,
}

/// Where a component came from. The same source and tools give the same component.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Provenance {
    pub component: Digest,
    pub language: Language,
    /// Of the source: language, paths and contents.
    pub source: Digest,
    /// Of the contract's text.
    pub contract: Digest,
    /// The version of the program that built it.
    pub forge: String,
    pub tools: Vec<Tool>,
}

impl Provenance {
    /// The file beside a component that holds this: `guard.wasm` has `guard.provenance.json`.
    pub fn path_beside(component: &Path) -> PathBuf {
        component.with_extension("provenance.json")
    }
}
