//! Which limits hold for a workspace and what runs in it?

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Where workspaces are made and what they may use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct WorkspaceConfig {
    /// Folder in which workspaces are made; the system's folder for temporary
    /// files when not given. Run as root, every folder above it must be
    /// passable (`x`) for other users, since commands run as a plain user.
    pub root: Option<PathBuf>,
    pub sandbox: SandboxLimits,
    pub extract: ExtractLimits,
}

impl WorkspaceConfig {
    /// The folder in which workspaces are made.
    pub fn root(&self) -> PathBuf {
        self.root.clone().unwrap_or_else(std::env::temp_dir)
    }
}

/// Limits of each command. A command past one of them fails as it would on a
/// full machine; none of them ends the episode.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SandboxLimits {
    /// Address space of each process, bytes (`RLIMIT_AS`).
    pub address_space: u64,
    /// Processes and threads of one command (`RLIMIT_NPROC`). Without effect
    /// where the host runs as root and the kernel refuses user namespaces to
    /// plain users.
    pub processes: u64,
    /// Size of any file that is written, bytes (`RLIMIT_FSIZE`).
    pub file_bytes: u64,
    /// Output that is kept from the start of a command, bytes.
    pub output_head: usize,
    /// Output that is kept from its end, bytes.
    pub output_tail: usize,
}

impl Default for SandboxLimits {
    fn default() -> Self {
        Self {
            address_space: 4 << 30,
            processes: 256,
            file_bytes: 256 << 20,
            output_head: 4 << 20,
            output_tail: 1 << 20,
        }
    }
}

/// Limits of reading a work tree back. A work tree past them has no patch of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ExtractLimits {
    /// Files and folders of a workspace.
    pub entries: u64,
    /// Bytes of all files together.
    pub total_bytes: u64,
    /// Bytes of a patch.
    pub patch_bytes: u64,
    /// Seconds that one git command may take.
    pub git_seconds: u64,
}

impl Default for ExtractLimits {
    fn default() -> Self {
        Self { entries: 100_000, total_bytes: 1 << 30, patch_bytes: 16 << 20, git_seconds: 30 }
    }
}
