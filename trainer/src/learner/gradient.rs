//! What is the gradient of a step?

use std::sync::Arc;

use burn::prelude::*;
use burn::tensor::DType;

use super::batch::{Row, pack};
use super::layers::{Forward, trained_hidden};
use super::report::read_all;
use super::{LearnerConfig, Sample, head};
use crate::model::CausalLm;
use crate::objective::{Objective, Rows, effective_sample_size};
use crate::optimizer::StepGradients;

/// What a step wants of the log-probabilities.
#[derive(Clone)]
pub(super) enum Aim {
    /// Cross entropy.
    Supervised,
    /// A policy gradient; `before` holds ℓ_θ of every token before the step, for objectives that
    /// need statistics of the whole step.
    Policy { objective: Objective, before: Option<Arc<Vec<Vec<f32>>>> },
}

/// Everything that the backward passes of a step leave.
pub(super) struct Pass {
    pub gradients: StepGradients,
    /// The trained tokens in the order of the lists below.
    pub rows: Vec<Row>,
    /// One tensor a chunk, to be read in one go at the end of the step.
    pub logp: Vec<Tensor<1>>,
    pub entropy: Vec<Tensor<1>>,
    pub limited: Vec<Tensor<1>>,
    pub loss: Vec<Tensor<1>>,
    /// Tokens that went through the model, and those with padding.
    pub tokens: usize,
    pub padded: usize,
}

/// The gradient of `Σ weight · loss / denominator` over the samples with the numbers `members`.
/// Statistics that an objective reads are those of all samples.
pub(super) fn gradient(
    model: &CausalLm,
    samples: &[Sample],
    members: &[usize],
    config: &LearnerConfig,
    aim: &Aim,
    denominator: f64,
    device: &Device,
) -> Pass {
    let mut pass = Pass {
        gradients: StepGradients::new(),
        rows: Vec::new(),
        logp: Vec::new(),
        entropy: Vec::new(),
        limited: Vec::new(),
        loss: Vec::new(),
        tokens: 0,
        padded: 0,
    };
    let statistics = Statistics::of(samples, aim);
    let temperature = match aim {
        Aim::Supervised => 1.0,
        Aim::Policy { .. } => config.temperature,
    };
    let sizes = config.sizes(device);
    for batch in pack(samples, members, config.micro_batch_tokens, sizes.pad_to_multiple_of) {
        let forward = Forward::new(model, &batch, config.recompute, device);
        let values = forward.values();
        let mut by_hidden = Vec::new();
        for (chunk, start) in batch.rows.chunks(sizes.head_rows).zip((0..).step_by(sizes.head_rows)) {
            let hidden = values.clone().slice_dim(0, start..start + chunk.len());
            let terms = Terms::new(chunk, samples, config, aim, &statistics, denominator, device);
            let mut left = None;
            let targets = targets(chunk, device);
            let out = head::pull_back(model, hidden, targets, temperature, |logp, entropy| {
                let (mut loss, limited, by_logp) = terms.differentiate(logp, aim, config);
                let by_entropy = terms.entropy_weight(config);
                if let Some(by_entropy) = &by_entropy {
                    loss = loss + (entropy * by_entropy.clone()).sum();
                }
                left = Some((loss, limited));
                (by_logp, by_entropy)
            });
            let mut gradients = out.gradients;
            pass.gradients.accumulate(model, &mut gradients);
            pass.logp.push(out.logp);
            pass.entropy.push(out.entropy);
            by_hidden.push(out.by_hidden);
            if let Some((loss, limited)) = left {
                pass.loss.push(loss);
                pass.limited.push(limited);
            }
        }
        forward.pull_back(model, &batch, Tensor::cat(by_hidden, 0), &mut pass.gradients, device);
        pass.tokens += batch.tokens;
        pass.padded += batch.sequences * batch.width;
        pass.rows.extend(batch.rows);
    }
    pass
}

/// ℓ_θ of the trained tokens of each sample with a number in `members`, aligned with its ids; 0
/// where the mask is false, and of all other samples.
pub(super) fn logprobs(
    model: &CausalLm,
    samples: &[Sample],
    members: &[usize],
    config: &LearnerConfig,
    device: &Device,
) -> Vec<Vec<f32>> {
    let mut all: Vec<Vec<f32>> = samples.iter().map(|sample| vec![0.0; sample.ids.len()]).collect();
    let (mut rows, mut read) = (Vec::new(), Vec::new());
    let sizes = config.sizes(device);
    for batch in pack(samples, members, config.micro_batch_tokens, sizes.pad_to_multiple_of) {
        let selected = trained_hidden(model, &batch, device);
        for (chunk, start) in batch.rows.chunks(sizes.head_rows).zip((0..).step_by(sizes.head_rows)) {
            let hidden = selected.clone().slice_dim(0, start..start + chunk.len());
            read.push(head::logprobs(model, hidden, targets(chunk, device), config.temperature));
        }
        rows.extend(batch.rows);
    }
    for (row, value) in rows.iter().zip(read_all(read)) {
        all[row.sample][row.position] = value;
    }
    all
}

fn targets(rows: &[Row], device: &Device) -> Tensor<1, Int> {
    let ids: Vec<i32> = rows.iter().map(|row| row.target as i32).collect();
    Tensor::from_data(TensorData::new(ids, [rows.len()]), device)
}

/// Numbers of the whole step that the loss of one token may depend on.
struct Statistics {
    effective_sample_size: f64,
    /// Mean log-ratio of each sample; empty where no objective asks.
    sequence_log_ratio: Vec<f32>,
    /// Mean of ℓ_old − ℓ_sampler over the trained tokens of each sample; 0 where ℓ_old is the sampler's.
    sampler_gap: Vec<f64>,
}

impl Statistics {
    fn of(samples: &[Sample], aim: &Aim) -> Self {
        let sampler_gap = match aim {
            // Such samples need no log-probabilities.
            Aim::Supervised => Vec::new(),
            Aim::Policy { .. } => samples.iter().map(mean_sampler_gap).collect(),
        };
        let Aim::Policy { before: Some(before), .. } = aim else {
            return Self { effective_sample_size: 1.0, sequence_log_ratio: Vec::new(), sampler_gap };
        };
        let log_ratios: Vec<Vec<f64>> = samples
            .iter()
            .zip(before.iter())
            .map(|(sample, logp)| {
                let old = sample.old_logprobs.as_ref().unwrap_or(&sample.logprobs);
                let trained =
                    (0..sample.ids.len()).filter(|position| sample.mask[*position] && sample.weight > 0.0);
                trained.map(|position| f64::from(logp[position]) - f64::from(old[position])).collect()
            })
            .collect();
        let means =
            log_ratios.iter().map(|sample| (sample.iter().sum::<f64>() / sample.len().max(1) as f64) as f32);
        Self {
            sequence_log_ratio: means.collect(),
            effective_sample_size: effective_sample_size(log_ratios.into_iter().flatten()),
            sampler_gap,
        }
    }
}

/// ℓ_old − ℓ_sampler of a token; 0 where ℓ_old is the sampler's.
fn sampler_gap(sample: &Sample, at: usize) -> f64 {
    let old = sample.old_logprobs.as_ref();
    old.map_or(0.0, |old| f64::from(old[at]) - f64::from(sample.logprobs[at]))
}

fn mean_sampler_gap(sample: &Sample) -> f64 {
    let trained = (0..sample.ids.len()).filter(|at| sample.mask[*at]);
    trained.map(|at| sampler_gap(sample, at)).sum::<f64>() / sample.trained().max(1) as f64
}

/// The constants of a chunk of rows.
struct Terms {
    /// `weight · correction / denominator`.
    weight: Tensor<1>,
    /// For a policy step: what the objective reads, and ℓ_reference for a KL penalty.
    policy: Option<(Rows, Option<Tensor<1>>)>,
}

impl Terms {
    fn new(
        rows: &[Row],
        samples: &[Sample],
        config: &LearnerConfig,
        aim: &Aim,
        statistics: &Statistics,
        denominator: f64,
        device: &Device,
    ) -> Self {
        let column = |value: &dyn Fn(&Sample, &Row) -> f32| -> Tensor<1> {
            let values: Vec<f32> = rows.iter().map(|row| value(&samples[row.sample], row)).collect();
            // f32 whatever float type the device prefers: bf16 cannot hold a log-probability.
            Tensor::from_data(TensorData::new(values, [rows.len()]), (device, DType::F32))
        };
        let weight = |sample: &Sample| f64::from(sample.weight) / denominator;
        if let Aim::Supervised = aim {
            return Self { weight: column(&|sample, _| weight(sample) as f32), policy: None };
        }
        let correction = |sample: &Sample, row: &Row| match &sample.old_logprobs {
            Some(_) => {
                let mean = statistics.sampler_gap[row.sample];
                config.correction.weight(sampler_gap(sample, row.position), mean)
            }
            None => 1.0,
        };
        let old = |sample: &Sample, row: &Row| {
            sample.old_logprobs.as_ref().unwrap_or(&sample.logprobs)[row.position]
        };
        let reference = |sample: &Sample, row: &Row| {
            sample.reference_logprobs.as_ref().map_or(0.0, |list| list[row.position])
        };
        let sequence = &statistics.sequence_log_ratio;
        let rows = Rows {
            old: column(&old),
            advantage: column(&|sample, _| sample.advantage),
            sequence_log_ratio: (!sequence.is_empty()).then(|| column(&|_, row| sequence[row.sample])),
            effective_sample_size: statistics.effective_sample_size as f32,
        };
        let reference = config.kl.is_on().then(|| column(&reference));
        let weight = column(&|sample, row| (weight(sample) * f64::from(correction(sample, row))) as f32);
        Self { weight, policy: Some((rows, reference)) }
    }

    /// The gradient of the loss by each row's entropy, `[rows]`; none without a bonus.
    fn entropy_weight(&self, config: &LearnerConfig) -> Option<Tensor<1>> {
        let is_policy = self.policy.is_some() && config.entropy_bonus > 0.0;
        is_policy.then(|| self.weight.clone().mul_scalar(-config.entropy_bonus))
    }

    /// The summed loss `[1]`, the cut flags `[rows]` and the loss's gradient by `logp`.
    fn differentiate(
        &self,
        logp: Tensor<1>,
        aim: &Aim,
        config: &LearnerConfig,
    ) -> (Tensor<1>, Tensor<1>, Tensor<1>) {
        let leaf = logp.autodiff().require_grad();
        let (mut loss, mut limited) = (leaf.clone().neg(), leaf.clone().inner().zeros_like());
        if let (Aim::Policy { objective, .. }, Some((rows, reference))) = (aim, &self.policy) {
            let token = objective.token_loss(leaf.clone(), rows);
            loss = token.loss;
            limited = token.limited.inner();
            if let Some(reference) = reference {
                loss = loss + config.kl.of(leaf.clone(), reference.clone());
            }
        }
        let loss = (loss * self.weight.clone()).sum();
        let mut gradients = loss.backward();
        let by_logp = match leaf.grad_remove(&mut gradients) {
            Some(gradient) => gradient,
            None => leaf.inner().zeros_like(),
        };
        (loss.inner(), limited, by_logp)
    }
}
