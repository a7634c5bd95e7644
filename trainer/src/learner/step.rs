//! How do samples become a new version of the policy?

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use burn::module::Module;
use burn::prelude::*;

use super::gradient::{Aim, Pass, gradient, logprobs};
use super::replicas::Replicas;
use super::report::{Measured, read_all};
use super::sample::{Use, check_samples};
use super::{LearnError, LearnerConfig, Ratios, Sample, StepReport};
use crate::generate::panic_text;
use crate::model::CausalLm;
use crate::objective::Counted;
use crate::optimizer::{AdamW, StepGradients};
use crate::parallel::Exchange;

/// Whatever `work` gives, or the panic by which a backend reports that the device failed.
fn guarded<T>(work: impl FnOnce() -> Result<T, LearnError>) -> Result<T, LearnError> {
    let failed = |panic: Box<dyn Any + Send>| LearnError::Failed { reason: panic_text(panic.as_ref()) };
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(failed(panic)))
}

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
    pub(super) device: Device,
    /// The same policy on other devices, which take a part of each step.
    replicas: Option<Mutex<Replicas>>,
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
        Ok(Self { model, config, optimizer, skips, device, replicas: None })
    }

    /// The same learner with a replica of the policy on each of `others`, in a thread of its own:
    /// the samples of a step are divided by tokens, gradients are summed through `exchange`, and
    /// every replica takes the same step. What is learnt is what one device would learn, but for
    /// the order of sums. The policy's own device is not named in `others`, except on the CPU.
    ///
    /// # Errors
    /// If the exchange cannot work between these devices, or a replica cannot be made.
    pub fn with_replicas(mut self, others: &[Device], exchange: Exchange) -> Result<Self, LearnError> {
        if !others.is_empty() {
            self.replicas = Some(Mutex::new(Replicas::start(&self, others, exchange)?));
        }
        Ok(self)
    }

    /// Devices that compute a step.
    pub fn devices(&self) -> usize {
        1 + self.replicas().map_or(0, |replicas| replicas.others())
    }

    fn replicas(&self) -> Option<MutexGuard<'_, Replicas>> {
        let replicas = self.replicas.as_ref()?;
        Some(replicas.lock().unwrap_or_else(PoisonError::into_inner))
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
        guarded(|| match self.replicas() {
            None => Ok(logprobs(&self.model.valid(), samples, &all(samples), &self.config, &self.device)),
            Some(mut replicas) => replicas.logprobs(self, samples),
        })
    }

    /// Log-probabilities under another policy of the same shape on the same device, such as the one that a
    /// KL penalty refers to; otherwise as [`logprobs`](Self::logprobs).
    ///
    /// # Errors
    /// If a sample is malformed.
    pub fn logprobs_of(&self, policy: &CausalLm, samples: &[Sample]) -> Result<Vec<Vec<f32>>, LearnError> {
        self.check(samples, Use::Supervised)?;
        guarded(|| Ok(logprobs(policy, samples, &all(samples), &self.config, &self.device)))
    }

    /// One update by cross entropy on the tokens with mask true.
    ///
    /// # Errors
    /// If a sample is malformed; the policy is then unchanged. If the device failed; the learner is then of no
    /// use any more.
    pub fn supervised_step(&mut self, samples: &[Sample]) -> Result<StepReport, LearnError> {
        let start = Instant::now();
        self.check(samples, Use::Supervised)?;
        guarded(|| self.step(samples, &Aim::Supervised, start))
    }

    /// One update by the configured policy gradient.
    ///
    /// # Errors
    /// If a sample is malformed, or the KL penalty is on and lacks reference log-probabilities;
    /// the policy is then unchanged. If the device failed; the learner is then of no use any more.
    pub fn policy_step(&mut self, samples: &[Sample]) -> Result<StepReport, LearnError> {
        let start = Instant::now();
        self.check(samples, Use::Policy { reference: self.config.kl.is_on() })?;
        let objective = self.config.objective;
        let before = match objective.needs_step_statistics() {
            true => Some(Arc::new(self.logprobs(samples)?)),
            false => None,
        };
        guarded(|| self.step(samples, &Aim::Policy { objective, before }, start))
    }

    fn check(&self, samples: &[Sample], usage: Use) -> Result<(), LearnError> {
        let model = self.model.config();
        check_samples(samples, usage, model.vocab_size, model.max_position_embeddings)
    }

    /// The gradient of a step on this device; none when no token is trained.
    #[cfg(test)]
    pub(super) fn gradient(&self, samples: &[Sample], aim: &Aim) -> Option<Pass> {
        let denominator = self.denominator(samples)?;
        Some(self.gradient_of(samples, &all(samples), aim, denominator))
    }

    /// The part of a step's gradient that the samples with the numbers `members` have.
    pub(super) fn gradient_of(
        &self,
        samples: &[Sample],
        members: &[usize],
        aim: &Aim,
        denominator: f64,
    ) -> Pass {
        gradient(&self.model, samples, members, &self.config, aim, denominator, &self.device)
    }

    /// What the summed loss of a step is divided by, once for all devices; none when no token is trained.
    fn denominator(&self, samples: &[Sample]) -> Option<f64> {
        let counted = samples.iter().map(|sample| Counted {
            weight: sample.weight,
            share: sample.share,
            tokens: sample.trained(),
        });
        Some(self.config.aggregation.denominator(counted)).filter(|denominator| *denominator > 0.0)
    }

    fn step(&mut self, samples: &[Sample], aim: &Aim, start: Instant) -> Result<StepReport, LearnError> {
        let learning_rate = self.config.learning_rate * self.config.schedule.factor(self.optimizer.steps());
        let mut report = StepReport {
            loss: 0.0,
            grad_norm: 0.0,
            update_norm: 0.0,
            learning_rate,
            tokens: 0,
            context_tokens: samples.iter().map(|sample| sample.ids.len()).sum(),
            padding: 0.0,
            entropy: 0.0,
            ratios: None,
            skipped: None,
            skips_in_a_row: 0,
            seconds: 0.0,
        };
        match self.denominator(samples) {
            None => report.skipped = Some("no sample has a token to train".into()),
            Some(denominator) => self.take(samples, aim, denominator, &mut report)?,
        }
        report.skips_in_a_row = self.skips;
        report.seconds = start.elapsed().as_secs_f64();
        Ok(report)
    }

    /// Computes the gradient, and applies it if all numbers are finite.
    fn take(
        &mut self,
        samples: &[Sample],
        aim: &Aim,
        denominator: f64,
        report: &mut StepReport,
    ) -> Result<(), LearnError> {
        let (gradients, measured) = match self.replicas() {
            None => {
                let pass = self.gradient_of(samples, &all(samples), aim, denominator);
                let measured = Measured::of(&pass);
                (pass.gradients, measured)
            }
            Some(mut replicas) => replicas.gradient(self, samples, aim, denominator)?,
        };
        report.skipped = fill(report, &measured, samples, aim);
        if report.skipped.is_some() {
            // Replicas drop their gradients when the next step begins.
            self.skips += 1;
            return Ok(());
        }
        self.skips = 0;
        // As in PyTorch's `clip_grad_norm_`.
        let scale = (self.config.max_grad_norm / (report.grad_norm + 1e-6)).min(1.0);
        if let Some(mut replicas) = self.replicas() {
            replicas.begin_update(scale, report.learning_rate)?;
        }
        report.update_norm = self.update(&gradients, scale, report.learning_rate);
        if let Some(mut replicas) = self.replicas() {
            replicas.end_update(report.update_norm)?;
        }
        Ok(())
    }

    /// Applies the gradient times `scale`; gives the L2 norm of the change.
    pub(super) fn update(&mut self, gradients: &StepGradients, scale: f64, learning_rate: f64) -> f64 {
        let (model, change) = self.optimizer.step(self.model.clone(), gradients, scale, learning_rate);
        self.model = model;
        change.map_or(0.0, |change| read_all(vec![change]).iter().map(|x| f64::from(*x)).sum::<f64>().sqrt())
    }
}

/// Fills the report. Gives a reason if the step must not be taken.
fn fill(report: &mut StepReport, measured: &Measured, samples: &[Sample], aim: &Aim) -> Option<String> {
    let Some(norm_squared) = measured.norm_squared else {
        return Some("no parameter received a gradient".into());
    };
    let count = measured.rows.len();
    report.tokens = count;
    report.padding = 1.0 - measured.tokens as f64 / measured.padded.max(1) as f64;
    report.loss = measured.loss;
    report.entropy = measured.entropy.iter().map(|nats| f64::from(*nats)).sum::<f64>() / count as f64;
    report.grad_norm = f64::from(norm_squared).sqrt();
    if let Some(at) = measured.logp.iter().position(|value| !value.is_finite()) {
        let (row, value) = (measured.rows[at], measured.logp[at]);
        let (sample, position) = (row.sample, row.position);
        return Some(format!("the policy's log-probability of sample {sample}, token {position} is {value}"));
    }
    if let Aim::Policy { .. } = aim {
        report.ratios = Some(Ratios::measure(&measured.rows, samples, &measured.logp, &measured.limited));
    }
    if !report.loss.is_finite() {
        return Some(format!("the loss is {}", report.loss));
    }
    if !report.grad_norm.is_finite() {
        return Some(format!("the gradient's norm is {}", report.grad_norm));
    }
    None
}

/// The numbers of all samples.
fn all(samples: &[Sample]) -> Vec<usize> {
    (0..samples.len()).collect()
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
    Ok(logprobs(model, samples, &all(samples), config, &model.device()))
}
