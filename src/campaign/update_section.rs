//! How is the policy trained? `[update]` of a campaign file, and what the learner gets of it.

use serde::{Deserialize, Serialize};
use tandem_trainer::learner::{LearnerConfig, Recompute};
use tandem_trainer::objective::{AdvantageKind, Aggregation, Correction, KlPenalty, Objective};
use tandem_trainer::optimizer::{AdamWConfig, Schedule};

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

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::config::CampaignConfig;
    use super::*;

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
