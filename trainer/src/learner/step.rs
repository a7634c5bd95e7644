//! How do samples become a new version of the policy?

use std::time::Instant;

use burn::module::Module;
use burn::prelude::*;

use super::gradient::{Aim, Pass, gradient, logprobs};
use super::sample::{Use, check_samples};
use super::{LearnError, LearnerConfig, Ratios, Sample, StepReport};
use crate::model::CausalLm;
use crate::optimizer::AdamW;

/// Owns the policy in training, and its optimiser.
///
/// A step never leaves the policy half changed: numbers that are not finite anywhere before the
/// update skip the step, and the report says so.
pub struct Learner {
    pub(super) model: CausalLm,
    pub(super) config: LearnerConfig,
    pub(super) optimizer: AdamW,
    /// Steps in a row that were skipped since their numbers were not finite.
    pub(super) skips: u32,
    device: Device,
}

impl Learner {
    /// A learner that has taken no step. Trained are the parameters that require gradients: LoRA
    /// factors if the model has some, else all weights.
    ///
    /// # Errors
    /// If the settings cannot work, or nothing in the model is trainable.
    pub fn new(model: CausalLm, config: LearnerConfig) -> Result<Self, LearnError> {
        let optimizer = AdamW::new(config.adamw);
        Self::with_optimizer(model, config, optimizer, 0)
    }

    pub(super) fn with_optimizer(
        model: CausalLm,
        config: LearnerConfig,
        optimizer: AdamW,
        skips: u32,
    ) -> Result<Self, LearnError> {
        config.check()?;
        let model = model.train();
        if !crate::optimizer::has_trainable(&model) {
            return Err(LearnError::NothingTrainable);
        }
        let device = model.device().inner();
        Ok(Self { model, config, optimizer, skips, device })
    }

    /// The policy as it is now, without anything that training needs: for a generator or a
    /// checkpoint. It shares the weights' memory until the next step.
    pub fn model(&self) -> CausalLm {
        self.model.valid()
    }

    /// The settings.
    pub fn config(&self) -> &LearnerConfig {
        &self.config
    }

    /// How many updates were made; skipped steps do not count.
    pub fn steps(&self) -> u64 {
        self.optimizer.steps()
    }

    /// Log-probabilities under the present policy, for each sample one value a token, 0 where the
    /// mask is false.
    ///
    /// # Errors
    /// If a sample is malformed.
    pub fn logprobs(&self, samples: &[Sample]) -> Result<Vec<Vec<f32>>, LearnError> {
        self.check(samples, Use::Supervised)?;
        Ok(logprobs(&self.model.valid(), samples, &self.config, &self.device))
    }

    /// Log-probabilities under another policy of the same shape on the same device, such as the one that a
    /// KL penalty refers to; otherwise as [`logprobs`](Self::logprobs).
    ///
    /// # Errors
    /// If a sample is malformed.
    pub fn logprobs_of(&self, policy: &CausalLm, samples: &[Sample]) -> Result<Vec<Vec<f32>>, LearnError> {
        self.check(samples, Use::Supervised)?;
        Ok(logprobs(policy, samples, &self.config, &self.device))
    }

    /// One update by cross entropy on the tokens with mask true.
    ///
    /// # Errors
    /// If a sample is malformed; the policy is then unchanged.
    pub fn supervised_step(&mut self, samples: &[Sample]) -> Result<StepReport, LearnError> {
        let start = Instant::now();
        self.check(samples, Use::Supervised)?;
        Ok(self.step(samples, &Aim::Supervised, start))
    }

    /// One update by the configured policy gradient.
    ///
    /// # Errors
    /// If a sample is malformed, or the KL penalty is on and lacks reference log-probabilities;
    /// the policy is then unchanged.
    pub fn policy_step(&mut self, samples: &[Sample]) -> Result<StepReport, LearnError> {
        let start = Instant::now();
        self.check(samples, Use::Policy { reference: self.config.kl.is_on() })?;
        let objective = self.config.objective;
        let before = objective
            .needs_step_statistics()
            .then(|| logprobs(&self.model.valid(), samples, &self.config, &self.device));
        Ok(self.step(samples, &Aim::Policy { objective, before: before.as_deref() }, start))
    }

    fn check(&self, samples: &[Sample], usage: Use) -> Result<(), LearnError> {
        let model = self.model.config();
        check_samples(samples, usage, model.vocab_size, model.max_position_embeddings)
    }

    /// The gradient of a step and its denominator; none when no token is trained.
    pub(super) fn gradient(&self, samples: &[Sample], aim: &Aim) -> Option<Pass> {
        let counts = samples.iter().map(|sample| (sample.weight, sample.trained()));
        let denominator = self.config.aggregation.denominator(counts);
        (denominator > 0.0)
            .then(|| gradient(&self.model, samples, &self.config, aim, denominator, &self.device))
    }

    fn step(&mut self, samples: &[Sample], aim: &Aim, start: Instant) -> StepReport {
        let learning_rate = self.config.learning_rate * self.config.schedule.factor(self.optimizer.steps());
        let mut report = StepReport {
            loss: 0.0,
            grad_norm: 0.0,
            update_norm: 0.0,
            learning_rate,
            tokens: 0,
            context_tokens: samples.iter().map(|sample| sample.ids.len()).sum(),
            entropy: 0.0,
            ratios: None,
            skipped: None,
            skips_in_a_row: 0,
            seconds: 0.0,
        };
        match self.gradient(samples, aim) {
            None => report.skipped = Some("no sample has a token to train".into()),
            Some(pass) => {
                report.skipped = self.measure(&pass, samples, aim, &mut report);
                self.skips = match report.skipped {
                    None => 0,
                    Some(_) => self.skips + 1,
                };
                if report.skipped.is_none() {
                    report.update_norm = self.update(&pass, report.grad_norm, learning_rate);
                }
            }
        }
        report.skips_in_a_row = self.skips;
        report.seconds = start.elapsed().as_secs_f64();
        report
    }

    /// Reads everything that a step computed in one transfer, and fills the report. Gives a reason
    /// if the step must not be taken.
    fn measure(&self, pass: &Pass, samples: &[Sample], aim: &Aim, report: &mut StepReport) -> Option<String> {
        let Some(norm_squared) = pass.gradients.norm_squared() else {
            return Some("no parameter received a gradient".into());
        };
        let count = pass.rows.len();
        let mut parts = Vec::new();
        parts.extend(pass.logp.iter().cloned());
        parts.extend(pass.entropy.iter().cloned());
        parts.extend(pass.limited.iter().cloned());
        parts.extend(pass.loss.iter().cloned());
        parts.push(norm_squared);
        let all = read_all(parts);
        let (logp, rest) = all.split_at(count);
        let (entropy, rest) = rest.split_at(count);
        let (limited, rest) = rest.split_at(count);
        let (losses, norm_squared) = rest.split_at(pass.loss.len());

        report.tokens = count;
        report.loss = losses.iter().map(|loss| f64::from(*loss)).sum();
        report.entropy = entropy.iter().map(|nats| f64::from(*nats)).sum::<f64>() / count as f64;
        report.grad_norm = f64::from(norm_squared[0]).sqrt();
        if let Some(at) = logp.iter().position(|value| !value.is_finite()) {
            let (row, value) = (pass.rows[at], logp[at]);
            let (sample, position) = (row.sample, row.position);
            return Some(format!(
                "the policy's log-probability of sample {sample}, token {position} is {value}"
            ));
        }
        if let Aim::Policy { .. } = aim {
            report.ratios = Some(Ratios::measure(&pass.rows, samples, logp, limited));
        }
        if !report.loss.is_finite() {
            return Some(format!("the loss is {}", report.loss));
        }
        if !report.grad_norm.is_finite() {
            return Some(format!("the gradient's norm is {}", report.grad_norm));
        }
        None
    }

    /// Clips and applies the gradient; gives the L2 norm of the change.
    fn update(&mut self, pass: &Pass, grad_norm: f64, learning_rate: f64) -> f64 {
        // As in PyTorch's `clip_grad_norm_`.
        let scale = (self.config.max_grad_norm / (grad_norm + 1e-6)).min(1.0);
        let (model, change) = self.optimizer.step(self.model.clone(), &pass.gradients, scale, learning_rate);
        self.model = model;
        change.map_or(0.0, |change| read_all(vec![change]).iter().map(|x| f64::from(*x)).sum::<f64>().sqrt())
    }
}

/// Log-probabilities under `model`, for each sample one value a token, 0 where the mask is false;
/// without a learner. Of `config`, only the sizes are read: `micro_batch_tokens`,
/// `pad_to_multiple_of` and `head_rows` bound the memory.
///
/// # Errors
/// If a sample is malformed or the settings cannot work.
pub fn policy_logprobs(
    model: &CausalLm,
    samples: &[Sample],
    config: &LearnerConfig,
) -> Result<Vec<Vec<f32>>, LearnError> {
    config.check()?;
    let shape = model.config();
    check_samples(samples, Use::Supervised, shape.vocab_size, shape.max_position_embeddings)?;
    Ok(logprobs(model, samples, config, &model.device()))
}

/// The values of all tensors, one after the other, in a single transfer.
pub(super) fn read_all(tensors: Vec<Tensor<1>>) -> Vec<f32> {
    if tensors.is_empty() {
        return Vec::new();
    }
    Tensor::cat(tensors, 0).into_data().iter::<f32>().collect()
}
