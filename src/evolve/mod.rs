//! How does a harness get better? Diagnosis, teachers, candidates and the gate.

mod catalog;
mod gate;
mod signals;

pub use catalog::{Catalog, Proposal};
pub use gate::{ArmCounts, GateConfig, GateReport, PairedTask, PairedTest, Verdict};
pub use signals::{Diagnosis, Signal, diagnose};
