//! One plugin: is it admitted, and what does it answer when it is called?

mod workspace_access;

pub use workspace_access::{ExecOutput, SearchHit, WorkspaceAccess, WorkspaceEntry, WorkspaceError};
