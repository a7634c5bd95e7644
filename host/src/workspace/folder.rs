//! A folder of the host that a sandbox sees: tests to read, a place for rewards.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use super::beneath::Beneath;
use super::config::WorkspaceConfig;
use super::error::Error;
use super::scratch::Scratch;
use super::snapshot::Copy;

/// A folder for temporary files. Dropping it removes it.
#[derive(Debug)]
pub struct Folder {
    scratch: Scratch,
}

impl Folder {
    /// A new empty folder.
    pub fn empty(config: &WorkspaceConfig) -> Result<Self, Error> {
        let folder = Self { scratch: Scratch::new("folder", config)? };
        let path = folder.path();
        std::fs::create_dir(&path).map_err(Error::io("making", &path))?;
        Ok(folder)
    }

    /// A copy of the files, folders and links of `from`, readable for commands.
    pub fn copy_of(from: &Path, config: &WorkspaceConfig) -> Result<Self, Error> {
        let folder = Self { scratch: Scratch::new("folder", config)? };
        let mut copy = Copy::new(config.extract.entries, config.extract.total_bytes);
        copy.folder(from, &folder.path(), Path::new(""))?;
        Ok(folder)
    }

    /// A copy of several folders, one over the other.
    pub fn copy_of_all(from: &[PathBuf], config: &WorkspaceConfig) -> Result<Self, Error> {
        let folder = Self::empty(config)?;
        let mut copy = Copy::new(config.extract.entries, config.extract.total_bytes);
        from.iter().try_for_each(|from| copy.folder(from, &folder.path(), Path::new("")))?;
        Ok(folder)
    }

    /// Where it lies on the host.
    pub fn path(&self) -> PathBuf {
        self.scratch.path().join("folder")
    }

    /// Opens a file in it to read. Links that lead out of it are not followed.
    pub fn open(&self, name: &str) -> io::Result<File> {
        Beneath::open(&self.path())?.read(name)
    }
}
