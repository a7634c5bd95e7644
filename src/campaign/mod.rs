//! How is a campaign run, recorded and resumed?

mod candidates;
mod config;
pub mod demos;
mod draw;
mod events;
mod exchanges;
mod gates;
mod layout2;
mod ledger;
mod local_policy;
mod lock;
mod policies;
mod projections;
mod record;
#[cfg(test)]
mod record_tests;
mod replays;
mod reports;
mod retention;
mod run;
mod runtime;
mod script;
mod teach;

pub use candidates::{Bench, Builder};
pub use config::CampaignConfig;
pub use draw::{order as draw_order, seed as draw_seed};
pub use events::{Event, StoredEvent};
pub use exchanges::ExchangeRow;
pub use gates::{GateLine, explain, gate_lines, task_counts};
pub use ledger::gate_id_of;
pub use local_policy::LocalPolicy;
pub use lock::RunLock;
pub use policies::PolicyRuntime;
pub use record::{Arm, EpisodeRow, Place, Publication, RunRecord};
pub use replays::{KEPT, Machine, Replays};
pub use reports::{CandidateReport, TeacherReport, UpdateReport};
pub use run::{Campaign, Parts};
pub use teach::{current_plugins, rejected_ideas};
