//! Many episodes at once: groups, retries, cancellation.
//!
//! What this room deliberately does not do: it neither draws tasks and seeds nor
//! keeps records. Who asks for episodes gives each one's id, group and seed, and
//! takes each record as it comes.

mod run;

pub use crate::agent::{Cancel, EpisodeSpec};
pub use run::{Cancelled, PolicyLost, RolloutConfig, RolloutError, Summary, run_many};
