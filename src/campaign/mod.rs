//! How is a campaign run, recorded and resumed?

mod candidates;
mod config;
pub mod demos;
mod draw;
mod exchanges;
mod record;
mod replays;
mod reports;
mod teach;

mod device;
mod ledger;
mod local_policy;
mod models;
mod run;
mod runtime;
mod warmup;

pub use candidates::{Bench, Builder};
pub use config::CampaignConfig;
pub use exchanges::ExchangeRow;
pub use models::{KNOWN, fetch, home, resolve};
pub use record::{Arm, EpisodeRow, Publication, RunRecord};
pub use replays::{KEPT, Machine, Replays};
pub use reports::{CandidateReport, TeacherReport, UpdateReport};
pub use run::{Campaign, Parts};
pub use teach::{current_plugins, rejected_ideas};
pub use warmup::{Warmup, run as run_warmup};
