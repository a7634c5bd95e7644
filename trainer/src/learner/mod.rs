//! The learner: turns samples into an update of the policy.
//!
//! It knows nothing of episodes, tasks or rewards: a [`Sample`] is token ids, a mask of what the
//! policy sampled, and an advantage.

mod batch;
mod config;
mod error;
mod gradient;
mod head;
mod layers;
mod replicas;
mod report;
mod sample;
mod sft;
mod state;
mod step;
#[cfg(test)]
mod tests;

pub use config::{LearnerConfig, Recompute};
pub use error::LearnError;
pub use report::{MOST_SKIPS, Ratios, StepReport};
pub use sample::Sample;
pub use sft::{Sft, SftConfig, shuffled};
pub use step::{Learner, policy_logprobs};
