//! What is the loss of one sampled token, given its log-probabilities and its advantage?

use burn::prelude::*;
use burn::tensor::DType;
use serde::{Deserialize, Serialize};

use super::LOG_RATIO_LIMIT;

/// A policy-gradient objective on the ratio `r = exp(ℓ_θ − ℓ_old)` of a token.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Objective {
    /// `−min(r·A, clip(r, 1−low, 1+high)·A)`: PPO and GRPO; the upper bound is raised as in DAPO.
    Clip {
        #[serde(default = "clip_low")]
        low: f32,
        #[serde(default = "clip_high")]
        high: f32,
        /// Dual clip: where the advantage is negative, a ratio over this has no gradient either; over 1.
        #[serde(default)]
        dual: Option<f32>,
    },
    /// The clip on the ratio of the whole sequence, `s = exp(mean_t log r_t)` (GSPO).
    Gspo {
        #[serde(default = "gspo_low")]
        low: f32,
        #[serde(default = "gspo_high")]
        high: f32,
    },
    /// `−sg(min(r, cap))·A·ℓ_θ`: no token loses its gradient (CISPO, MiniMax-M1).
    Cispo {
        #[serde(default = "cispo_cap")]
        cap: f32,
    },
    /// `−keep·A·r + tau·(log r)²`; a token is dropped when its *probability* has moved by more than
    /// `bound` in the direction in which its advantage pushes (DPPO with binary total variation).
    Dppo {
        #[serde(default = "dppo_bound")]
        bound: f32,
        #[serde(default = "dppo_tau")]
        tau: f32,
    },
    /// `−sg(min(r, ESS))·A·ℓ_θ + (1−ESS)·KL` where ESS is the normalised effective sample size of
    /// all ratios of the step (P3O, "Trust the Batch").
    P3o,
}

fn clip_low() -> f32 {
    0.2
}
fn clip_high() -> f32 {
    0.28
}
fn gspo_low() -> f32 {
    3e-4
}
fn gspo_high() -> f32 {
    4e-4
}
fn cispo_cap() -> f32 {
    4.0
}
fn dppo_bound() -> f32 {
    0.2
}
fn dppo_tau() -> f32 {
    1e-3
}

impl Default for Objective {
    fn default() -> Self {
        Objective::Clip { low: clip_low(), high: clip_high(), dual: None }
    }
}

/// What the loss of `n` tokens needs besides their log-probabilities; each tensor is `[n]`, f32.
#[derive(Clone, Debug)]
pub struct Rows {
    /// `ℓ_old`: log-probabilities under the policy that the ratio is measured against.
    pub old: Tensor<1>,
    /// The advantage of the token's sample.
    pub advantage: Tensor<1>,
    /// The mean of `log r` over the token's sequence, for [`Objective::Gspo`] only.
    pub sequence_log_ratio: Option<Tensor<1>>,
    /// The effective sample size of the step, for [`Objective::P3o`] only (else unused).
    pub effective_sample_size: f32,
}

/// The loss of each token before weights and aggregation.
pub struct TokenLoss {
    /// To be minimised; `[n]`, differentiable in the log-probabilities.
    pub loss: Tensor<1>,
    /// 1 where the objective's bound cut the policy gradient of the token, else 0; `[n]`.
    pub limited: Tensor<1>,
}

impl Objective {
    /// Whether the loss of a token depends on the log-ratios of others, so that those of the whole
    /// step must be known before its gradient.
    pub fn needs_step_statistics(&self) -> bool {
        matches!(self, Objective::Gspo { .. } | Objective::P3o)
    }

    /// The loss of each token from `logp` = ℓ_θ, `[n]`.
    pub fn token_loss(&self, logp: Tensor<1>, rows: &Rows) -> TokenLoss {
        let log_ratio = logp.clone() - rows.old.clone();
        let advantage = rows.advantage.clone();
        match *self {
            Objective::Clip { low, high, dual } => {
                clipped(exp_clamped(log_ratio), advantage, low, high, dual)
            }
            Objective::Gspo { low, high } => {
                // The value is the sequence's ratio, the gradient goes through the token's own ℓ_θ.
                let own = logp.clone() - logp.detach();
                let sequence = match &rows.sequence_log_ratio {
                    Some(mean) => mean.clone() + own,
                    None => log_ratio,
                };
                clipped(exp_clamped(sequence), advantage, low, high, None)
            }
            Objective::Cispo { cap } => {
                let ratio = exp_clamped(log_ratio.detach());
                let limited = flags(ratio.clone().greater_elem(cap));
                let loss = -(ratio.clamp_max(cap) * advantage * logp);
                TokenLoss { loss, limited }
            }
            Objective::Dppo { bound, tau } => {
                let moved = logp.clone().detach().exp() - rows.old.clone().exp();
                let limited = cut(moved, advantage.clone(), -bound, bound);
                let keep = limited.clone().neg().add_scalar(1.0);
                let drift = log_ratio.clone().square().mul_scalar(tau);
                let loss = drift - keep * advantage * exp_clamped(log_ratio);
                TokenLoss { loss, limited }
            }
            Objective::P3o => {
                let ess = rows.effective_sample_size;
                let ratio = exp_clamped(log_ratio.clone().detach());
                // On policy every ratio is 1 up to rounding, and so is the cap: that is no cut.
                let limited = flags(ratio.clone().greater_elem(ess + 1e-4));
                let policy = ratio.clamp_max(ess) * advantage * logp;
                // k3 of (θ‖old) on samples of old, with the exponent bounded as in the source.
                let reverse = log_ratio.clone().neg().clamp(-10.0, 10.0).exp();
                let kl = (log_ratio + reverse).sub_scalar(1.0);
                TokenLoss { loss: kl.mul_scalar(1.0 - ess) - policy, limited }
            }
        }
    }
}

fn exp_clamped(log_ratio: Tensor<1>) -> Tensor<1> {
    log_ratio.clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT).exp()
}

/// 1 where true, in f32 whatever float type the device prefers.
fn flags(mask: Tensor<1, Bool>) -> Tensor<1> {
    mask.float().cast(DType::F32)
}

/// 1 where `value` lies beyond the bound towards which the advantage pushes it.
fn cut(value: Tensor<1>, advantage: Tensor<1>, lower: f32, upper: f32) -> Tensor<1> {
    let up = flags(advantage.clone().greater_elem(0.0)) * flags(value.clone().greater_elem(upper));
    let down = flags(advantage.lower_elem(0.0)) * flags(value.lower_elem(lower));
    up + down
}

/// `−min(r·A, clip(r)·A)`, written with the cut made explicit so that a tie (r = 1, on policy)
/// has the whole gradient and a cut token has none at all. With `dual`, where A is negative, not
/// below `dual·A` (Ye et al. 2020, arXiv:1912.09729).
fn clipped(ratio: Tensor<1>, advantage: Tensor<1>, low: f32, high: f32, dual: Option<f32>) -> TokenLoss {
    let value = ratio.clone().detach();
    let mut limited = cut(value.clone(), advantage.clone(), 1.0 - low, 1.0 + high);
    let mut bounded = value.clone().clamp(1.0 - low, 1.0 + high) * limited.clone();
    if let Some(dual) = dual {
        let runaway = flags(advantage.clone().lower_elem(0.0)) * flags(value.greater_elem(dual));
        bounded = bounded + runaway.clone().mul_scalar(dual);
        limited = limited + runaway;
    }
    let free = limited.clone().neg().add_scalar(1.0);
    let loss = -((ratio * free + bounded) * advantage);
    TokenLoss { loss, limited }
}

/// The normalised effective sample size `(Σw)² / ((Σw² + 1e-8)·n)` of `w = exp(log_ratio)`, in
/// `[1/n, 1]`; 1 for no token or sums that are not finite.
pub fn effective_sample_size(log_ratios: impl IntoIterator<Item = f64>) -> f64 {
    let limit = f64::from(LOG_RATIO_LIMIT);
    let (mut sum, mut squares, mut count) = (0.0, 0.0, 0.0);
    for log_ratio in log_ratios {
        let weight = log_ratio.clamp(-limit, limit).exp();
        sum += weight;
        squares += weight * weight;
        count += 1.0;
    }
    let size = sum * sum / ((squares + 1e-8) * count);
    if size.is_finite() { size } else { 1.0 }
}
