//! What happened in a step?

use burn::prelude::*;
use serde::{Deserialize, Serialize};

use super::Sample;
use super::batch::Row;
use super::gradient::Pass;

/// Skipped steps in a row after which a run should end.
pub const MOST_SKIPS: u32 = 3;

/// The record of one optimiser step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepReport {
    /// The loss before the step: nats a token for a supervised step with the default aggregation.
    pub loss: f64,
    /// Global L2 norm of the gradient, before it was clipped.
    pub grad_norm: f64,
    /// L2 norm of the change of all parameters together; over 0 shows that the policy moved.
    pub update_norm: f64,
    /// The learning rate of the step.
    pub learning_rate: f64,
    /// Trained tokens, without padding and context.
    pub tokens: usize,
    /// All tokens that went through the model, without padding.
    pub context_tokens: usize,
    /// Share of what went through the model that was padding, 0 to 1.
    #[serde(default)]
    pub padding: f64,
    /// Mean entropy of the policy at the trained tokens, in nats.
    pub entropy: f64,
    /// What only a policy step has.
    pub ratios: Option<Ratios>,
    /// Why nothing was changed, if so.
    pub skipped: Option<String>,
    /// Steps in a row, up to this one, that were skipped since their numbers were not finite; 0 after one
    /// that was taken. A policy that reaches [`MOST_SKIPS`] learns nothing any more.
    pub skips_in_a_row: u32,
    /// Wall-clock time.
    pub seconds: f64,
}

/// How far the policy stands from the one that sampled; means are over the trained tokens.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ratios {
    /// Mean of `r = exp(ℓ_θ − ℓ_old)`.
    pub mean_ratio: f64,
    /// The largest `r`.
    pub max_ratio: f64,
    /// Share of tokens whose policy gradient the objective's bound cut.
    pub clip_fraction: f64,
    /// The k3 estimate `r − 1 − log r` of KL(old‖θ) on samples of old, in nats.
    pub approx_kl: f64,
    /// Mean of `|ℓ_θ − ℓ_sampler|`: on fresh samples, the mismatch of sampler and trainer.
    pub logprob_gap: f64,
}

impl Ratios {
    /// From the rows of the step in their order, ℓ_θ and the cut flags.
    pub(super) fn measure(rows: &[Row], samples: &[Sample], logp: &[f32], limited: &[f32]) -> Self {
        let count = rows.len().max(1) as f64;
        let mut sum = Self {
            mean_ratio: 0.0,
            max_ratio: 0.0,
            clip_fraction: limited.iter().map(|cut| f64::from(*cut)).sum::<f64>() / count,
            approx_kl: 0.0,
            logprob_gap: 0.0,
        };
        for (row, logp) in rows.iter().zip(logp) {
            let sample = &samples[row.sample];
            let sampler = sample.logprobs[row.position];
            let old = sample.old_logprobs.as_ref().map_or(sampler, |old| old[row.position]);
            let log_ratio = (f64::from(*logp) - f64::from(old)).clamp(-20.0, 20.0);
            let ratio = log_ratio.exp();
            sum.mean_ratio += ratio / count;
            sum.max_ratio = sum.max_ratio.max(ratio);
            sum.approx_kl += (ratio - 1.0 - log_ratio) / count;
            sum.logprob_gap += (f64::from(*logp) - f64::from(sampler)).abs() / count;
        }
        sum
    }
}

/// What a step computed, on the host.
pub(super) struct Measured {
    /// The trained tokens in the order of the lists below.
    pub rows: Vec<Row>,
    pub logp: Vec<f32>,
    pub entropy: Vec<f32>,
    /// 1 where the objective's bound cut the gradient.
    pub limited: Vec<f32>,
    pub loss: f64,
    /// Of the gradient; none if no parameter received one.
    pub norm_squared: Option<f32>,
    /// Tokens that went through the model, and those with padding.
    pub tokens: usize,
    pub padded: usize,
}

impl Measured {
    /// Reads everything in one transfer.
    pub fn of(pass: &Pass) -> Self {
        let count = pass.rows.len();
        let lists = [&pass.logp, &pass.entropy, &pass.limited, &pass.loss];
        let mut parts: Vec<Tensor<1>> = lists.into_iter().flatten().cloned().collect();
        parts.extend(pass.gradients.norm_squared());
        let all = read_all(parts);
        let (logp, rest) = all.split_at(count);
        let (entropy, rest) = rest.split_at(count);
        let (limited, rest) = rest.split_at(count);
        let (losses, norm_squared) = rest.split_at(pass.loss.len());
        Self {
            rows: pass.rows.clone(),
            logp: logp.to_vec(),
            entropy: entropy.to_vec(),
            limited: limited.to_vec(),
            loss: losses.iter().map(|loss| f64::from(*loss)).sum(),
            norm_squared: norm_squared.first().copied(),
            tokens: pass.tokens,
            padded: pass.padded,
        }
    }

    /// With what another replica computed of the same step; the gradient is the same for both.
    pub fn with(mut self, other: Self) -> Self {
        self.rows.extend(other.rows);
        self.logp.extend(other.logp);
        self.entropy.extend(other.entropy);
        self.limited.extend(other.limited);
        self.loss += other.loss;
        self.tokens += other.tokens;
        self.padded += other.padded;
        self
    }
}

/// The values of all tensors, one after the other, in a single transfer.
pub(super) fn read_all(tensors: Vec<Tensor<1>>) -> Vec<f32> {
    if tensors.is_empty() {
        return Vec::new();
    }
    Tensor::cat(tensors, 0).into_data().iter::<f32>().collect()
}
