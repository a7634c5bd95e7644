//! How does a harness get better? Diagnosis, teachers, candidates and the gate.

mod catalog;
mod catalog_entries;
mod commands;
mod gate;
mod signals;
mod symptoms;
#[cfg(test)]
mod testkit;

pub use catalog::{Catalog, Proposal};
pub use gate::{ArmCounts, GateConfig, GateReport, PairedTask, PairedTest, Verdict};
pub use signals::{Diagnosis, Signal, diagnose};
