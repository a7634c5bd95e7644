//! What can be set about learning?

use burn::prelude::Device;
use serde::{Deserialize, Serialize};

use super::LearnError;
use crate::objective::{Aggregation, Correction, KlPenalty, Objective};
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
    /// The temperature at which the samples of policy steps were drawn: every log-probability of a policy
    /// step, and of [`Learner::logprobs`](super::Learner::logprobs), is of that distribution.
    pub temperature: f32,
    /// The loss of a policy step.
    pub objective: Objective,
    /// The denominator of a step.
    pub aggregation: Aggregation,
    /// The importance weight for a sampler that computes otherwise. It applies to samples that carry
    /// `old_logprobs`; without them the sampler's own log-probabilities are ℓ_old.
    pub correction: Correction,
    /// The penalty for leaving the reference policy; when it is on, each sample has to carry
    /// `reference_logprobs`.
    pub kl: KlPenalty,
    /// The entropy of each trained token's distribution, in nats, is added to what is maximised with this
    /// weight; of policy steps.
    pub entropy_bonus: f32,
    /// Upper bound of `sequences · padded length` in one forward pass, which bounds the memory of
    /// a step. A longer sequence makes a micro-batch of its own.
    pub micro_batch_tokens: usize,
    /// Sequences are padded to a multiple of this many tokens. 0 is what suits the device: 256 on
    /// CUDA, where every new shape costs kernel tuning, and 1 on the CPU.
    pub pad_to_multiple_of: usize,
    /// The head is run on at most this many positions at once, which bounds the `[rows, vocabulary]`
    /// matrices. 0 is what suits the device: 4096 on CUDA, 256 on the CPU.
    pub head_rows: usize,
    /// What the backward pass finds of the forward pass.
    #[serde(skip_serializing_if = "Recompute::is_none")]
    pub recompute: Recompute,
}

/// What a backward pass does not keep of the forward pass and computes again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Recompute {
    /// Nothing: all that it needs is kept. The fastest way, if it fits.
    #[default]
    None,
    /// All within a layer: kept is the input of each layer alone, and a layer runs forward again
    /// right before its backward pass (Chen et al. 2016, arXiv:1604.06174). The gradient is the
    /// same; a step takes about a third longer.
    Layer,
}

impl Recompute {
    /// Whether nothing is computed again.
    pub fn is_none(&self) -> bool {
        *self == Self::None
    }
}

/// How much is computed at once on a device.
pub(super) struct Sizes {
    pub pad_to_multiple_of: usize,
    pub head_rows: usize,
}

impl Default for LearnerConfig {
    fn default() -> Self {
        Self {
            learning_rate: 1e-4,
            schedule: Schedule::default(),
            adamw: AdamWConfig::default(),
            max_grad_norm: 1.0,
            temperature: 1.0,
            objective: Objective::default(),
            aggregation: Aggregation::default(),
            correction: Correction::default(),
            kl: KlPenalty::default(),
            entropy_bonus: 0.0,
            micro_batch_tokens: 2048,
            pad_to_multiple_of: 0,
            head_rows: 0,
            recompute: Recompute::default(),
        }
    }
}

impl LearnerConfig {
    /// The one rule of what suits a device, where the settings leave it open.
    pub(super) fn sizes(&self, device: &Device) -> Sizes {
        let on_cpu = device.clone().inner() == Device::flex();
        let or = |given: usize, cpu: usize, cuda: usize| match given {
            0 if on_cpu => cpu,
            0 => cuda,
            given => given,
        };
        Sizes {
            pad_to_multiple_of: or(self.pad_to_multiple_of, 1, 256),
            head_rows: or(self.head_rows, 256, 4096),
        }
    }

    /// Refuses values that cannot work.
    pub fn check(&self) -> Result<(), LearnError> {
        let constant = match self.aggregation {
            Aggregation::Constant { tokens } => tokens,
            Aggregation::TokenMean => 1.0,
        };
        let rules = [
            ("learning_rate", self.learning_rate, self.learning_rate.is_finite()),
            ("max_grad_norm", self.max_grad_norm, !self.max_grad_norm.is_nan()),
            ("temperature", f64::from(self.temperature), self.temperature.is_finite()),
            ("aggregation.tokens", constant, constant.is_finite()),
            ("micro_batch_tokens", self.micro_batch_tokens as f64, true),
        ];
        for (name, value, usable) in rules {
            if !usable || value <= 0.0 {
                return Err(LearnError::BadSetting { name, value, wanted: "a number over 0" });
            }
        }
        if let Some((name, value)) = self.correction.fault() {
            let wanted = "a number over 0, and over `correction.low`";
            return Err(LearnError::BadSetting { name, value, wanted });
        }
        if let Objective::Clip { dual: Some(dual), .. } = self.objective
            && !(dual.is_finite() && dual > 1.0)
        {
            let (name, value) = ("objective.dual", f64::from(dual));
            return Err(LearnError::BadSetting { name, value, wanted: "a number over 1" });
        }
        for (name, value) in [("kl.coefficient", self.kl.coefficient), ("entropy_bonus", self.entropy_bonus)]
        {
            if !value.is_finite() || value < 0.0 {
                let (value, wanted) = (f64::from(value), "0 or a positive number");
                return Err(LearnError::BadSetting { name, value, wanted });
            }
        }
        Ok(())
    }
}
