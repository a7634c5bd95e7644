//! How does a folder that hostile commands wrote to go away?
//!
//! A command may leave folders that nobody may enter, or so many inside each
//! other that removing them by recursion exhausts the stack. Such trees are left
//! to `chmod` and `rm`, which walk without recursion.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::config::WorkspaceConfig;
use super::error::Error;
use super::sandbox::open_to_others;

/// Folders inside each other that are removed by recursion.
const DEPTH: usize = 64;

/// A folder for temporary files. Dropping it removes it with all that is in it.
#[derive(Debug)]
pub(super) struct Scratch(PathBuf);

impl Scratch {
    /// A new folder that other users may pass through and not list.
    pub(super) fn new(prefix: &str, config: &WorkspaceConfig) -> Result<Self, Error> {
        let root = config.root();
        let folder = tempfile::Builder::new()
            .prefix(prefix)
            .tempdir_in(&root)
            .map_err(Error::io("making a folder in", &root))?;
        open_to_others(folder.path())?;
        Ok(Self(folder.keep()))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if is_plain(&self.0) && fs::remove_dir_all(&self.0).is_ok() {
            return;
        }
        let run = |program: &str, option: &str| {
            let mut command = Command::new(program);
            command.args([option, "--"]).args((program == "chmod").then_some("u+rwx")).arg(&self.0);
            let _ = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
        };
        run("chmod", "-R");
        run("rm", "-rf");
        if self.0.exists() {
            tracing::warn!("{} could not be removed", self.0.display());
        }
    }
}

/// Whether every folder may be entered and none lies too deep.
fn is_plain(root: &Path) -> bool {
    let mut left = vec![(root.to_owned(), 0)];
    while let Some((folder, depth)) = left.pop() {
        let Ok(entries) = fs::read_dir(&folder) else { return false };
        for entry in entries.flatten() {
            let Ok(meta) = entry.metadata() else { return false };
            if meta.is_dir() {
                if depth == DEPTH || meta.permissions().mode() & 0o700 != 0o700 {
                    return false;
                }
                left.push((entry.path(), depth + 1));
            }
        }
    }
    true
}
