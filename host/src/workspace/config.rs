//! Which limits hold for a workspace and what runs in it?

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Where workspaces are made, by what, and what they may use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct WorkspaceConfig {
    /// Folder in which workspaces are made; the system's folder for temporary
    /// files when not given. Run as root, every folder above it must be
    /// passable (`x`) for other users, since commands run as a plain user.
    pub root: Option<PathBuf>,
    /// What runs commands.
    pub backend: Backend,
    /// How a workspace gets its files.
    pub files: Files,
    /// Hours after its last use at which a workspace, container or process may
    /// be taken away although its owner lives.
    pub lease_hours: u64,
    /// Bytes that must be free where workspaces lie before another is made.
    pub min_free_bytes: u64,
    /// Seconds that a new workspace waits for free space before it is an error.
    pub free_wait_seconds: u64,
    /// Seconds that a workspace may take to start.
    pub start_seconds: u64,
    /// Workspaces that may start at once in this process.
    pub starting: usize,
    /// A folder of control groups (version 2) that this user may make groups in,
    /// with `memory` and `pids` turned on; found by itself when not given.
    pub cgroup: Option<PathBuf>,
    /// Hosts that commands may reach; none when empty.
    pub network: NetworkConfig,
    /// Settings of [`Backend::Container`].
    pub container: ContainerConfig,
    pub sandbox: SandboxLimits,
    pub extract: ExtractLimits,
}

impl Default for WorkspaceConfig {
    fn default() -> Self {
        Self {
            root: None,
            backend: Backend::default(),
            files: Files::default(),
            lease_hours: 24,
            min_free_bytes: 1 << 30,
            free_wait_seconds: 600,
            start_seconds: 60,
            starting: 4,
            cgroup: None,
            network: NetworkConfig::default(),
            container: ContainerConfig::default(),
            sandbox: SandboxLimits::default(),
            extract: ExtractLimits::default(),
        }
    }
}

impl WorkspaceConfig {
    /// The folder in which workspaces are made.
    pub fn root(&self) -> PathBuf {
        self.root.clone().unwrap_or_else(std::env::temp_dir)
    }

    pub(super) fn lease(&self) -> Duration {
        Duration::from_secs(self.lease_hours.saturating_mul(3600))
    }
}

/// What runs the commands of a workspace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Backend {
    /// Namespaces of the kernel, over the host's own programs.
    #[default]
    Bubblewrap,
    /// A container of podman or Docker, through the Docker API.
    Container,
    /// No sandbox at all: commands run as the user of the host and reach all
    /// that it reaches. Refused unless [`super::allow_host_backend`] was called.
    Host,
}

/// How a workspace gets its files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Files {
    /// An overlay for large trees where the kernel allows it, else a copy.
    #[default]
    Auto,
    /// A copy; by reference where the file system can (Btrfs, XFS).
    Copy,
    /// An overlay of the kernel; an error where it cannot be had.
    Overlay,
}

/// Which hosts commands may reach.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct NetworkConfig {
    /// `name:port` or `*.name:port`. Commands reach them through an HTTP proxy
    /// (`CONNECT`) that the host runs, named in `HTTPS_PROXY`; there is no other
    /// way out. Names that lead to a loopback or private address are refused
    /// unless they are such an address.
    pub allow: Vec<String>,
}

/// How containers are made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ContainerConfig {
    /// An image that the engine has; nothing is pulled. It needs `/bin/sh`.
    pub image: String,
    /// Socket of the engine; that of `DOCKER_HOST`, podman or Docker when not given.
    pub socket: Option<PathBuf>,
    /// Whether commands may write to the image's own files, in a layer that goes
    /// with the container and that no disk cap counts.
    pub writable_root: bool,
}

/// Limits of commands. One past them fails as it would on a full machine; none
/// of them ends the episode.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SandboxLimits {
    /// Address space of each process, bytes (`RLIMIT_AS`).
    pub address_space: u64,
    /// Memory of all processes of a workspace together, bytes; needs control groups.
    pub memory: u64,
    /// Processor time of all of them together, percent of one processor; needs
    /// control groups.
    pub cpu_percent: Option<u32>,
    /// Seconds of processor time of each process (`RLIMIT_CPU`).
    pub cpu_seconds: Option<u64>,
    /// Processes and threads of one workspace with control groups, else of one
    /// command (`RLIMIT_NPROC`). The latter is without effect where the host runs
    /// as root and the kernel refuses user namespaces to plain users.
    pub processes: u64,
    /// Size of any file that is written, bytes (`RLIMIT_FSIZE`).
    pub file_bytes: u64,
    /// Bytes that a workspace may take on the disk, beyond the task's own files.
    /// Looked at while a command runs; one that goes past it is stopped.
    pub disk_bytes: u64,
    /// Whether the commands of an agent start in one sandbox that stays between them, each as a process of
    /// its own (bubblewrap). Otherwise each has a new sandbox, which takes several times as long to start.
    pub resident: bool,
    /// Seconds without output after which a command is stopped.
    pub silent_seconds: Option<u64>,
    /// Output that is kept from the start of a command, bytes.
    pub output_head: usize,
    /// Output that is kept from its end, bytes.
    pub output_tail: usize,
}

impl Default for SandboxLimits {
    fn default() -> Self {
        Self {
            address_space: 4 << 30,
            memory: 4 << 30,
            cpu_percent: None,
            cpu_seconds: None,
            processes: 256,
            file_bytes: 256 << 20,
            disk_bytes: 2 << 30,
            resident: true,
            silent_seconds: None,
            output_head: 4 << 20,
            output_tail: 1 << 20,
        }
    }
}

/// Limits of reading a work tree back. A work tree past them has no patch of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ExtractLimits {
    /// Files and folders of a workspace, those that the task ignores left out.
    pub entries: u64,
    /// Bytes of all its files together.
    pub total_bytes: u64,
    /// Bytes of one file. A larger one is left out of the patch, which is told.
    pub file_bytes: u64,
    /// Bytes of a patch.
    pub patch_bytes: u64,
    /// Seconds that one git command may take.
    pub git_seconds: u64,
}

impl Default for ExtractLimits {
    fn default() -> Self {
        Self {
            entries: 100_000,
            total_bytes: 1 << 30,
            file_bytes: 8 << 20,
            patch_bytes: 16 << 20,
            git_seconds: 30,
        }
    }
}
