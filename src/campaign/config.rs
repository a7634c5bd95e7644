//! What does a campaign file say? TOML, every key documented, unknown keys refused.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tandem_host::policy::Sampling;
use tandem_host::workspace::WorkspaceConfig;
use tandem_trainer::model::LoraTargets;

use super::retention::RetentionConfig;
use super::script;
use super::sections::{
    HoldoutConfig, RemovalConfig, SavingsConfig, ScreenConfig, SelfHpoConfig, SkillsConfig, TopUpConfig,
};
use super::update_section::UpdateConfig;
use crate::evolve::GateConfig;
use crate::evolve::teacher::TeachersConfig;

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
    /// Tests whether accepted plugins and prompts are still needed.
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
        // A base that names a file or folder is a path; anything else is a model's name or a hub id.
        if let Some(file) = script::file_of(&config.policy.base) {
            config.policy.base = script::base_of(&folder.join(file));
        } else if crate::model::is_path(&config.policy.base, folder) {
            config.policy.base = folder.join(&config.policy.base).to_string_lossy().into_owned();
        }
        config.check()?;
        Ok(config)
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_no_folders_name_puts_no_run_elsewhere() {
        let check = |name: &str, expected: Option<&str>| {
            let text =
                format!("name = {name:?}\nmethod = \"grpo\"\npolicy.base = \"p\"\ntasks.train = \"t\"");
            let found = CampaignConfig::parse(&text, Path::new("/c")).err().map(|error| format!("{error:#}"));
            assert_eq!(found.is_some(), expected.is_some(), "{name}: {found:?}");
            let found = found.unwrap_or_default();
            assert!(found.contains(expected.unwrap_or_default()), "{name}: {found}");
        };
        check("mend-3.b", None);
        check(
            "../x",
            Some("`name` is \"../x\", but the run's folder is called by it: take letters, digits and `-`"),
        );
        check("a/b", Some("`name` is \"a/b\""));
        check("..", Some("`name` is \"..\""));
        check("", Some("`name` is \"\""));
    }

    #[test]
    fn a_hub_id_is_not_taken_for_a_folder_beside_the_campaign() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("runs/policy")).unwrap();
        let here = folder.path().display();
        let check = |base: &str, expected: String| {
            let text =
                format!("name = \"c\"\nmethod = \"grpo\"\npolicy.base = \"{base}\"\ntasks.train = \"t\"");
            assert_eq!(CampaignConfig::parse(&text, folder.path()).unwrap().policy.base, expected);
        };
        check("smollm2-135m", "smollm2-135m".into());
        check("Qwen/Qwen2.5-1.5B", "Qwen/Qwen2.5-1.5B".into());
        check("Qwen/Qwen2.5-1.5B@main", "Qwen/Qwen2.5-1.5B@main".into());
        check("runs/policy", format!("{here}/runs/policy"));
        check("../base", format!("{here}/../base"));
        check("a/b/c", format!("{here}/a/b/c"));
        check("weights.gguf", format!("{here}/weights.gguf"));
    }

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
}
