//! Where do the files of a task live, and where do its commands run?
//!
//! What this room deliberately does not do: it knows no task format, no verdict
//! and no policy. Nothing of an agent ever runs outside a [`Sandbox`], and no git
//! command of the host ever reads a repository that an agent could write.

mod access;
mod backend;
mod beneath;
mod bubblewrap;
pub mod caps;
mod cgroup;
mod checkpoint;
mod command;
mod config;
mod container;
mod disk;
mod error;
mod extract;
mod folder;
mod follow;
mod gc;
mod git;
mod ignored;
mod image;
mod lease;
mod output;
mod overlay;
mod plain;
mod programs;
mod project;
mod proxy;
mod put_back;
mod resident;
mod scratch;
mod signals;
mod snapshot;
#[cfg(test)]
mod tests;
mod tree;
mod workspace;

pub use backend::{Sandbox, allow_host_backend};
pub use cgroup::{InForce, in_force};
pub use checkpoint::Checkpoint;
pub use command::{CommandOutput, Mount, MountAccess, SandboxCommand, WORKSPACE_PATH};
pub use config::{
    Backend, ContainerConfig, ExtractLimits, Files, NetworkConfig, SandboxLimits, WorkspaceConfig,
};
pub use error::Error;
pub use extract::{Extracted, LeftOut};
pub use folder::Folder;
pub use gc::{Act, Swept, sweep};
pub use image::ImageFiles;
pub use lease::{Owner, ProcessId};
pub use output::Captured;
pub use project::{Project, ProjectSince};
pub use snapshot::Snapshot;
pub use workspace::Workspace;
