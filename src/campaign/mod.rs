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

#[cfg(feature = "train")]
pub mod device;
// A run's ledger is kept by the run alone; its tests need no trainer.
mod ledger;
#[cfg(feature = "train")]
mod local_policy;
mod models;
#[cfg(feature = "train")]
mod run;
#[cfg(feature = "train")]
mod runtime;
#[cfg(feature = "train")]
mod warmup;

pub use candidates::{Bench, Builder};
pub use config::CampaignConfig;
pub use exchanges::ExchangeRow;
pub use models::{KNOWN, fetch, home, resolve};
pub use record::{Arm, EpisodeRow, Publication, RunRecord};
pub use replays::{KEPT, Machine, Replays};
pub use reports::{CandidateReport, TeacherReport, UpdateReport};
#[cfg(feature = "train")]
pub use run::{Campaign, Parts};
pub use teach::{current_plugins, rejected_ideas};
#[cfg(feature = "train")]
pub use warmup::{Warmup, run as run_warmup};
