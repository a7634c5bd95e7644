//! The objective: advantages of a group, the loss of a token, and the one number it is divided by.

mod advantage;
mod aggregation;
mod correction;
mod kl;
mod policy_loss;
#[cfg(test)]
mod tests;

pub use advantage::{AdvantageKind, GroupAdvantages, group_advantages, pooled_advantages};
pub use aggregation::{Aggregation, Counted};
pub use correction::Correction;
pub use kl::{KlEstimator, KlPenalty};
pub use policy_loss::{Objective, Rows, TokenLoss, effective_sample_size};

/// Log-ratios are clamped to ±20 before `exp`: e^20 is still finite when squared in f32.
const LOG_RATIO_LIMIT: f32 = 20.0;
