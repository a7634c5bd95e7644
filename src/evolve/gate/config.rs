//! How strict is the gate? Its settings, and the level of each decision of a run.

use std::f64::consts::PI;

use serde::{Deserialize, Deserializer, Serialize};

/// Which rule decides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rule {
    #[default]
    Paired,
    Paper,
}

impl Rule {
    pub fn name(self) -> &'static str {
        match self {
            Self::Paired => "paired",
            Self::Paper => "paper",
        }
    }
}

/// When a group of G rollouts counts as trainable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TrainableIndicator {
    /// At least one success: a task that becomes solved every time is not counted as lost.
    #[default]
    AnySuccess,
    /// Neither all failed nor all solved: the literal reading.
    Mixed,
}

/// What `alpha` is the error of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Spending {
    /// Of all gates of a run together: the j-th has the level α · 6 / (π² j²), and these add up to α.
    #[default]
    Run,
    /// Of each gate by itself.
    Gate,
}

/// What a gate is to show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Claim {
    /// Better on one rate and lower on neither: what a change must be.
    #[default]
    Better,
    /// Lower on neither rate: what a harness with one plugin less must be.
    NotLower,
}

impl Claim {
    pub fn is_better(&self) -> bool {
        *self == Self::Better
    }
}

/// Settings of the gate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GateConfig {
    /// The rule that decides; the other's verdict is recorded beside it.
    pub rule: Rule,
    /// Most tasks that one gate may use (N_max).
    pub tasks: usize,
    /// Tasks that are run before the test looks again.
    pub batch: usize,
    /// Rollouts of a task in each arm (G).
    pub group_size: usize,
    /// Error of "better on neither" being accepted, in the run or in a gate, as `spending` says.
    pub alpha: f64,
    /// Error of each non-inferiority test of a gate.
    pub beta: f64,
    /// Non-inferiority margin of the pass rate.
    pub margin_pass: f64,
    /// Non-inferiority margin of the trainable rate.
    pub margin_trainable: f64,
    /// What the trainable rate of the paired rule counts.
    pub trainable: TrainableIndicator,
    /// Whether the gates of a run share `alpha`.
    pub spending: Spending,
    /// The gain of the pass rate that a gate should not miss.
    pub useful: f64,
    /// Error of giving up a candidate that has the useful gain; 0 never gives up for that reason.
    pub futility: f64,
    /// What is to be shown; the run sets it for removal tests.
    #[serde(skip_serializing_if = "Claim::is_better")]
    pub claim: Claim,
}

impl Default for GateConfig {
    fn default() -> Self {
        Self {
            rule: Rule::Paired,
            tasks: 256,
            batch: 16,
            group_size: 8,
            alpha: 0.1,
            beta: 0.1,
            margin_pass: 0.02,
            margin_trainable: 0.05,
            trainable: TrainableIndicator::AnySuccess,
            spending: Spending::Run,
            useful: 0.05,
            futility: 0.05,
            claim: Claim::Better,
        }
    }
}

impl GateConfig {
    /// The level of the superiority test of gate `decision` of a run, counted from 1.
    pub fn level(&self, decision: u32) -> f64 {
        match self.spending {
            Spending::Gate => self.alpha,
            Spending::Run => self.alpha * 6.0 / (PI * f64::from(decision.max(1))).powi(2),
        }
    }

    /// The most rollouts that one gate on `pool` tasks can take, both arms together.
    pub fn most_rollouts(&self, pool: usize) -> usize {
        2 * self.group_size * self.tasks.min(pool)
    }

    /// Refuses numbers with which no test works.
    ///
    /// # Errors
    /// One sentence that names the key under `evolve.gate`.
    pub fn check(&self) -> Result<(), String> {
        if self.claim != Claim::Better {
            return Err("`evolve.gate.claim` is set by the run itself: leave it out".into());
        }
        for (key, value) in [("group_size", self.group_size), ("tasks", self.tasks), ("batch", self.batch)] {
            if value == 0 {
                return Err(format!("`evolve.gate.{key}` is 0, but must be at least 1"));
            }
        }
        for (key, value) in [("alpha", self.alpha), ("beta", self.beta), ("useful", self.useful)] {
            if !(value > 0.0 && value < 1.0) {
                return Err(format!("`evolve.gate.{key}` is {value}, but must lie between 0 and 1"));
            }
        }
        let from_zero = [
            ("margin_pass", self.margin_pass),
            ("margin_trainable", self.margin_trainable),
            ("futility", self.futility),
        ];
        for (key, value) in from_zero {
            if !(0.0..1.0).contains(&value) {
                return Err(format!("`evolve.gate.{key}` is {value}, but must be 0 or more and below 1"));
            }
        }
        Ok(())
    }
}

/// Reads settings out of a run record: what an older program did not know, it did not do.
///
/// # Errors
/// As serde's: the settings are not ones of a gate.
pub fn as_recorded<'de, D: Deserializer<'de>>(deserializer: D) -> Result<GateConfig, D::Error> {
    let mut settings = serde_json::Map::deserialize(deserializer)?;
    settings.entry("spending").or_insert_with(|| "gate".into());
    settings.entry("futility").or_insert_with(|| 0.0.into());
    serde_json::from_value(serde_json::Value::Object(settings)).map_err(serde::de::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_levels_of_a_run_add_up_to_its_budget() {
        let config = GateConfig::default();
        for (decision, expected) in [(1, 0.060793), (2, 0.015198), (3, 0.006755), (10, 0.000608)] {
            assert!(
                (config.level(decision) - expected).abs() < 1e-6,
                "{decision}: {}",
                config.level(decision)
            );
        }
        let spent: f64 = (1..100_000).map(|decision| config.level(decision)).sum();
        assert!(spent < config.alpha && spent > config.alpha - 1e-5, "{spent}");
    }

    #[test]
    fn a_gate_by_itself_has_the_whole_level() {
        let config = GateConfig { spending: Spending::Gate, ..GateConfig::default() };
        assert_eq!((config.level(1), config.level(9)), (0.1, 0.1));
    }

    #[test]
    fn numbers_with_which_no_test_works_are_refused() {
        let check = |change: fn(&mut GateConfig), expected: expect_test::Expect| {
            let mut config = GateConfig::default();
            change(&mut config);
            expected.assert_eq(&config.check().unwrap_err());
        };
        use expect_test::expect;
        check(|c| c.alpha = 0.0, expect!["`evolve.gate.alpha` is 0, but must lie between 0 and 1"]);
        check(|c| c.beta = f64::NAN, expect!["`evolve.gate.beta` is NaN, but must lie between 0 and 1"]);
        check(|c| c.useful = 0.0, expect!["`evolve.gate.useful` is 0, but must lie between 0 and 1"]);
        check(|c| c.tasks = 0, expect!["`evolve.gate.tasks` is 0, but must be at least 1"]);
        check(
            |c| c.margin_pass = -0.1,
            expect!["`evolve.gate.margin_pass` is -0.1, but must be 0 or more and below 1"],
        );
        assert_eq!(GateConfig::default().check(), Ok(()));
    }
}
