//! How does a folder that hostile commands wrote to go away?
//!
//! A command may leave folders that nobody may enter, or so many inside each
//! other that removing them by recursion exhausts the stack. Such trees are left
//! to `chmod` and `rm`, which walk without recursion.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use super::config::WorkspaceConfig;
use super::error::Error;
use super::lease::{Held, Lease, Session};

/// Folders inside each other that are removed by recursion.
const DEPTH: usize = 64;

/// A folder for temporary files with a lease. Dropping it removes it with all that is in it.
#[derive(Debug)]
pub(super) struct Scratch {
    path: PathBuf,
    lease: Lease,
}

impl Scratch {
    /// A new folder that other users may pass through and not list.
    pub(super) fn new(kind: &str, config: &WorkspaceConfig) -> Result<Self, Error> {
        let session = Session::of(config)?;
        let name = format!("{kind}-{}", session.number());
        let path = session.folder().join(&name);
        let lease = session.hold(Held::Folder { name }, config.lease())?;
        fs::create_dir(&path).map_err(Error::io("making", &path))?;
        open_to_others(&path)?;
        Ok(Self { path, lease })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The session that it lies in.
    pub(super) fn session(&self) -> &Arc<Session> {
        self.lease.session()
    }

    /// Says that it is in use.
    pub(super) fn renew(&self) -> Result<(), Error> {
        self.lease.renew()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if !remove(&self.path) {
            tracing::warn!("{} could not be removed", self.path.display());
        }
    }
}

/// Lets commands, which may run as another user of the host, pass through a folder.
pub(super) fn open_to_others(path: &Path) -> Result<(), Error> {
    fs::set_permissions(path, fs::Permissions::from_mode(0o711)).map_err(Error::io("opening", path))
}

/// Removes a folder whatever is in it; true when it is gone.
pub(super) fn remove(path: &Path) -> bool {
    if is_plain(path) && fs::remove_dir_all(path).is_ok() {
        return true;
    }
    let run = |program: &str, option: &str| {
        let mut command = Command::new(program);
        command.args([option, "--"]).args((program == "chmod").then_some("u+rwx")).arg(path);
        let _ = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    };
    run("chmod", "-R");
    run("rm", "-rf");
    fs::symlink_metadata(path).is_err()
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
