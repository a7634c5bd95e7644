//! How is a campaign run, recorded and resumed?

mod aa;
mod balanced;
mod candidates;
mod config;
pub mod demos;
mod draw;
mod exchanges;
mod gates;
mod ledger;
mod local_policy;
mod methods;
mod policies;
mod record;
mod replays;
mod reports;
mod run;
mod runtime;
mod script;
mod sections;
mod steps;
mod teach;
mod training;

pub use aa::AaQuestion;
pub use balanced::TopUpReport;
pub use candidates::{Bench, Builder};
pub use config::CampaignConfig;
pub use exchanges::ExchangeRow;
pub use gates::{GateLine, explain, gate_lines, task_counts};
pub use local_policy::LocalPolicy;
pub use record::{Arm, EpisodeRow, Publication, RunRecord};
pub use replays::{KEPT, Machine, Replays};
pub use reports::{CandidateReport, TeacherReport, UpdateReport};
pub use run::{Beginning, Campaign, Parts, first_harness, newest_harness};
pub use steps::{HoldoutReport, ScreenReport, Seeds, SkillsReport};
pub use teach::{current_plugins, rejected_ideas};
