//! What does a campaign file say about skills, Self-HPO, top-ups, screens, removal tests and the hold-out?

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// `[skills]`: how skills are used in training. They are written where `[teacher.skill]` names a teacher,
/// and no gate, table or pair ever has one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SkillsConfig {
    pub mode: SkillMode,
    /// Most skills that are asked for in a round.
    pub per_round: usize,
    /// Rounds over which the chance that a task's group uses its skill falls from 1 to 0; 0 keeps it at 1.
    pub fade: u32,
}

impl Default for SkillsConfig {
    fn default() -> Self {
        Self { mode: SkillMode::default(), per_round: 8, fade: 0 }
    }
}

/// How a skill enters the gradient.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SkillMode {
    /// The skill is in the prompt in rollout and training, with loss mask 0: π(y | x, skill) is trained.
    #[default]
    InContext,
    /// The skill is in the prompt of the rollout alone: the probabilities that are trained are those
    /// without it, against those that the tokens were sampled with.
    OffContext,
    /// As `in-context`, for tasks of which no episode without a skill was solved in the round.
    OnlyIfAllFail,
}

impl SkillMode {
    pub fn name(self) -> &'static str {
        match self {
            Self::InContext => "in-context",
            Self::OffContext => "off-context",
            Self::OnlyIfAllFail => "only-if-all-fail",
        }
    }
}

/// `[rollout.top_up]`: more episodes for a group that teaches nothing, in stages up to a cap.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TopUpConfig {
    /// Most episodes of one group, the first `group_size` among them. 0 tops nothing up; unless given, 0,
    /// and four times the group with the method `self-hpo`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cap: Option<usize>,
    /// Episodes of one stage; 0 is `group_size`.
    pub stage: usize,
    /// Which groups are topped up.
    pub groups: Uniform,
    /// Whether what was kept of a class counts for what was drawn of it.
    pub reweight: bool,
}

impl Default for TopUpConfig {
    fn default() -> Self {
        Self { cap: None, stage: 0, groups: Uniform::default(), reweight: true }
    }
}

/// Groups whose outcomes are all the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Uniform {
    /// None was solved.
    #[default]
    AllFailed,
    /// None or all were solved.
    Any,
}

/// `[evolve.screen]`: a cheap look at the candidates of a round, by successive halving, before the gate
/// of the one that is left.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ScreenConfig {
    /// Tasks of the first look; doubled for each after it. 0 gates every candidate.
    pub tasks: usize,
    /// Rollouts of a task under each candidate.
    pub rollouts: usize,
}

impl Default for ScreenConfig {
    fn default() -> Self {
        Self { tasks: 0, rollouts: 1 }
    }
}

/// `[evolve.removal]`: accepted plugins and prompts are tested again for whether they are still needed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RemovalConfig {
    /// Rounds after which what was accepted, or kept by such a test, is tested; 0 never tests.
    pub every: u32,
    /// Most removal tests of a round, the oldest first.
    pub most: usize,
    /// Margins of "not lower without it"; those of the gate unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub margin_pass: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub margin_trainable: Option<f64>,
}

impl Default for RemovalConfig {
    fn default() -> Self {
        Self { every: 4, most: 1, margin_pass: None, margin_trainable: None }
    }
}

/// `[evolve.holdout]`: tasks that no training, teacher, screen or gate sees, asked rarely and answered in
/// one word.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HoldoutConfig {
    /// A folder of Harbor tasks, none of which is trained on.
    pub tasks: PathBuf,
    /// Accepted candidates between two looks.
    #[serde(default = "three")]
    pub every: usize,
    /// Rollouts of a task under each harness.
    #[serde(default = "four")]
    pub group_size: usize,
    /// Looks of a run; what is asked often is known in the end.
    #[serde(default = "five")]
    pub most: usize,
    /// Whether the harness of the last look is published again when the hold-out says `worse`.
    #[serde(default)]
    pub rollback: bool,
}

fn three() -> usize {
    3
}

fn four() -> usize {
    4
}

fn five() -> usize {
    5
}

/// `[evolve.savings]`: rollouts that a gate need not run, since what they would say is known.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SavingsConfig {
    /// An episode of the incumbent is replayed under the candidate; where nothing happens, the
    /// candidate's episode of the same seed is that one. Wants a policy that repeats itself for a seed.
    pub inert: bool,
    /// Share of the replayed ties that are run for real and compared byte for byte. All are, until one
    /// batch has shown that the policy repeats itself.
    pub audit: f64,
    /// Training groups of the round serve as the incumbent's arm where they qualify. The round's groups
    /// are then collected before its gates, not beside them.
    pub reuse: bool,
}

impl Default for SavingsConfig {
    fn default() -> Self {
        Self { inert: false, audit: 0.125, reuse: false }
    }
}

/// `[self_hpo]`: cycles of a harness step and a policy step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SelfHpoConfig {
    /// Harness step, then policy step: how often.
    pub cycles: u32,
    /// Harness variants of a cycle (K); the incumbent is one arm more.
    pub variants: usize,
    /// Rollouts of a hard task under each of them.
    pub attempts: usize,
    /// Rounds of collecting and updating in a policy step, with the harness frozen.
    pub updates: u32,
    /// Most tasks of a hard set; 0 takes all.
    pub hard_tasks: usize,
    /// Attempts without success that make a task hard; 0 is `rollout.group_size`.
    pub min_attempts: usize,
    /// Tasks that the confirmation has beside the hard ones: solved ones, then such as were not tried yet.
    pub guard: usize,
}

impl Default for SelfHpoConfig {
    fn default() -> Self {
        Self { cycles: 2, variants: 6, attempts: 2, updates: 50, hard_tasks: 64, min_attempts: 0, guard: 16 }
    }
}

impl SelfHpoConfig {
    /// Most tasks of a hard set out of a pool of `pool`.
    pub fn most_hard(&self, pool: usize) -> usize {
        if self.hard_tasks > 0 { self.hard_tasks.min(pool) } else { pool }
    }

    /// The most tasks that the confirmation of each cycle has: its guard, and hard ones out of those that were
    /// tried before it, in a probe of `groups` tasks or in the policy step of the cycle before.
    pub fn confirmations(&self, groups: usize, pool: usize) -> Vec<usize> {
        let steps = |cycle: u32| if cycle == 0 { 1 } else { self.updates as usize };
        let tried = |cycle: u32| groups.saturating_mul(steps(cycle));
        let most = |cycle: u32| self.most_hard(pool).min(tried(cycle)).saturating_add(self.guard).min(pool);
        (0..self.cycles).map(most).collect()
    }
}

/// Says which number of the sections above cannot work.
pub fn check(
    screen: &ScreenConfig,
    removal: &RemovalConfig,
    holdout: Option<&HoldoutConfig>,
    savings: &SavingsConfig,
    hpo: &SelfHpoConfig,
) -> Result<(), String> {
    let mut positive = vec![
        ("evolve.screen.rollouts", screen.rollouts),
        ("self_hpo.cycles", hpo.cycles as usize),
        ("self_hpo.variants", hpo.variants),
        ("self_hpo.attempts", hpo.attempts),
        ("self_hpo.updates", hpo.updates as usize),
    ];
    if let Some(holdout) = holdout {
        positive.extend([
            ("evolve.holdout.every", holdout.every),
            ("evolve.holdout.group_size", holdout.group_size),
        ]);
    }
    if let Some((key, _)) = positive.into_iter().find(|(_, value)| *value == 0) {
        return Err(format!("`{key}` is 0, but must be at least 1"));
    }
    let margins = [
        ("evolve.removal.margin_pass", removal.margin_pass),
        ("evolve.removal.margin_trainable", removal.margin_trainable),
        ("evolve.savings.audit", Some(savings.audit)),
    ];
    for (key, value) in margins {
        if value.is_some_and(|value| !(0.0..=1.0).contains(&value)) {
            return Err(format!("`{key}` is {}, but must lie in 0 to 1", value.unwrap_or_default()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::config::{CampaignConfig, Method};

    #[test]
    fn the_example_campaigns_are_read_and_each_has_its_method() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/campaigns");
        for (name, method) in [
            ("grpo", Method::Grpo),
            ("harness-only", Method::HarnessOnly),
            ("harness-adapt", Method::HarnessAdapt),
            ("self-hpo", Method::SelfHpo),
        ] {
            let config = CampaignConfig::load(&folder.join(format!("{name}.toml"))).unwrap();
            assert_eq!((config.name.as_str(), config.method), (name, method));
            config.check_for_training().unwrap();
            assert!(
                config.tasks.train.is_dir() && config.harness.manifest.is_some_and(|path| path.is_file())
            );
            // As the run keeps it, and reads it again.
            let kept =
                serde_json::to_string(&CampaignConfig::load(&folder.join(format!("{name}.toml"))).unwrap());
            assert!(serde_json::from_str::<CampaignConfig>(&kept.unwrap()).is_ok());
        }
        let hpo = CampaignConfig::load(&folder.join("self-hpo.toml")).unwrap();
        assert_eq!((hpo.all_rounds(), hpo.most_of_a_group()), (20, 24));
    }

    #[test]
    fn a_confirmation_is_not_promised_tasks_that_its_cycle_cannot_have() {
        let check = |text: &str, groups: usize, pool: usize, expected: &[usize]| {
            let text = format!("name = \"c\"\npolicy.base = \"m\"\ntasks.train = \"t\"\n{text}");
            let hpo = CampaignConfig::parse(&text, Path::new("/here")).unwrap().self_hpo;
            assert_eq!(hpo.confirmations(groups, pool), expected, "{text}");
        };
        check("", 16, 330, &[32, 80]);
        check("self_hpo.updates = 2", 16, 330, &[32, 48]);
        check("self_hpo.hard_tasks = 0", 16, 330, &[32, 330]);
        check("self_hpo.guard = 0", 16, 330, &[16, 64]);
        check("self_hpo.cycles = 3", 16, 20, &[20, 20, 20]);
    }

    #[test]
    fn sections_that_contradict_the_method_are_refused() {
        let check = |text: &str, expected: &str| {
            let text = format!("name = \"c\"\npolicy.base = \"m\"\ntasks.train = \"t\"\n{text}");
            let found = CampaignConfig::parse(&text, Path::new("/here")).and_then(|c| c.check_for_training());
            let found = found.err().unwrap_or_default();
            assert_eq!(found.split('\n').next().unwrap_or_default(), expected, "{text}");
        };
        check("method = 'self-hpo'", "");
        check(
            "method = 'self-hpo'\nrounds = 3",
            "`rounds` is 3, but the method `self-hpo` has `self_hpo.cycles` × `self_hpo.updates`: leave it out",
        );
        check(
            "self_hpo.variants = 3",
            "the campaign sets `[self_hpo]`, but the method `harness-adapt` has no cycles",
        );
        check(
            "skills.mode = 'off-context'",
            "the campaign sets `[skills]`, but no `[teacher.skill]` writes any",
        );
        check(
            "method = 'grpo'\nevolve.holdout.tasks = 'h'",
            "the campaign sets `[evolve.holdout]`, but the method `grpo` accepts no candidates",
        );
        check(
            "method = 'self-hpo'\nevolve.screen.tasks = 4",
            "the campaign sets `[evolve.screen]`, but the harness step of `self-hpo` is a screen itself",
        );
        check("skills.mode = 'mixed'", "TOML parse error at line 4, column 15");
        check("evolve.screen.rollouts = 0", "`evolve.screen.rollouts` is 0, but must be at least 1");
        check(
            "rollout.top_up.cap = 4",
            "`rollout.top_up.cap` is 4, but a group has 8 episodes before it is topped up",
        );
        check("evolve.savings.audit = 2.0", "`evolve.savings.audit` is 2, but must lie in 0 to 1");
        check(
            "harness.digest = 'ab'",
            "`harness.digest` names a harness of a home: name it in `harness.home`",
        );
        check(
            "evolve.gate.claim = 'not-lower'",
            "`evolve.gate.claim` is set by the run itself: leave it out",
        );
    }
}
