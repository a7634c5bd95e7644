//! Where do the files of a task live, and where do its commands run?
//!
//! What this room deliberately does not do: it knows no task format, no verdict
//! and no policy. Nothing of an agent ever runs outside [`Sandbox`], and no git
//! command of the host ever reads a repository that an agent could write.

mod access;
mod beneath;
pub mod caps;
mod config;
mod error;
mod extract;
mod folder;
mod git;
mod output;
mod sandbox;
mod scratch;
mod snapshot;
#[cfg(test)]
mod tests;
mod workspace;

pub use config::{ExtractLimits, SandboxLimits, WorkspaceConfig};
pub use error::Error;
pub use extract::Extracted;
pub use folder::Folder;
pub use output::Captured;
pub use sandbox::{CommandOutput, Mount, MountAccess, Sandbox, SandboxCommand, WORKSPACE_PATH};
pub use snapshot::Snapshot;
pub use workspace::Workspace;
