//! What does a campaign file say? TOML, every key documented, unknown keys refused.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tandem_host::policy::Sampling;
use tandem_host::workspace::WorkspaceConfig;
use tandem_trainer::learner::{LearnerConfig, Recompute};
use tandem_trainer::model::LoraTargets;
use tandem_trainer::objective::{AdvantageKind, Aggregation, Correction, KlPenalty, Objective};
use tandem_trainer::optimizer::{AdamWConfig, Schedule};

use super::retention::RetentionConfig;
use super::script;
use super::sections::{
    HoldoutConfig, RemovalConfig, SavingsConfig, ScreenConfig, SelfHpoConfig, SkillsConfig, TopUpConfig,
};
use crate::evolve::GateConfig;
use crate::evolve::teacher::{TeacherRole, TeachersConfig};

/// A co-training job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CampaignConfig {
    /// For people; the run folder is named after it.
    pub name: String,
    /// What is done in each round.
    #[serde(default)]
    pub method: Method,
    /// Everything drawn at random is drawn from this.
    #[serde(default)]
    pub seed: u64,
    /// Collect, diagnose, propose, gate, publish, update, checkpoint: how often.
    #[serde(default = "one")]
    pub rounds: u32,
    pub policy: PolicyConfig,
    pub tasks: TasksConfig,
    #[serde(default)]
    pub harness: HarnessConfig,
    #[serde(default)]
    pub rollout: RolloutConfig,
    #[serde(default)]
    pub evolve: EvolveConfig,
    /// Who writes candidates and skills.
    #[serde(default)]
    pub teacher: TeachersConfig,
    /// How skills are used in training.
    #[serde(default)]
    pub skills: SkillsConfig,
    /// Cycles of the method `self-hpo`, which takes the place of `rounds`.
    #[serde(default)]
    pub self_hpo: SelfHpoConfig,
    #[serde(default)]
    pub update: UpdateConfig,
    #[serde(default)]
    pub evaluation: EvaluationConfig,
    /// What the run folder keeps; unless given, everything.
    #[serde(default, skip_serializing_if = "RetentionConfig::keeps_all")]
    pub retention: RetentionConfig,
    /// Where workspaces are made and what their commands may use; a file that is named with
    /// `--workspaces` goes before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspaces: Option<WorkspaceConfig>,
}

fn one() -> u32 {
    1
}

/// The methods of DESIGN §7 that this version has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// Policy and harness change in turn.
    #[default]
    HarnessAdapt,
    /// Only the policy is trained; the harness stays as it is.
    Grpo,
    /// Only the harness evolves; the policy stays as it is.
    HarnessOnly,
    /// The best of several harness variants on the tasks that were never solved, then policy updates
    /// under it, in cycles.
    SelfHpo,
}

impl Method {
    pub fn name(self) -> &'static str {
        match self {
            Self::HarnessAdapt => "harness-adapt",
            Self::Grpo => "grpo",
            Self::HarnessOnly => "harness-only",
            Self::SelfHpo => "self-hpo",
        }
    }

    pub fn evolves(self) -> bool {
        self != Self::Grpo
    }

    pub fn trains(self) -> bool {
        self != Self::HarnessOnly
    }
}

/// Where the policy comes from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyConfig {
    /// A name of `tandem model list`, a folder in Hugging Face layout, or a GGUF file; `script:FILE` plays
    /// a script in place of a model.
    pub base: String,
    /// A LoRA adapter in PEFT layout to start from.
    pub adapter: Option<PathBuf>,
    #[serde(default)]
    pub lora: LoraSettings,
    /// Episodes whose keys and values the generator holds at once.
    #[serde(default = "default_slots")]
    pub slots: usize,
    /// Most tokens of one conversation.
    #[serde(default = "default_context")]
    pub context: usize,
    /// `f32` or `bf16`; unless given, f32 on the CPU and bf16 on a GPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compute: Option<String>,
}

fn default_slots() -> usize {
    16
}

fn default_context() -> usize {
    2048
}

/// The trained adapter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LoraSettings {
    pub rank: usize,
    pub alpha: f32,
    /// Layers below this one are frozen, which saves their backward pass.
    pub first_layer: usize,
    /// Linear maps that have an adapter, by PEFT's names, or `all-linear` with experts and routers.
    #[serde(skip_serializing_if = "LoraTargets::is_usual")]
    pub targets: LoraTargets,
}

impl Default for LoraSettings {
    fn default() -> Self {
        Self { rank: 8, alpha: 16.0, first_layer: 0, targets: LoraTargets::default() }
    }
}

/// The task sets. Folders hold tasks in Harbor's format.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TasksConfig {
    /// Tasks to train on, and to gate on.
    pub train: PathBuf,
    /// Tasks of the final table; the training tasks if absent.
    pub evaluation: Option<PathBuf>,
}

/// The first harness.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HarnessConfig {
    /// A harness manifest; without one, no plugins and the default prompts and limits.
    pub manifest: Option<PathBuf>,
    /// A harness home, or the folder of a run, that has the harness and its components.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub home: Option<PathBuf>,
    /// Which harness of the home: `current`, `previous`, a digest or its first digits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
}

fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// How episodes are collected.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RolloutConfig {
    /// Episodes of one task (G).
    pub group_size: usize,
    /// Groups of a round.
    pub groups: usize,
    /// Share of a round's groups that the diagnosis looks at; the others run
    /// while candidates are built and gated.
    pub diagnosed: f64,
    /// Episodes at once.
    pub concurrency: usize,
    /// Times that an invalid episode is tried again.
    pub retries: u32,
    pub sampling: Sampling,
    /// More episodes for groups that teach nothing.
    pub top_up: TopUpConfig,
    /// Episodes after which no further round begins, whatever they were run for but the final table; 0 is no
    /// bound. Methods are compared at one budget.
    #[serde(skip_serializing_if = "is_zero")]
    pub budget: usize,
}

impl Default for RolloutConfig {
    fn default() -> Self {
        Self {
            group_size: 8,
            groups: 16,
            diagnosed: 0.5,
            concurrency: 16,
            retries: 2,
            sampling: Sampling::default(),
            top_up: TopUpConfig::default(),
            budget: 0,
        }
    }
}

/// How the harness evolves.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EvolveConfig {
    /// A signal must be seen on this many tasks.
    pub min_tasks: usize,
    /// Candidates that are built and gated in a round.
    pub candidates: usize,
    pub gate: GateConfig,
    /// A cheap look at several candidates before the gate of one.
    pub screen: ScreenConfig,
    /// Tests whether accepted plugins are still needed.
    pub removal: RemovalConfig,
    /// Tasks that are asked rarely, to see whether the gates were right.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holdout: Option<HoldoutConfig>,
    /// Rollouts of gates that need not be run.
    pub savings: SavingsConfig,
}

impl Default for EvolveConfig {
    fn default() -> Self {
        Self {
            min_tasks: 2,
            candidates: 2,
            gate: GateConfig::default(),
            screen: ScreenConfig::default(),
            removal: RemovalConfig::default(),
            holdout: None,
            savings: SavingsConfig::default(),
        }
    }
}

/// The policy update at the end of a round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct UpdateConfig {
    pub learning_rate: f64,
    /// Optimiser steps that the round's groups are split into.
    pub steps: usize,
    /// Most tokens of a padded micro-batch; lower needs less memory.
    pub micro_batch_tokens: usize,
    /// Sequences are padded to a multiple of this; 0 is 256 on CUDA, where every new length means
    /// tuning kernels for it, and 1 on the CPU.
    pub pad_to_multiple_of: usize,
    /// What the backward pass computes again instead of keeping it.
    #[serde(skip_serializing_if = "Recompute::is_none")]
    pub recompute: Recompute,
    /// Most tokens that an update trains on; whole groups past it are left out
    /// and the report says how many. 0 is no limit.
    pub max_tokens: usize,
    /// Gradients are scaled down to this global L2 norm.
    pub max_grad_norm: f64,
    /// Warm-up and decay of the learning rate, in optimiser steps of the whole run.
    pub schedule: Schedule,
    pub adamw: AdamWConfig,
    /// How the outcomes of a group become advantages.
    pub advantage: AdvantageKind,
    /// Bounds how far one round moves a token's probability.
    pub objective: Objective,
    /// What the summed loss is divided by.
    pub aggregation: Aggregation,
    /// Whose log-probabilities the ratio is measured against.
    pub old_logprobs: OldLogprobs,
    /// The weight of a token to whom sampler and trainer give different probabilities; it applies where
    /// `old_logprobs` is `trainer`.
    pub correction: Correction,
    /// The penalty for leaving the policy that the run started from.
    pub kl: KlPenalty,
    /// Weight of each token's entropy in what is maximised.
    pub entropy_bonus: f32,
}

/// Whose log-probabilities of the sampled tokens an update calls old.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OldLogprobs {
    /// The trainer's if an update has several steps, else the sampler's.
    #[default]
    Auto,
    /// Those that were recorded when the tokens were sampled.
    Sampler,
    /// The trainer's, computed before the first step of an update: what lies between sampler and trainer
    /// is then corrected for, and what lies between the steps is bounded.
    Trainer,
}

impl UpdateConfig {
    /// Whether the trainer computes the old log-probabilities again.
    pub fn recomputes(&self) -> bool {
        match self.old_logprobs {
            OldLogprobs::Auto => self.steps > 1,
            OldLogprobs::Sampler => false,
            OldLogprobs::Trainer => true,
        }
    }

    /// The learner's settings for samples of this temperature.
    pub fn learner(&self, temperature: f32) -> LearnerConfig {
        LearnerConfig {
            learning_rate: self.learning_rate,
            schedule: self.schedule,
            adamw: self.adamw,
            max_grad_norm: self.max_grad_norm,
            temperature,
            objective: self.objective,
            aggregation: self.aggregation,
            correction: self.correction,
            kl: self.kl,
            entropy_bonus: self.entropy_bonus,
            micro_batch_tokens: self.micro_batch_tokens,
            pad_to_multiple_of: self.pad_to_multiple_of,
            recompute: self.recompute,
            ..LearnerConfig::default()
        }
    }
}

impl Default for UpdateConfig {
    fn default() -> Self {
        Self {
            learning_rate: 1e-5,
            steps: 1,
            micro_batch_tokens: 4096,
            pad_to_multiple_of: 0,
            recompute: Recompute::default(),
            max_tokens: 0,
            max_grad_norm: 1.0,
            schedule: Schedule::default(),
            adamw: AdamWConfig::default(),
            advantage: AdvantageKind::default(),
            objective: Objective::default(),
            aggregation: Aggregation::default(),
            old_logprobs: OldLogprobs::default(),
            correction: Correction::default(),
            kl: KlPenalty::default(),
            entropy_bonus: 0.0,
        }
    }
}

/// The final table: first and trained policy, first and evolved harness.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EvaluationConfig {
    /// Episodes of one task in each of the four cells; 0 leaves the table out.
    pub episodes: usize,
    /// Most tasks; 0 takes all.
    pub tasks: usize,
}

impl Default for EvaluationConfig {
    fn default() -> Self {
        Self { episodes: 1, tasks: 0 }
    }
}

/// A campaign file that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error(
        "campaign file {path} cannot be read: {reason}\nhelp: check the path; an example is examples/quickstart/campaign.toml"
    )]
    Unreadable { path: PathBuf, reason: String },
    #[error("campaign file {path} is not right: {reason}\nhelp: docs/campaign.md lists every key")]
    Invalid { path: PathBuf, reason: String },
}

impl CampaignConfig {
    /// Reads and checks a campaign file. Paths in it are relative to its folder.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| ConfigError::Unreadable { path: path.to_owned(), reason: error.to_string() })?;
        let folder = path.parent().unwrap_or(Path::new("."));
        Self::parse(&text, folder).map_err(|reason| ConfigError::Invalid { path: path.to_owned(), reason })
    }

    /// Parses a campaign, with paths relative to `folder`; the error is one sentence.
    pub fn parse(text: &str, folder: &Path) -> Result<Self, String> {
        let mut config: Self =
            toml::from_str(text).map_err(|error| error.to_string().trim_end().to_owned())?;
        let resolve = |path: &mut PathBuf| *path = folder.join(&*path);
        resolve(&mut config.tasks.train);
        config.tasks.evaluation.as_mut().map(resolve);
        config.harness.manifest.as_mut().map(resolve);
        config.harness.home.as_mut().map(resolve);
        config.evolve.holdout.as_mut().map(|holdout| resolve(&mut holdout.tasks));
        config.policy.adapter.as_mut().map(resolve);
        if let Some(spaces) = &mut config.workspaces {
            let paths = [&mut spaces.root, &mut spaces.container.socket, &mut spaces.cgroup];
            paths.into_iter().flatten().for_each(resolve);
        }
        config.teacher.harness.resolve(folder);
        config.teacher.skill.as_mut().map(|skill| skill.resolve(folder));
        // A base that names a file or folder is a path; anything else is a model's name.
        if let Some(file) = script::file_of(&config.policy.base) {
            config.policy.base = script::base_of(&folder.join(file));
        } else if config.policy.base.contains('/') || config.policy.base.ends_with(".gguf") {
            config.policy.base = folder.join(&config.policy.base).to_string_lossy().into_owned();
        }
        config.check()?;
        Ok(config)
    }

    /// Refuses what training would silently leave unused.
    ///
    /// # Errors
    /// One sentence with its help.
    pub fn check_for_training(&self) -> Result<(), String> {
        let (skill, method) = (self.teacher.skill.is_some(), self.method);
        let (section, why) = match method {
            Method::Grpo if self.teacher.harness != Default::default() => {
                ("teacher.harness", "the method `grpo` leaves the harness as it is".to_owned())
            }
            Method::HarnessOnly if skill => {
                ("teacher.skill", "the method `harness-only` trains no policy".into())
            }
            Method::SelfHpo if skill => ("teacher.skill", "the method `self-hpo` has no skills".into()),
            Method::HarnessAdapt | Method::Grpo if self.self_hpo != Default::default() => {
                ("self_hpo", format!("the method `{}` has no cycles", method.name()))
            }
            Method::Grpo if self.evolve.holdout.is_some() => {
                ("evolve.holdout", "the method `grpo` accepts no candidates".into())
            }
            Method::SelfHpo if self.evolve.screen.tasks > 0 => {
                ("evolve.screen", "the harness step of `self-hpo` is a screen itself".into())
            }
            Method::SelfHpo if self.evolve.savings.reuse => {
                ("evolve.savings", "`self-hpo` gates before it collects, so there is nothing to reuse".into())
            }
            _ if !skill && self.skills != Default::default() => {
                ("skills", "no `[teacher.skill]` writes any".into())
            }
            _ => return Ok(()),
        };
        let ask = if section.starts_with("teacher.") { "; `tandem teacher ask` can use it" } else { "" };
        Err(format!("the campaign sets `[{section}]`, but {why}\nhelp: leave the section out{ask}"))
    }

    /// Rounds of the whole run: collecting, and what follows from it.
    pub fn all_rounds(&self) -> u32 {
        match self.method {
            Method::SelfHpo => self.self_hpo.cycles * self.self_hpo.updates,
            _ => self.rounds,
        }
    }

    /// Most episodes of a training group; `group_size` where none is topped up.
    pub fn most_of_a_group(&self) -> usize {
        let size = self.rollout.group_size;
        let usual = if self.method == Method::SelfHpo { 4 * size } else { size };
        self.rollout.top_up.cap.map_or(usual, |cap| cap.max(size))
    }

    fn check(&self) -> Result<(), String> {
        self.teacher.harness.check(TeacherRole::Harness)?;
        if let Some(skill) = &self.teacher.skill {
            skill.check(TeacherRole::Skill)?;
        }
        let positive = [
            ("rounds", self.rounds as usize),
            ("rollout.group_size", self.rollout.group_size),
            ("rollout.groups", self.rollout.groups),
            ("rollout.concurrency", self.rollout.concurrency),
            ("policy.slots", self.policy.slots),
            ("policy.lora.rank", self.policy.lora.rank),
            ("update.steps", self.update.steps),
        ];
        for (key, value) in positive {
            if value == 0 {
                return Err(format!("`{key}` is 0, but must be at least 1"));
            }
        }
        if self.rollout.group_size < 2 && self.method.trains() {
            return Err(format!(
                "`rollout.group_size` is {}, but a group of one has no advantage: take 2 or more",
                self.rollout.group_size
            ));
        }
        if self.method.trains() {
            let temperature = self.rollout.sampling.temperature;
            if temperature <= 0.0 {
                return Err(format!(
                    "`rollout.sampling.temperature` is {temperature}, but all episodes of a task are then the \
                     same, and their advantages 0: take one over 0"
                ));
            }
            self.update.learner(temperature).check().map_err(|error| {
                let text = error.to_string();
                format!("in `[update]`, {}", text.split('\n').next().unwrap_or_default())
            })?;
        }
        self.evolve.gate.check()?;
        let evolve = &self.evolve;
        super::sections::check(
            &evolve.screen,
            &evolve.removal,
            evolve.holdout.as_ref(),
            &evolve.savings,
            &self.self_hpo,
        )?;
        if self.method == Method::SelfHpo && self.rounds != 1 {
            return Err(format!(
                "`rounds` is {}, but the method `self-hpo` has `self_hpo.cycles` × `self_hpo.updates`: leave it out",
                self.rounds
            ));
        }
        let kept = self.retention.transcripts;
        if self.method == Method::SelfHpo && kept > 0 && kept < self.self_hpo.updates {
            return Err(format!(
                "`retention.transcripts` is {kept}, but a harness step of `self-hpo` looks at the episodes of the \
                 {} rounds before it: keep as many",
                self.self_hpo.updates
            ));
        }
        if self.harness.manifest.is_some() && self.harness.home.is_some() {
            return Err("`harness.manifest` and `harness.home` both name the first harness: keep one".into());
        }
        if self.harness.digest.is_some() && self.harness.home.is_none() {
            return Err("`harness.digest` names a harness of a home: name it in `harness.home`".into());
        }
        if let Some(cap) = self.rollout.top_up.cap
            && cap > 0
            && cap < self.rollout.group_size
        {
            return Err(format!(
                "`rollout.top_up.cap` is {cap}, but a group has {} episodes before it is topped up",
                self.rollout.group_size
            ));
        }
        if !(0.0..=1.0).contains(&self.rollout.diagnosed) {
            return Err(format!("`rollout.diagnosed` is {}, but must lie in 0 to 1", self.rollout.diagnosed));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_campaign_says_what_workspaces_are_like() {
        let parse = |spaces: &str| {
            let text = format!("name = \"c\"\npolicy.base = \"m\"\ntasks.train = \"t\"\n{spaces}");
            CampaignConfig::parse(&text, Path::new("/here"))
        };
        assert_eq!(parse("").unwrap().workspaces, None);
        let spaces =
            parse("[workspaces]\nroot = \"spaces\"\nsandbox.memory = 1024\n").unwrap().workspaces.unwrap();
        assert_eq!((spaces.root, spaces.sandbox.memory), (Some("/here/spaces".into()), 1024));
        assert_eq!(spaces.sandbox.processes, WorkspaceConfig::default().sandbox.processes);
        assert!(
            parse("[workspaces]\nbackend = \"podman\"\n").unwrap_err().contains("unknown variant `podman`")
        );
    }

    fn parse_update(update: &str) -> Result<UpdateConfig, String> {
        let text = format!("name = \"c\"\npolicy.base = \"m\"\ntasks.train = \"t\"\n{update}");
        CampaignConfig::parse(&text, Path::new("/here")).map(|config| config.update)
    }

    #[test]
    fn every_setting_of_an_update_reaches_the_learner() {
        let check = |text: &str, expected: LearnerConfig| {
            assert_eq!(parse_update(text).unwrap().learner(1.0), expected, "{text}");
        };
        let usual = || UpdateConfig::default().learner(1.0);
        check("", usual());
        check(
            "[update]\nobjective = { kind = \"clip\", low = 0.1, dual = 3.0 }",
            LearnerConfig { objective: Objective::Clip { low: 0.1, high: 0.28, dual: Some(3.0) }, ..usual() },
        );
        check(
            "[update]\nobjective.kind = \"p3o\"\nentropy_bonus = 0.01",
            LearnerConfig { objective: Objective::P3o, entropy_bonus: 0.01, ..usual() },
        );
        check(
            "[update.correction]\nkind = \"token-mask\"\nlow = 0.5\nhigh = 2.0",
            LearnerConfig { correction: Correction::TokenMask { low: 0.5, high: 2.0 }, ..usual() },
        );
        check(
            "[update]\naggregation = { kind = \"constant\", tokens = 512 }\nadamw.weight_decay = 0.1",
            LearnerConfig {
                aggregation: Aggregation::Constant { tokens: 512.0 },
                adamw: AdamWConfig { weight_decay: 0.1, ..AdamWConfig::default() },
                ..usual()
            },
        );
        check(
            "[update]\nrecompute = \"layer\"\npad_to_multiple_of = 32",
            LearnerConfig { recompute: Recompute::Layer, pad_to_multiple_of: 32, ..usual() },
        );
        assert_eq!(UpdateConfig::default().learner(0.7).temperature, 0.7);
    }

    #[test]
    fn adapters_go_on_the_linear_maps_that_are_named() {
        let parse = |targets: &str| {
            let text = format!(
                "name = \"c\"\npolicy.base = \"m\"\ntasks.train = \"t\"\npolicy.lora.targets = {targets}"
            );
            CampaignConfig::parse(&text, Path::new("/here")).map(|config| config.policy.lora.targets)
        };
        let two = LoraTargets::named(["q_proj", "v_proj"]).unwrap();
        assert_eq!(parse(r#"["q_proj", "v_proj"]"#).unwrap(), two);
        assert_eq!(parse(r#""all-linear""#).unwrap(), LoraTargets::all());
        let error = parse(r#"["q"]"#).unwrap_err();
        assert!(error.contains("`q` is no linear map") && error.contains("`v_proj`"), "{error}");
    }

    #[test]
    fn old_log_probabilities_are_computed_again_where_steps_follow_each_other() {
        for (text, expected) in [
            ("", false),
            ("update.steps = 2", true),
            ("update.steps = 2\nupdate.old_logprobs = \"sampler\"", false),
            ("update.old_logprobs = \"trainer\"", true),
        ] {
            assert_eq!(parse_update(text).unwrap().recomputes(), expected, "{text}");
        }
    }

    #[test]
    fn an_update_that_cannot_work_is_refused_before_the_first_episode() {
        let check = |text: &str, expected: expect_test::Expect| {
            expected.assert_eq(&parse_update(text).unwrap_err());
        };
        check(
            "update.learning_rate = 0.0",
            expect_test::expect!["in `[update]`, `learning_rate` is 0, wanted a number over 0"],
        );
        check(
            "update.kl.coefficient = -1.0",
            expect_test::expect!["in `[update]`, `kl.coefficient` is -1, wanted 0 or a positive number"],
        );
        check(
            "update.correction = { kind = \"token\", cap = 0.0 }",
            expect_test::expect![
                "in `[update]`, `correction.cap` is 0, wanted a number over 0, and over `correction.low`"
            ],
        );
        check(
            "update.objective = { kind = \"clip\", dual = 0.5 }",
            expect_test::expect!["in `[update]`, `objective.dual` is 0.5, wanted a number over 1"],
        );
        check(
            "rollout.sampling.temperature = 0.0",
            expect_test::expect![
                "`rollout.sampling.temperature` is 0, but all episodes of a task are then the same, and their advantages 0: take one over 0"
            ],
        );
        let error = parse_update("update.clip_low = 0.2").unwrap_err();
        assert!(error.contains("unknown field `clip_low`"), "{error}");
    }
}
