//! The optimiser: gradients of a step, their global norm, AdamW with f32 master weights, schedules.

mod adamw;
#[cfg(feature = "cuda")]
mod fused;
mod gradients;
mod schedule;

pub use adamw::{AdamW, AdamWConfig, Moments, OptimizerError};
pub(crate) use adamw::{has_trainable, trainable_lengths};
pub use gradients::StepGradients;
pub use schedule::{Decay, Schedule};
