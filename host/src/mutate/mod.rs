//! How does a package with tests become a pool of repair tasks?
//!
//! A mutation is one exact edit of the source. What this room deliberately does
//! not do: it runs nothing outside a sandbox, asks no model for a text, and
//! decides nothing about a task that `task::Task::verify` would decide otherwise.

mod calls;
mod candidates;
mod conditions;
mod copies;
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
mod report;
mod screen;
mod split;
mod state;
mod statements;
#[cfg(test)]
mod tests;
mod variables;
mod work;

pub use edit::Edit;
pub use error::MutateError;
pub use mutations::{Kind, Mutation, Place, mutations};
pub use pool::{Event, Options, build};
pub use report::{PackageReport, PoolReport};
pub use split::Split;
