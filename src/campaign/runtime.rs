//! The policy of a running campaign: which weights are sampled from, which are
//! trained, and where are they kept?

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use tandem_host::agent::{EpisodeRecord, Outcome};
use tandem_host::policy::Policy;
use tandem_host::store::Digest;
use tandem_trainer::checkpoint::{CheckpointInfo, load_policy_as, save_policy};
use tandem_trainer::generate::{Generator, GeneratorConfig};
use tandem_trainer::learner::{Learner, LearnerConfig, Sample, StepReport};
use tandem_trainer::model::{CausalLm, LoraConfig};
use tandem_trainer::objective::{AdvantageKind, Objective, group_advantages};
use tandem_trainer::tokenizer::Tokenizer;
use tandem_trainer::weights::StoredType;

use super::config::{CampaignConfig, UpdateConfig};
use super::local_policy::LocalPolicy;
use super::reports::{StepSummary, UpdateReport};

/// Weights in three places: the learner's, the generator's copy, the checkpoints.
pub struct PolicyRuntime {
    /// Base weights, the warm-up's adapter folded in: what every checkpoint is loaded onto.
    start: CausalLm,
    learner: Learner,
    generator: Generator,
    policy: Arc<LocalPolicy>,
    tokenizer: Arc<Tokenizer>,
    checkpoints: PathBuf,
    base: String,
    /// The version that the learner holds.
    version: u64,
}

impl PolicyRuntime {
    /// Loads the base weights, and version `version` of this run on top.
    pub fn open(config: &CampaignConfig, device: &str, checkpoints: &Path, version: u64) -> Result<Self> {
        let learner_config = learner_config(&config.update, device);
        let device = super::device::parse(device)?;
        let base = super::models::resolve(&config.policy.base)?;
        let compute = super::device::compute(config.policy.compute.as_deref(), &device)?;
        let loaded = load_policy_as(&base, config.policy.adapter.as_deref(), &device, compute)?;
        let lora = LoraConfig {
            rank: config.policy.lora.rank,
            alpha: config.policy.lora.alpha,
            first_layer: config.policy.lora.first_layer,
        };
        // The adapter of the warm-up becomes part of the base; the run trains its own.
        let start = loaded.model.merged();
        let folder = checkpoints.join(format!("v{version}"));
        let learner = if folder.exists() {
            load(&start, learner_config, &folder)?
        } else {
            let model = start.clone().with_lora(lora, config.seed);
            let learner = Learner::new(model, learner_config)?;
            std::fs::create_dir_all(checkpoints)
                .with_context(|| format!("{} cannot be made", checkpoints.display()))?;
            learner.save_state(&folder)?;
            learner
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
            tokenizer.clone(),
            Arc::new(loaded.chat),
            version,
            config.policy.slots,
        ));
        Ok(Self {
            start,
            learner,
            generator,
            policy,
            tokenizer,
            checkpoints: checkpoints.to_owned(),
            base: config.policy.base.clone(),
            version,
        })
    }

    /// The policy that episodes talk to.
    pub fn policy(&self) -> Arc<dyn Policy> {
        self.policy.clone()
    }

    /// The version that was trained last.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Trains on `groups`, each the valid episodes of one group, writes the checkpoint of the new version and serves it.
    pub fn update(&mut self, config: &UpdateConfig, groups: &[Vec<EpisodeRecord>]) -> Result<UpdateReport> {
        let mut report = UpdateReport {
            version: self.version,
            groups: groups.len(),
            mixed_groups: 0,
            left_out: 0,
            episodes: 0,
            tokens: 0,
            steps: Vec::new(),
            skipped: None,
        };
        let mut batches: Vec<Vec<Sample>> = Vec::new();
        for group in groups {
            let samples = group_samples(group);
            if samples.is_empty() {
                continue;
            }
            report.mixed_groups += 1;
            let tokens: usize = samples.iter().map(|sample| sample.ids.len()).sum();
            if config.max_tokens > 0 && report.tokens > 0 && report.tokens + tokens > config.max_tokens {
                report.left_out += 1;
                continue;
            }
            report.tokens += tokens;
            report.episodes += samples.len();
            batches.push(samples);
        }
        if batches.is_empty() {
            report.skipped = Some(format!(
                "none of the {} groups has both a solved and an unsolved episode, so no advantage differs from 0",
                groups.len()
            ));
            return Ok(report);
        }
        let per_step = batches.len().div_ceil(config.steps);
        for step in batches.chunks(per_step) {
            report.steps.push(summary(self.learner.policy_step(&step.concat())?));
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

    fn serve(&self, version: u64) -> Result<()> {
        self.generator.publish(self.learner.model(), version)?;
        self.policy.set_version(version);
        Ok(())
    }

    /// Loads a version of this run and serves it.
    pub fn activate(&mut self, version: u64) -> Result<()> {
        let folder = self.checkpoints.join(format!("v{version}"));
        self.learner = load(&self.start, self.learner.config().clone(), &folder)?;
        self.version = version;
        self.serve(version)
    }

    /// Writes the policy in Hugging Face layout into the new folder `folder`, LoRA factors merged in.
    pub fn export(&self, folder: &Path, harness: &Digest) -> Result<()> {
        let info = CheckpointInfo {
            policy_version: self.version,
            harness_digest: Some(harness.to_string()),
            parent: None,
            base: self.base.clone(),
        };
        save_policy(folder, &self.learner.model(), &self.tokenizer, StoredType::BF16, &info)?;
        Ok(())
    }
}

fn load(start: &CausalLm, config: LearnerConfig, folder: &Path) -> Result<Learner> {
    Learner::load_state(start.clone(), config, folder).with_context(|| {
        format!(
            "checkpoint {} of this run cannot be read\nhelp: restore it from a backup, or start a new run",
            folder.display()
        )
    })
}

/// The learner's settings as the campaign file gives them, for `device`.
fn learner_config(update: &UpdateConfig, device: &str) -> LearnerConfig {
    let pad_to_multiple_of = match update.pad_to_multiple_of {
        0 if device.starts_with("cuda") => 256,
        0 => 1,
        given => given,
    };
    LearnerConfig {
        learning_rate: update.learning_rate,
        objective: Objective::Clip { low: update.clip_low as f32, high: update.clip_high as f32, dual: None },
        micro_batch_tokens: update.micro_batch_tokens,
        pad_to_multiple_of,
        max_grad_norm: update.max_grad_norm,
        head_rows: if device.starts_with("cuda") { 4096 } else { LearnerConfig::default().head_rows },
        ..LearnerConfig::default()
    }
}

fn summary(step: StepReport) -> StepSummary {
    StepSummary {
        loss: step.loss,
        grad_norm: step.grad_norm,
        tokens: step.tokens,
        mean_ratio: step.ratios.as_ref().map_or(1.0, |ratios| ratios.mean_ratio),
        clip_fraction: step.ratios.as_ref().map_or(0.0, |ratios| ratios.clip_fraction),
        logprob_gap: step.ratios.as_ref().map_or(0.0, |ratios| ratios.logprob_gap),
        update_norm: step.update_norm,
        seconds: step.seconds,
        skipped: step.skipped,
    }
}

/// The training samples of a group: nothing for a uniform group, whose advantages
/// are all 0.
fn group_samples(group: &[EpisodeRecord]) -> Vec<Sample> {
    let rewards: Vec<f32> =
        group.iter().map(|episode| f32::from(u8::from(episode.outcome == Outcome::Solved))).collect();
    let advantages = group_advantages(&rewards, AdvantageKind::Centred);
    if !advantages.counted {
        return Vec::new();
    }
    let samples = group.iter().zip(advantages.values).flat_map(|(episode, advantage)| {
        episode.segments.iter().map(move |segment| {
            Sample::new(segment.ids.clone(), segment.mask.clone(), segment.logprobs.clone(), advantage)
        })
    });
    samples.filter(|sample| sample.trained() > 0).collect()
}
