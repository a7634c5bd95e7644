//! What runs the commands of a workspace? One trait, three of its kind.

use std::fmt::Debug;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;

use super::cgroup::InForce;
use super::command::{CommandOutput, SandboxCommand};
use super::error::Error;

/// A place for commands, with its mounts and limits. Each command is a fresh
/// process with nothing left of the one before but files.
#[async_trait]
pub trait Sandbox: Debug + Send + Sync {
    /// Runs a command to its end or to its time limit. All its processes are
    /// dead when this returns, and when its future is dropped.
    ///
    /// # Errors
    /// [`Error::BadCommand`] for arguments that no system takes, and trouble of
    /// the sandbox itself, which is never the command's own doing.
    async fn run(&self, command: &SandboxCommand) -> Result<CommandOutput, Error>;

    /// Leaves no process in the sandbox, not even one that waits for the next command.
    async fn settle(&self) {}

    /// The user and group of the host that owns what commands write, where it
    /// is not the user of the host itself.
    fn owner(&self) -> Option<u32>;

    /// What enforces the caps of memory, processes and processors.
    fn in_force(&self) -> InForce;
}

/// Where the parts of a workspace lie on the host.
#[derive(Clone, Debug)]
pub(super) struct Places {
    /// The work tree.
    pub(super) tree: PathBuf,
    /// `/tmp` of commands.
    pub(super) tmp: PathBuf,
    /// Their home.
    pub(super) home: PathBuf,
}

static HOST_ALLOWED: AtomicBool = AtomicBool::new(false);

/// Lets workspaces of [`super::Backend::Host`] be made in this process. There
/// is no sandbox around their commands: whatever the policy writes runs as this
/// user, with its files and its network.
pub fn allow_host_backend() {
    if !HOST_ALLOWED.swap(true, Ordering::Relaxed) {
        tracing::warn!(
            "commands run on this host without a sandbox: they reach every file, process and network \
             that this user reaches"
        );
    }
}

pub(super) fn check_host_allowed() -> Result<(), Error> {
    match HOST_ALLOWED.load(Ordering::Relaxed) {
        true => Ok(()),
        false => Err(Error::HostNotAllowed),
    }
}
