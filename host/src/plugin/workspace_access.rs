//! What the capabilities `workspace-read`, `workspace-write` and `exec` reach.
//! The room `workspace` implements it; the engine only knows this trait.

use std::time::Duration;

use async_trait::async_trait;

/// A file or folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkspaceEntry {
    pub path: String,
    pub is_folder: bool,
    pub bytes: u64,
}

/// A line that a search found. Lines count from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchHit {
    pub path: String,
    pub line: u32,
    pub text: String,
}

/// What a program run in the workspace left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecOutput {
    /// None when it was stopped at its time limit.
    pub exit_code: Option<i32>,
    /// Standard output and error in the order they came, cut head and tail at the host's cap.
    pub text: Vec<u8>,
}

/// Why the workspace could not do it. The texts reach the plugin.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WorkspaceError {
    #[error("`{0}` does not exist in the workspace")]
    NotFound(String),
    #[error("`{0}` is outside the workspace or may not be used")]
    Denied(String),
    #[error("{0}")]
    TooLarge(String),
    #[error("{0}")]
    Failed(String),
}

/// A workspace as plugins reach it. Every path is relative to the workspace;
/// `..` and links that lead out of it are [`WorkspaceError::Denied`].
#[async_trait]
pub trait WorkspaceAccess: Send + Sync {
    async fn read(&self, path: &str) -> Result<Vec<u8>, WorkspaceError>;
    async fn list(&self, path: &str) -> Result<Vec<WorkspaceEntry>, WorkspaceError>;
    async fn stat(&self, path: &str) -> Result<WorkspaceEntry, WorkspaceError>;
    /// Lines that contain `text` in files whose name ends in `suffix`, at most `max_hits`.
    async fn search(&self, text: &str, suffix: &str, max_hits: u32)
    -> Result<Vec<SearchHit>, WorkspaceError>;
    /// The difference of the work tree to the base commit.
    async fn diff(&self) -> Result<Vec<u8>, WorkspaceError>;
    async fn untracked(&self) -> Result<Vec<String>, WorkspaceError>;
    async fn write(&self, path: &str, content: &[u8]) -> Result<(), WorkspaceError>;
    async fn exec(&self, argv: &[String], timeout: Duration) -> Result<ExecOutput, WorkspaceError>;
}
