//! Which problems are there, and what decides whether one is solved?
//!
//! Task folders have the layout of Harbor (schema 1.4). What this room
//! deliberately does not do: it never shows a test, a reference patch or a reward
//! to anything but its caller, and it builds no container images: a task's files
//! lie in `environment/workspace`.

mod dockerfile;
mod error;
mod format;
mod load;
mod reward;
mod validate;
mod verify;

#[cfg(test)]
mod tests;

pub use error::{TaskError, VerifyError};
pub use load::{Reference, Task, TaskSet};
pub use validate::{Check, TaskReport, ValidationReport, validate, validate_folder};
pub use verify::Verdict;
