//! Which problems are there, and what decides whether one is solved?
//!
//! Task folders have the layout of Harbor (schema 1.4). What this room
//! deliberately does not do: it never shows a test, a reference patch or a reward
//! to anything but its caller, and it builds and pulls no container images: a task's
//! files lie in `environment/workspace`, or in an image that the engine has.

mod cache;
#[cfg(test)]
mod complaints;
mod dockerfile;
mod error;
mod forgery;
mod format;
mod graded;
mod grading;
mod guard;
mod load;
mod predictions;
mod quarantine;
mod reward;
mod steps;
mod validate;
mod verify;

#[cfg(test)]
mod tests;

pub use cache::{EVALUATOR, ResultCache};
pub use error::{TaskError, VerifyError};
pub use grading::{Apply, GRADING_FILE, Grading, Rule};
pub use load::{Reference, Task, TaskSet};
pub use predictions::{Prediction, PredictionsError, read_predictions};
pub use quarantine::Quarantine;
pub use validate::{Check, TaskReport, ValidationReport, validate, validate_folder};
pub use verify::Verdict;
