//! How does a harness get better? Diagnosis, teachers, candidates and the gate.

mod catalog;
mod catalog_edits;
mod catalog_entries;
mod commands;
mod edit;
mod gate;
mod proposal;
mod signals;
mod symptoms;
pub mod teacher;
#[cfg(test)]
pub(crate) mod testkit;

pub use catalog::Catalog;
pub use edit::{Edit, EditKind};
pub use gate::{
    ArmCounts, Characteristics, Claim, Explanation, GateConfig, GateReport, PairedTask, PairedTest, Pool,
    Question, Random, Spending, Verdict, as_recorded, differences, gate_cost, simulate,
};
pub use proposal::{Manifest, Proposal};
pub use signals::{Diagnosis, Signal, diagnose};
