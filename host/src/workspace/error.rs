//! What can go wrong with a workspace?

use std::io;
use std::path::{Path, PathBuf};

/// Trouble with a workspace, its sandbox or its git.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(
        "bubblewrap (`bwrap`) was not found, and no command runs without it\n\
         help: install it: `apt-get install bubblewrap`, `dnf install bubblewrap` or `pacman -S bubblewrap`"
    )]
    NoBubblewrap,
    #[error(
        "git was not found\nhelp: install it: `apt-get install git`, `dnf install git` or `pacman -S git`"
    )]
    NoGit,
    #[error(
        "the sandbox does not start: {reason}\n\
         help: bubblewrap needs user namespaces; try `bwrap --unshare-all --ro-bind / / true`, and see \
         `sysctl kernel.unprivileged_userns_clone` and `sysctl kernel.apparmor_restrict_unprivileged_userns`"
    )]
    SandboxRefused { reason: String },
    #[error(
        "no overlay can be mounted: {reason}\nhelp: set `files = \"auto\"` or `\"copy\"` in the configuration of workspaces"
    )]
    NoOverlay { reason: String },
    #[error(
        "no container engine was found\n\
         help: start `podman system service --time=0`, or name the engine's socket as `container.socket`"
    )]
    NoEngine,
    #[error("the container engine failed while {action}: {reason}\nhelp: see the log of podman or Docker")]
    Engine { action: &'static str, reason: String },
    #[error(
        "the container engine has no image `{image}`\n\
         help: get it with `podman pull {image}` (or `docker pull`, `podman load`, `podman import`); nothing is pulled here"
    )]
    NoImage { image: String },
    #[error(
        "the files lie in the image `{image}`, and the back-end is not `container`\n\
         help: set `backend = \"container\"` in the settings of workspaces, and get the image with `podman pull {image}`"
    )]
    NeedsContainer { image: String },
    #[error(
        "the files of the image `{image}` cannot be made ready: {reason}\n\
         help: see the task's `environment/setup.sh` and its `workdir`"
    )]
    ImageSetup { image: String, reason: String },
    #[error(
        "commands may not run without a sandbox\n\
         help: give `--allow-host-commands` if this machine is one that they may do anything with"
    )]
    HostNotAllowed,
    #[error(
        "without a sandbox `{to}` cannot be shown to commands\n\
         help: verify with the back-end `bubblewrap` or `container`"
    )]
    NoMounts { to: String },
    #[error("`{entry}` is not an allowed host\nhelp: write `name:port` or `*.name:port`")]
    BadAllowed { entry: String },
    #[error(
        "`{}` has {free} bytes free and {needed} are needed for another workspace\n\
         help: free some space, run `tandem gc`, or lower `min_free_bytes`",
        path.display()
    )]
    DiskFull { path: PathBuf, free: u64, needed: u64 },
    #[error(
        "a workspace did not start in {limit} seconds\nhelp: see whether the machine or its container engine is overloaded"
    )]
    StartTimeout { limit: u64 },
    #[error("{action} `{}` failed: {source}", path.display())]
    Io { action: &'static str, path: PathBuf, source: io::Error },
    #[error(
        "`{}` is not a file, a folder or a link\nhelp: remove it; a workspace holds nothing else",
        path.display()
    )]
    SpecialFile { path: PathBuf },
    #[error("{what}: {used} {unit} and the limit is {limit}")]
    TooLarge { what: &'static str, used: u64, limit: u64, unit: &'static str },
    #[error("the command cannot be started: {reason}")]
    BadCommand { reason: String },
    #[error("`git {command}` failed: {reason}")]
    Git { command: String, reason: String },
    #[error("`git {command}` took longer than {limit} seconds")]
    GitTimeout { command: String, limit: u64 },
    #[error(
        "{what} was ended from outside by signal {signal}\nhelp: see whether the machine ran out of memory"
    )]
    Killed { what: String, signal: i32 },
    #[error("git cannot read the work tree: {reason}")]
    UnreadableWorkTree { reason: String },
    #[error("the patch does not apply to the task's files: {reason}")]
    DoesNotApply { reason: String },
}

impl Error {
    /// Wraps what the system said about a path.
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { action, path, source }
    }

    /// True for what an agent can bring about by what it leaves in its
    /// workspace. An episode that meets it is valid; all else is infrastructure.
    pub fn is_caused_by_agent(&self) -> bool {
        matches!(
            self,
            Self::TooLarge { .. }
                | Self::BadCommand { .. }
                | Self::GitTimeout { .. }
                | Self::UnreadableWorkTree { .. }
                | Self::DoesNotApply { .. }
        )
    }
}
