//! How does a harness get better? Diagnosis, teachers, candidates and the gate.

mod catalog;
mod catalog_entries;
mod commands;
mod gate;
mod proposal;
mod signals;
mod symptoms;
pub mod teacher;
#[cfg(test)]
mod testkit;

pub use catalog::Catalog;
pub use gate::{ArmCounts, GateConfig, GateReport, PairedTask, PairedTest, Verdict};
pub use proposal::{Manifest, Proposal};
pub use signals::{Diagnosis, Signal, diagnose};
