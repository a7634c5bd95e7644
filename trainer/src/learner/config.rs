//! What can be set about learning?

use serde::{Deserialize, Serialize};

use super::LearnError;
use crate::objective::{Aggregation, Objective};
use crate::optimizer::{AdamWConfig, Schedule};

/// Settings of a [`Learner`](super::Learner); each has a default that works.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LearnerConfig {
    /// The full learning rate; the schedule multiplies it by at most 1.
    pub learning_rate: f64,
    /// Warm-up and decay of the learning rate.
    pub schedule: Schedule,
    /// AdamW's own settings.
    pub adamw: AdamWConfig,
    /// Gradients are scaled down to this global L2 norm; `inf` for never.
    pub max_grad_norm: f64,
    /// The loss of a policy step.
    pub objective: Objective,
    /// The denominator of a step.
    pub aggregation: Aggregation,
    /// Bound of the importance weight `exp(ℓ_old − ℓ_sampler)`. It applies to samples that carry
    /// `old_logprobs`; without them the sampler's own log-probabilities are ℓ_old.
    pub correction_cap: f32,
    /// Weight of the KL penalty to the reference policy; 0 for none, else each sample has to carry
    /// `reference_logprobs`.
    pub kl_coefficient: f32,
    /// Upper bound of `sequences · padded length` in one forward pass, which bounds the memory of
    /// a step. A longer sequence makes a micro-batch of its own.
    pub micro_batch_tokens: usize,
    /// Sequences are padded to a multiple of this many tokens; more than 1 keeps the number of
    /// shapes small where each new one costs kernel tuning (CUDA).
    pub pad_to_multiple_of: usize,
    /// The head is run on at most this many positions at once, which bounds the `[rows, vocabulary]`
    /// matrices.
    pub head_rows: usize,
}

impl Default for LearnerConfig {
    fn default() -> Self {
        Self {
            learning_rate: 1e-4,
            schedule: Schedule::default(),
            adamw: AdamWConfig::default(),
            max_grad_norm: 1.0,
            objective: Objective::default(),
            aggregation: Aggregation::default(),
            correction_cap: 2.0,
            kl_coefficient: 0.0,
            micro_batch_tokens: 2048,
            pad_to_multiple_of: 1,
            head_rows: 256,
        }
    }
}

impl LearnerConfig {
    /// Refuses values that cannot work.
    pub fn check(&self) -> Result<(), LearnError> {
        let constant = match self.aggregation {
            Aggregation::Constant { tokens } => tokens,
            Aggregation::TokenMean => 1.0,
        };
        let rules = [
            ("learning_rate", self.learning_rate, self.learning_rate.is_finite()),
            ("max_grad_norm", self.max_grad_norm, !self.max_grad_norm.is_nan()),
            ("aggregation.tokens", constant, constant.is_finite()),
            ("correction_cap", f64::from(self.correction_cap), self.correction_cap.is_finite()),
            ("micro_batch_tokens", self.micro_batch_tokens as f64, true),
            ("pad_to_multiple_of", self.pad_to_multiple_of as f64, true),
            ("head_rows", self.head_rows as f64, true),
        ];
        for (name, value, usable) in rules {
            if !usable || value <= 0.0 {
                return Err(LearnError::BadSetting { name, value, wanted: "a number over 0" });
            }
        }
        let kl = f64::from(self.kl_coefficient);
        if !kl.is_finite() || kl < 0.0 {
            let wanted = "0 or a positive number";
            return Err(LearnError::BadSetting { name: "kl_coefficient", value: kl, wanted });
        }
        Ok(())
    }
}
