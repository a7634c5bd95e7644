//! How is a campaign run, recorded and resumed?

mod candidates;
mod config;
pub mod demos;
mod draw;
mod exchanges;
mod gates;
mod ledger;
mod local_policy;
mod record;
mod replays;
mod reports;
mod run;
mod runtime;
mod teach;

pub use candidates::{Bench, Builder};
pub use config::CampaignConfig;
pub use exchanges::ExchangeRow;
pub use gates::{GateLine, explain, gate_lines, task_counts};
pub use local_policy::LocalPolicy;
pub use record::{Arm, EpisodeRow, Publication, RunRecord};
pub use replays::{KEPT, Machine, Replays};
pub use reports::{CandidateReport, TeacherReport, UpdateReport};
pub use run::{Campaign, Parts};
pub use teach::{current_plugins, rejected_ideas};
