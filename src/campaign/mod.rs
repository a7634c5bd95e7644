//! How is a campaign run, recorded and resumed?

mod config;
pub mod demos;
mod draw;
mod record;
mod reports;

#[cfg(feature = "train")]
mod device;
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

pub use config::CampaignConfig;
pub use models::{KNOWN, fetch, home, resolve};
pub use record::{EpisodeRow, Publication, RunRecord};
pub use reports::{CandidateReport, UpdateReport};
#[cfg(feature = "train")]
pub use run::{Campaign, Parts};
#[cfg(feature = "train")]
pub use warmup::{Warmup, run as run_warmup};
