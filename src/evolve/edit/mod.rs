//! What does a candidate change in a harness? One type for every kind of change, whoever proposes it.
//!
//! An edit is applied to the harness that is in force and gives the manifest of another one; it knows
//! nothing of compilers, gates or records.

mod change;
mod limits;
mod prompt;
#[cfg(test)]
mod tests;

pub use change::{Beside, Edit, EditKind};
pub use limits::LimitsEdit;
pub use prompt::PromptName;

/// Names for a sentence.
fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}
