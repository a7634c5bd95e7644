//! What does a plugin see where there is no workspace? Nothing, and it is told so.

use std::time::Duration;

use async_trait::async_trait;

use super::workspace_access::{ExecOutput, SearchHit, WorkspaceAccess, WorkspaceEntry, WorkspaceError};

/// An empty workspace that cannot be written and runs nothing: for trial calls and for
/// `plugin run` without a folder.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoWorkspace;

#[async_trait]
impl WorkspaceAccess for NoWorkspace {
    async fn read(&self, path: &str) -> Result<Vec<u8>, WorkspaceError> {
        Err(WorkspaceError::NotFound(path.to_owned()))
    }

    async fn list(&self, path: &str) -> Result<Vec<WorkspaceEntry>, WorkspaceError> {
        match path {
            "" | "." => Ok(Vec::new()),
            _ => Err(WorkspaceError::NotFound(path.to_owned())),
        }
    }

    async fn stat(&self, path: &str) -> Result<WorkspaceEntry, WorkspaceError> {
        Err(WorkspaceError::NotFound(path.to_owned()))
    }

    async fn search(&self, _: &str, _: &str, _: u32) -> Result<Vec<SearchHit>, WorkspaceError> {
        Ok(Vec::new())
    }

    async fn diff(&self) -> Result<Vec<u8>, WorkspaceError> {
        Ok(Vec::new())
    }

    async fn untracked(&self) -> Result<Vec<String>, WorkspaceError> {
        Ok(Vec::new())
    }

    async fn write(&self, path: &str, _: &[u8]) -> Result<(), WorkspaceError> {
        Err(WorkspaceError::Denied(path.to_owned()))
    }

    async fn exec(&self, argv: &[String], _: Duration) -> Result<ExecOutput, WorkspaceError> {
        let program = argv.first().cloned().unwrap_or_default();
        Err(WorkspaceError::NotFound(program))
    }
}
