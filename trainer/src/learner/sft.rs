//! How does a policy learn from examples, before or instead of outcomes?

use std::path::Path;

use burn::prelude::Device;
use serde::{Deserialize, Serialize};

use super::{LearnError, Learner, LearnerConfig, Sample, StepReport};
use crate::model::CausalLm;
use crate::optimizer::{Decay, Schedule};
use crate::parallel::Exchange;

/// Settings of supervised fine-tuning.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SftConfig {
    /// Passes over the samples.
    pub epochs: usize,
    /// Samples of one step.
    pub batch: usize,
    /// Steps over which the learning rate rises.
    pub warmup_steps: u64,
    /// What the learning rate does from then to the last step.
    pub decay: Decay,
    /// The order of the samples is drawn from this.
    pub seed: u64,
    /// Everything else; its schedule is replaced.
    pub learner: LearnerConfig,
}

impl Default for SftConfig {
    fn default() -> Self {
        Self {
            epochs: 1,
            batch: 16,
            warmup_steps: 10,
            decay: Decay::Linear,
            seed: 0,
            learner: LearnerConfig { learning_rate: 1e-3, ..LearnerConfig::default() },
        }
    }
}

/// Supervised fine-tuning: cross entropy on the tokens of the samples whose mask is true.
///
/// Which samples make a step depends on the seed and the number of the step alone, so one that
/// was saved and taken up again goes on as if it had never stopped.
pub struct Sft {
    learner: Learner,
    samples: Vec<Sample>,
    config: SftConfig,
    /// Batches that were drawn, with those whose step was skipped.
    done: usize,
    /// The order of the epoch that is going on.
    order: Option<(usize, Vec<usize>)>,
}

impl Sft {
    /// Begins with `model`: its LoRA factors are trained if it has some, else all weights.
    ///
    /// # Errors
    /// If there is no sample, or the settings cannot work.
    pub fn new(model: CausalLm, samples: Vec<Sample>, config: SftConfig) -> Result<Self, LearnError> {
        let learner = Learner::new(model, settings(&config, samples.len())?)?;
        Ok(Self { learner, samples, config, done: 0, order: None })
    }

    /// Goes on after `done` steps with the state that [`save`](Self::save) wrote; `base` is as
    /// for [`Learner::load_state`].
    ///
    /// # Errors
    /// If the state cannot be read, or belongs to another policy.
    pub fn resume(
        base: CausalLm,
        samples: Vec<Sample>,
        config: SftConfig,
        folder: &Path,
        done: usize,
    ) -> Result<Self, LearnError> {
        let learner = Learner::load_state(base, settings(&config, samples.len())?, folder)?;
        Ok(Self { learner, samples, config, done, order: None })
    }

    /// The same on further devices; see [`Learner::with_replicas`].
    ///
    /// # Errors
    /// If they cannot work together.
    pub fn with_replicas(mut self, others: &[Device], exchange: Exchange) -> Result<Self, LearnError> {
        self.learner = self.learner.with_replicas(others, exchange)?;
        Ok(self)
    }

    /// Writes the learner's state into the new folder `folder`.
    ///
    /// # Errors
    /// If the folder exists, or something cannot be written.
    pub fn save(&self, folder: &Path) -> Result<(), LearnError> {
        self.learner.save_state(folder)
    }

    /// Steps in all.
    pub fn steps(&self) -> usize {
        self.config.epochs * self.steps_of_epoch()
    }

    /// Steps of one pass over the samples.
    pub fn steps_of_epoch(&self) -> usize {
        self.samples.len().div_ceil(self.config.batch)
    }

    /// Steps that were taken.
    pub fn done(&self) -> usize {
        self.done
    }

    /// The next step; none when all are taken.
    ///
    /// # Errors
    /// If a sample of the step is malformed; the policy is then unchanged.
    pub fn step(&mut self) -> Result<Option<StepReport>, LearnError> {
        if self.done >= self.steps() {
            return Ok(None);
        }
        let (epoch, within) = (self.done / self.steps_of_epoch(), self.done % self.steps_of_epoch());
        let order = match self.order.take() {
            Some((of, order)) if of == epoch => order,
            _ => shuffled(self.samples.len(), self.config.seed.wrapping_add(epoch as u64)),
        };
        let batch = order.chunks(self.config.batch).nth(within).unwrap_or_default();
        let batch: Vec<Sample> = batch.iter().map(|index| self.samples[*index].clone()).collect();
        let report = self.learner.supervised_step(&batch)?;
        self.order = Some((epoch, order));
        self.done += 1;
        Ok(Some(report))
    }

    /// The mean loss of `samples` under the policy as it is now, nats a trained token.
    ///
    /// # Errors
    /// If a sample is malformed.
    pub fn loss_of(&self, samples: &[Sample]) -> Result<f64, LearnError> {
        let logprobs = self.learner.logprobs(samples)?;
        let tokens: usize = samples.iter().map(Sample::trained).sum();
        let sum: f64 = logprobs.iter().flatten().map(|logprob| f64::from(*logprob)).sum();
        Ok(-sum / tokens.max(1) as f64)
    }

    /// The policy as it is now.
    pub fn model(&self) -> CausalLm {
        self.learner.model()
    }
}

/// The learner's settings, with the schedule of `samples` samples.
fn settings(config: &SftConfig, samples: usize) -> Result<LearnerConfig, LearnError> {
    for (name, value) in [("epochs", config.epochs), ("batch", config.batch), ("samples", samples)] {
        if value == 0 {
            return Err(LearnError::BadSetting { name, value: 0.0, wanted: "a number over 0" });
        }
    }
    let total_steps = (config.epochs * samples.div_ceil(config.batch)) as u64;
    let mut learner = config.learner.clone();
    learner.schedule = Schedule { warmup_steps: config.warmup_steps, decay: config.decay, total_steps };
    Ok(learner)
}

/// `0..count` in an order that depends on `seed` alone (Fisher and Yates).
pub fn shuffled(count: usize, seed: u64) -> Vec<usize> {
    use rand::SeedableRng;
    use rand::seq::SliceRandom;
    let mut order: Vec<_> = (0..count).collect();
    order.shuffle(&mut rand::rngs::StdRng::seed_from_u64(seed));
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{LoraConfig, ModelConfig};

    fn base() -> CausalLm {
        let config = ModelConfig { head_dim: 8, ..ModelConfig::llama(24, 40, 2, [4, 2], 64) };
        CausalLm::random(config, 1, &Device::flex())
    }

    fn samples() -> Vec<Sample> {
        let sample = |number: u32| {
            let ids: Vec<u32> = (0..8).map(|at| (number * 7 + at * 5) % 64).collect();
            Sample::demonstration(ids, (0..8).map(|at| at > 3).collect())
        };
        (0..7).map(sample).collect()
    }

    fn config() -> SftConfig {
        SftConfig { epochs: 3, batch: 3, warmup_steps: 2, seed: 5, ..SftConfig::default() }
    }

    fn weights(sft: &Sft) -> Vec<u32> {
        let model = sft.model();
        let tensors = if model.lora().is_some() { model.lora_tensors() } else { model.named_tensors() };
        tensors.iter().flat_map(|(_, tensor)| tensor.data.iter().map(|value| value.to_bits())).collect()
    }

    /// Stopped after each possible step and taken up again, it ends with the same bits.
    fn resumes(model: impl Fn() -> CausalLm) {
        let mut whole = Sft::new(model(), samples(), config()).unwrap();
        assert_eq!((whole.steps(), whole.steps_of_epoch()), (9, 3));
        let root = tempfile::tempdir().unwrap();
        let mut losses = Vec::new();
        while let Some(report) = whole.step().unwrap() {
            losses.push(report.loss);
            whole.save(&root.path().join(whole.done().to_string())).unwrap();
        }
        assert_eq!(losses.len(), 9);
        for stop in [1, 3, 8] {
            let folder = root.path().join(stop.to_string());
            let mut later = Sft::resume(base(), samples(), config(), &folder, stop).unwrap();
            let mut rest = Vec::new();
            while let Some(report) = later.step().unwrap() {
                rest.push(report.loss);
            }
            assert_eq!(rest, losses[stop..], "stopped after {stop}");
            assert_eq!(weights(&later), weights(&whole), "stopped after {stop}");
        }
    }

    #[test]
    fn an_adapter_taken_up_again_ends_with_the_same_bits() {
        resumes(|| {
            base().with_lora(LoraConfig { rank: 2, alpha: 4.0, first_layer: 0, ..LoraConfig::default() }, 3)
        });
    }

    #[test]
    fn full_weights_taken_up_again_end_with_the_same_bits() {
        resumes(base);
    }

    #[test]
    fn every_epoch_sees_each_sample_once_in_another_order() {
        let orders: Vec<_> = (0..3).map(|epoch| shuffled(7, 5 + epoch)).collect();
        assert_ne!(orders[0], orders[1]);
        for mut order in orders {
            order.sort_unstable();
            assert_eq!(order, (0..7).collect::<Vec<_>>());
        }
    }

    #[test]
    fn the_loss_of_samples_is_the_mean_over_their_trained_tokens() {
        let config = SftConfig { epochs: 20, batch: 7, ..config() };
        let mut sft = Sft::new(base(), samples(), config).unwrap();
        let before = sft.loss_of(&samples()).unwrap();
        let first = sft.step().unwrap().unwrap();
        // A step over all samples reports the same mean, before it changes anything.
        assert!((first.loss - before).abs() < 1e-4, "{} {before}", first.loss);
        while sft.step().unwrap().is_some() {}
        assert!(sft.loss_of(&samples()).unwrap() < before - 0.5);
    }

    #[test]
    fn two_devices_go_through_the_same_losses() {
        let losses = |others: &[Device]| -> Vec<f64> {
            let sft = Sft::new(base(), samples(), config()).unwrap();
            let mut sft = sft.with_replicas(others, Exchange::Host).unwrap();
            std::iter::from_fn(|| sft.step().unwrap().map(|report| report.loss)).collect()
        };
        let (one, two) = (losses(&[]), losses(&[Device::flex()]));
        assert_eq!(one.len(), 9);
        for (one, two) in one.iter().zip(&two) {
            assert!((one - two).abs() < 1e-4, "{one} {two}");
        }
    }

    #[test]
    fn nothing_to_learn_from_is_an_error() {
        let error = Sft::new(base(), Vec::new(), config()).err().map(|error| error.to_string());
        assert!(error.unwrap_or_default().starts_with("`samples` is 0"));
    }
}
