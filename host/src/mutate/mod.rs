//! How does a package with tests become a pool of repair tasks?
//!
//! A mutation is one exact edit of the source. What this room deliberately does
//! not do: it runs nothing outside a sandbox, asks no model for a text, and
//! decides nothing about a task that `task::Task::verify` would decide otherwise.

mod calls;
mod conditions;
mod edit;
mod error;
mod folder;
mod issue;
mod leak;
mod literals;
mod mutations;
mod observe;
mod package;
mod pool;
mod screen;
mod split;
mod state;
mod statements;
#[cfg(test)]
mod tests;
mod variables;

pub use edit::Edit;
pub use error::MutateError;
pub use mutations::{Kind, Mutation, Place, mutations};
pub use pool::{Event, Options, PackageReport, PoolReport, build};
pub use split::Split;
