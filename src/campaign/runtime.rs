//! The policy of a running campaign: which weights are sampled from, which are
//! trained, and where are they kept?

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use tandem_host::policy::{Message, Policy};
use tandem_trainer::checkpoint::load_policy_as;
use tandem_trainer::generate::{Generator, GeneratorConfig};
use tandem_trainer::learner::{Learner, LearnerConfig, MOST_SKIPS, Sample, StepReport};
use tandem_trainer::model::{CausalLm, LoraConfig};

use super::config::CampaignConfig;
use super::local_policy::LocalPolicy;
use super::reports::{StepSummary, UpdateReport};
use super::training::{Chosen, TrainingGroup, choose_batches};
use super::update_section::UpdateConfig;
use crate::model::Devices;

/// Weights in three places: the learner's, the generator's copy, the checkpoints.
pub struct TrainedPolicy {
    /// Base weights, the warm-up's adapter folded in: what every checkpoint is loaded onto.
    start: CausalLm,
    learner: Learner,
    generator: Generator,
    policy: Arc<LocalPolicy>,
    checkpoints: PathBuf,
    /// The version that the learner holds.
    version: u64,
    /// The first one samples, all train.
    devices: Devices,
}

impl TrainedPolicy {
    /// Loads the base weights, and version `version` of this run on top. Writes nothing.
    pub fn open(
        config: &CampaignConfig,
        devices: &Devices,
        checkpoints: &Path,
        version: u64,
    ) -> Result<Self> {
        let learner_config = config.update.learner(config.rollout.sampling.temperature);
        let device = devices.first();
        let base = crate::model::resolve(&config.policy.base)?;
        let compute = crate::model::compute(config.policy.compute.as_deref(), device)?;
        let loaded = load_policy_as(&base, config.policy.adapter.as_deref(), device, compute)?;
        let lora = LoraConfig {
            rank: config.policy.lora.rank,
            alpha: config.policy.lora.alpha,
            first_layer: config.policy.lora.first_layer,
            targets: config.policy.lora.targets,
        };
        lora.targets.check(loaded.model.config()).context("`policy.lora.targets` is not right")?;
        // The adapter of the warm-up becomes part of the base; the run trains its own.
        let start = loaded.model.merged();
        let folder = checkpoints.join(format!("v{version}"));
        let learner = if folder.exists() {
            load(&start, learner_config, &folder, devices)?
        } else {
            let model = start.clone().with_lora(lora, config.seed);
            spread(Learner::new(model, learner_config)?, devices)?
        };
        let generator = Generator::spawn(
            learner.model(),
            version,
            GeneratorConfig { slots: config.policy.slots, context: config.policy.context },
        );
        let tokenizer = Arc::new(loaded.tokenizer);
        let policy = Arc::new(LocalPolicy::new(
            config.policy.base.clone(),
            generator.clone(),
            tokenizer,
            Arc::new(loaded.chat),
            version,
            config.policy.slots,
        ));
        let (checkpoints, devices) = (checkpoints.to_owned(), devices.clone());
        Ok(Self { start, learner, generator, policy, checkpoints, version, devices })
    }

    /// The policy that episodes talk to.
    pub fn policy(&self) -> Arc<dyn Policy> {
        self.policy.clone()
    }

    /// The version that was trained last.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Writes the checkpoint of the version that a run begins with, where it is not there yet. What a start that
    /// was killed had half written goes.
    pub fn keep_first(&self) -> Result<()> {
        for entry in std::fs::read_dir(&self.checkpoints).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(".incomplete-") {
                let _ = std::fs::remove_dir_all(entry.path());
            }
        }
        let folder = self.checkpoints.join(format!("v{}", self.version));
        if !folder.exists() {
            self.learner.save_state(&folder)?;
        }
        Ok(())
    }

    /// Trains on `groups`, writes the checkpoint of the new version and serves it.
    pub fn update(&mut self, config: &UpdateConfig, groups: &[TrainingGroup]) -> Result<UpdateReport> {
        let prompt = |messages: &[Message]| self.policy.prompt_ids(messages);
        let Chosen { mut report, mut batches } = choose_batches(config, groups, self.version, &prompt)?;
        if batches.is_empty() {
            return Ok(report);
        }
        self.fill(&mut batches, config)?;
        let per_step = batches.len().div_ceil(config.steps);
        for step in batches.chunks(per_step) {
            let step = self.learner.policy_step(&step.concat())?;
            report.stuck |= step.skips_in_a_row >= MOST_SKIPS;
            report.steps.push(summary(step));
            if report.stuck {
                break;
            }
        }
        let version = self.version + 1;
        let folder = self.checkpoints.join(format!("v{version}"));
        if folder.exists() {
            // An update that was killed before its row was written: it did not happen.
            std::fs::remove_dir_all(&folder)
                .with_context(|| format!("{} cannot be removed", folder.display()))?;
        }
        self.learner.save_state(&folder)?;
        self.version = version;
        report.version = version;
        self.serve(version)?;
        Ok(report)
    }

    /// Adds what the objective wants to know of the policy before the update, and of the one that the run
    /// started from.
    fn fill(&self, groups: &mut [Vec<Sample>], config: &UpdateConfig) -> Result<()> {
        for group in groups {
            if config.recomputes() {
                let old = self.learner.logprobs(group)?;
                group.iter_mut().zip(old).for_each(|(sample, old)| sample.old_logprobs = Some(old));
            }
            if config.kl.is_on() {
                let reference = self.learner.logprobs_of(&self.start, group)?;
                let filled = group.iter_mut().zip(reference);
                filled.for_each(|(sample, reference)| sample.reference_logprobs = Some(reference));
            }
        }
        Ok(())
    }

    fn serve(&self, version: u64) -> Result<()> {
        self.generator.publish(self.learner.model(), version)?;
        self.policy.set_version(version);
        Ok(())
    }

    /// Loads a version of this run and serves it.
    pub fn activate(&mut self, version: u64) -> Result<()> {
        let folder = self.checkpoints.join(format!("v{version}"));
        self.learner = load(&self.start, self.learner.config().clone(), &folder, &self.devices)?;
        self.version = version;
        self.serve(version)
    }
}

fn load(start: &CausalLm, config: LearnerConfig, folder: &Path, devices: &Devices) -> Result<Learner> {
    let learner = Learner::load_state(start.clone(), config, folder).with_context(|| {
        format!(
            "checkpoint {} of this run cannot be read\nhelp: restore it from a backup, or start a new run",
            folder.display()
        )
    })?;
    spread(learner, devices)
}

/// The learner on all devices.
fn spread(learner: Learner, devices: &Devices) -> Result<Learner> {
    Ok(learner.with_replicas(devices.others(), devices.exchange())?)
}

fn summary(step: StepReport) -> StepSummary {
    StepSummary {
        loss: step.loss,
        grad_norm: step.grad_norm,
        tokens: step.tokens,
        mean_ratio: step.ratios.as_ref().map_or(1.0, |ratios| ratios.mean_ratio),
        approx_kl: step.ratios.as_ref().map_or(0.0, |ratios| ratios.approx_kl),
        entropy: step.entropy,
        clip_fraction: step.ratios.as_ref().map_or(0.0, |ratios| ratios.clip_fraction),
        logprob_gap: step.ratios.as_ref().map_or(0.0, |ratios| ratios.logprob_gap),
        update_norm: step.update_norm,
        learning_rate: step.learning_rate,
        context_tokens: step.context_tokens,
        padding: step.padding,
        seconds: step.seconds,
        skipped: step.skipped,
    }
}
