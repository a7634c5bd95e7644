//! Does a plugin do what its author says? The cases beside a plugin, read and run.
//!
//! What this room deliberately does not do: it builds and admits nothing, and it decides nothing
//! about a harness. A case calls the component as an episode does, in a real workspace when it
//! names files.

mod error;
mod expect;
mod format;
mod report;
mod run;
#[cfg(test)]
mod tests;

pub use error::CasesError;
pub use format::{Case, Cases, FILE, Step};
pub use report::{CaseReport, CasesReport, Verdict};
pub use run::run_cases;
