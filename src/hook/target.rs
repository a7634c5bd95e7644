//! Which harness does a daemon serve?

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// A harness as a command line names it, in words that mean the same in every folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// A manifest file or a pair's folder, in full, or what names a harness of the home.
    pub harness: String,
    /// The harness home, in full.
    pub home: PathBuf,
}

impl Target {
    /// The harness that `word` names, seen from this folder.
    ///
    /// # Errors
    /// A file that is not there.
    pub fn new(word: &str, home: &Path) -> Result<Self> {
        let home = std::path::absolute(home).context("the folder that this runs in cannot be read")?;
        // Neither digests nor the words of a home have these characters.
        if !word.contains(['.', '/']) {
            return Ok(Self { harness: word.to_owned(), home });
        }
        let path = std::fs::canonicalize(word).with_context(|| {
            format!("the harness {word} cannot be opened\nhelp: give a manifest file, a pair's folder, or a name of the home")
        })?;
        Ok(Self { harness: path.display().to_string(), home })
    }
}
