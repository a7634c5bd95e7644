//! The objective: advantages of a group, the loss of a token, and the one number it is divided by.

mod advantage;
mod aggregation;
mod policy_loss;
#[cfg(test)]
mod tests;

pub use advantage::{AdvantageKind, GroupAdvantages, group_advantages};
pub use aggregation::Aggregation;
pub use policy_loss::{Objective, Rows, TokenLoss, effective_sample_size, importance_correction, kl_penalty};
