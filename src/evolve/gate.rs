//! Is a candidate harness better than the incumbent, or is it luck?
//!
//! Both arms run the same tasks with fresh rollouts at one policy version. The
//! task is the sample: within a task, d = difference of the success share and
//! u = difference of the trainable indicator. Two rules give a verdict on the
//! same data, and both are always recorded:
//!
//! - `paired`: an anytime-valid test by betting. For x in [−1, 1] and the null
//!   E[x | past] ≤ −δ, W_n(x; δ) = mean over λ of Π (1 + λ (x_t + δ)) is a
//!   non-negative supermartingale, so P(sup W ≥ 1/α) ≤ α under any stopping rule
//!   (Ville; Waudby-Smith and Ramdas, "Estimating means of bounded random
//!   variables by betting", 2010.09686).
//! - `paper`: HarnessAdapt-RL's literal rule, observed pass rate or trainable
//!   rate up and neither down. It has no control of error: a do-nothing edit
//!   passes about one time in three.

use serde::{Deserialize, Serialize};

/// Which rule decides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rule {
    #[default]
    Paired,
    Paper,
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
    /// Error of "better on neither" being accepted.
    pub alpha: f64,
    /// Error of each non-inferiority test.
    pub beta: f64,
    /// Non-inferiority margin of the pass rate.
    pub margin_pass: f64,
    /// Non-inferiority margin of the trainable rate.
    pub margin_trainable: f64,
    /// What the trainable rate of the paired rule counts.
    pub trainable: TrainableIndicator,
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
        }
    }
}

/// What one arm did on one task. A rollout without a result counts as a failure,
/// so that a plugin that crashes cannot look good.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArmCounts {
    pub solved: usize,
    pub rollouts: usize,
}

impl ArmCounts {
    fn share(self) -> f64 {
        if self.rollouts == 0 { 0.0 } else { self.solved as f64 / self.rollouts as f64 }
    }

    fn trainable(self, indicator: TrainableIndicator) -> f64 {
        let yes = match indicator {
            TrainableIndicator::AnySuccess => self.solved > 0,
            TrainableIndicator::Mixed => self.solved > 0 && self.solved < self.rollouts,
        };
        f64::from(u8::from(yes))
    }
}

/// One task of a gate, in the order drawn before the first rollout.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PairedTask {
    pub task: String,
    pub incumbent: ArmCounts,
    pub candidate: ArmCounts,
}

/// The bets λ over which the wealth is averaged.
const BETS: [f64; 5] = [0.1, 0.3, 0.5, 0.7, 0.9];

/// The wealth of one e-process and its running maximum.
#[derive(Clone, Copy, Debug)]
struct Wealth {
    bets: [f64; 5],
    max: f64,
}

impl Wealth {
    const START: Self = Self { bets: [1.0; 5], max: 1.0 };

    fn push(&mut self, x: f64, margin: f64) {
        for (wealth, bet) in self.bets.iter_mut().zip(BETS) {
            *wealth *= 1.0 + bet * (x + margin);
        }
        self.max = self.max.max(self.mean());
    }

    fn mean(&self) -> f64 {
        self.bets.iter().sum::<f64>() / self.bets.len() as f64
    }
}

/// What a rule says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    Accept,
    Reject,
}

/// What the paper's literal rule says, with the rates it looked at.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PaperVerdict {
    pub verdict: Verdict,
    pub pass_incumbent: f64,
    pub pass_candidate: f64,
    pub trainable_incumbent: f64,
    pub trainable_candidate: f64,
}

/// The paired test while it runs.
pub struct PairedTest {
    config: GateConfig,
    superior_pass: Wealth,
    superior_trainable: Wealth,
    superior_max: f64,
    level_pass: Wealth,
    level_trainable: Wealth,
    sum_pass: f64,
    tasks: Vec<PairedTask>,
}

/// Everything a third party needs to recompute a verdict.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GateReport {
    pub config: GateConfig,
    pub tasks: Vec<PairedTask>,
    /// The verdict that counts, by `config.rule`.
    pub verdict: Verdict,
    pub paired: Verdict,
    pub paper: PaperVerdict,
    /// ½ (W(d; 0) + W(u; 0)), its maximum; accepted from 1/α on.
    pub superiority: f64,
    /// Maximum of W(d; margin_pass); accepted from 1/β on.
    pub level_pass: f64,
    /// Maximum of W(u; margin_trainable); accepted from 1/β on.
    pub level_trainable: f64,
    /// One sentence.
    pub reason: String,
}

impl PairedTest {
    pub fn new(config: GateConfig) -> Self {
        Self {
            config,
            superior_pass: Wealth::START,
            superior_trainable: Wealth::START,
            superior_max: 1.0,
            level_pass: Wealth::START,
            level_trainable: Wealth::START,
            sum_pass: 0.0,
            tasks: Vec::new(),
        }
    }

    /// Adds the next task in drawn order and says whether the test is decided.
    pub fn push(&mut self, task: PairedTask) -> Option<Verdict> {
        let indicator = self.config.trainable;
        let d = task.candidate.share() - task.incumbent.share();
        let u = task.candidate.trainable(indicator) - task.incumbent.trainable(indicator);
        self.superior_pass.push(d, 0.0);
        self.superior_trainable.push(u, 0.0);
        let superior = 0.5 * (self.superior_pass.mean() + self.superior_trainable.mean());
        self.superior_max = self.superior_max.max(superior);
        self.level_pass.push(d, self.config.margin_pass);
        self.level_trainable.push(u, self.config.margin_trainable);
        self.sum_pass += d;
        self.tasks.push(task);
        self.decided()
    }

    fn decided(&self) -> Option<Verdict> {
        let config = &self.config;
        let seen = self.tasks.len();
        let accept = self.superior_max >= 1.0 / config.alpha
            && self.level_pass.max >= 1.0 / config.beta
            && self.level_trainable.max >= 1.0 / config.beta;
        if accept {
            return Some(Verdict::Accept);
        }
        // Futility costs power only: any rule for giving up keeps the error bounds.
        let hopeless = (seen >= 40 && self.level_pass.mean() < 0.05) || (seen <= 24 && self.sum_pass <= -4.0);
        (seen >= config.tasks || hopeless).then_some(Verdict::Reject)
    }

    /// Closes the test: undecided is refused.
    pub fn report(self) -> GateReport {
        let paired = self.decided().unwrap_or(Verdict::Reject);
        let paper = paper_verdict(&self.tasks);
        let verdict = match self.config.rule {
            Rule::Paired => paired,
            Rule::Paper => paper.verdict,
        };
        let reason = self.reason(paired, &paper);
        GateReport {
            verdict,
            paired,
            paper,
            superiority: self.superior_max,
            level_pass: self.level_pass.max,
            level_trainable: self.level_trainable.max,
            reason,
            tasks: self.tasks,
            config: self.config,
        }
    }

    fn reason(&self, paired: Verdict, paper: &PaperVerdict) -> String {
        let rates = format!(
            "pass rate {:.1} % to {:.1} % on {} tasks",
            100.0 * paper.pass_incumbent,
            100.0 * paper.pass_candidate,
            self.tasks.len()
        );
        if self.config.rule == Rule::Paper {
            let verb = if paper.verdict == Verdict::Accept { "better" } else { "not better" };
            return format!("{verb} by the observed rates: {rates}");
        }
        let needed = |bound: f64, have: f64, what: &str| {
            (have < 1.0 / bound).then(|| format!("{what}: evidence {have:.2} of {:.0} needed", 1.0 / bound))
        };
        let missing: Vec<_> = [
            needed(self.config.alpha, self.superior_max, "better on one rate"),
            needed(self.config.beta, self.level_pass.max, "pass rate not lower"),
            needed(self.config.beta, self.level_trainable.max, "trainable rate not lower"),
        ]
        .into_iter()
        .flatten()
        .collect();
        match paired {
            Verdict::Accept => format!("better, and lower on neither rate: {rates}"),
            Verdict::Reject => format!("not shown ({}): {rates}", missing.join("; ")),
        }
    }
}

/// The literal rule: observed pass rate or trainable rate up, neither down. The
/// trainable rate is the share of groups with mixed outcomes.
fn paper_verdict(tasks: &[PairedTask]) -> PaperVerdict {
    let mean = |f: &dyn Fn(&PairedTask) -> f64| {
        if tasks.is_empty() { 0.0 } else { tasks.iter().map(f).sum::<f64>() / tasks.len() as f64 }
    };
    let mixed = TrainableIndicator::Mixed;
    let pass_incumbent = mean(&|t| t.incumbent.share());
    let pass_candidate = mean(&|t| t.candidate.share());
    let trainable_incumbent = mean(&|t| t.incumbent.trainable(mixed));
    let trainable_candidate = mean(&|t| t.candidate.trainable(mixed));
    let none_down = pass_candidate >= pass_incumbent && trainable_candidate >= trainable_incumbent;
    let one_up = pass_candidate > pass_incumbent || trainable_candidate > trainable_incumbent;
    let verdict = if none_down && one_up { Verdict::Accept } else { Verdict::Reject };
    PaperVerdict { verdict, pass_incumbent, pass_candidate, trainable_incumbent, trainable_candidate }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(incumbent: usize, candidate: usize, rollouts: usize) -> PairedTask {
        PairedTask {
            task: "t".into(),
            incumbent: ArmCounts { solved: incumbent, rollouts },
            candidate: ArmCounts { solved: candidate, rollouts },
        }
    }

    fn run(config: GateConfig, tasks: impl IntoIterator<Item = PairedTask>) -> GateReport {
        let mut test = PairedTest::new(config);
        for task in tasks {
            if test.push(task).is_some() {
                break;
            }
        }
        test.report()
    }

    #[test]
    fn wealth_follows_the_golden_vector() {
        let d = [0.25, 0.125, 0.0, 0.5, -0.125, 0.25, 0.375, 0.125, 0.0, 0.25];
        let expected =
            [1.125, 1.197813, 1.197813, 1.513516, 1.407845, 1.600775, 1.940119, 2.082961, 2.082961, 2.394169];
        let mut level = Wealth::START;
        let mut margin = Wealth::START;
        for (x, want) in d.into_iter().zip(expected) {
            level.push(x, 0.0);
            margin.push(x, 0.02);
            assert!((level.mean() - want).abs() < 1e-6, "{} is not {want}", level.mean());
        }
        assert!((margin.mean() - 2.674607).abs() < 1e-6);
    }

    #[test]
    fn a_clear_gain_is_accepted_early() {
        let config = GateConfig { group_size: 2, margin_trainable: 0.1, ..GateConfig::default() };
        let report = run(config, (0..256).map(|_| task(0, 2, 2)));
        assert_eq!((report.verdict, report.paper.verdict), (Verdict::Accept, Verdict::Accept));
        assert!(report.tasks.len() < 20, "took {} tasks", report.tasks.len());
    }

    #[test]
    fn a_loss_is_given_up_early() {
        let report = run(GateConfig::default(), (0..256).map(|_| task(8, 0, 8)));
        assert_eq!(report.verdict, Verdict::Reject);
        assert_eq!(report.tasks.len(), 4);
    }

    #[test]
    fn equal_arms_are_refused_by_both_rules() {
        let report = run(GateConfig { tasks: 64, ..GateConfig::default() }, (0..64).map(|_| task(4, 4, 8)));
        assert_eq!((report.verdict, report.paper.verdict), (Verdict::Reject, Verdict::Reject));
    }

    #[test]
    fn solving_a_task_every_time_is_not_a_loss_of_trainable_rate() {
        // The literal rule refuses it, since a solved group is no longer mixed.
        let config = GateConfig { margin_trainable: 0.1, ..GateConfig::default() };
        let report = run(config, (0..256).map(|_| task(4, 8, 8)));
        assert_eq!((report.paired, report.paper.verdict), (Verdict::Accept, Verdict::Reject));
    }

    #[test]
    fn the_rule_of_the_configuration_decides_and_both_are_recorded() {
        let config = GateConfig { rule: Rule::Paper, tasks: 2, group_size: 2, ..GateConfig::default() };
        let report = run(config, [task(0, 1, 2), task(1, 1, 2)]);
        assert_eq!((report.verdict, report.paired), (Verdict::Accept, Verdict::Reject));
    }

    /// 200 edits that change nothing must not pass more often than α allows
    /// (plus three standard deviations of the binomial).
    #[test]
    fn edits_that_do_nothing_are_accepted_at_most_alpha_of_the_time() {
        let mut random = 0x9e37_79b9_7f4a_7c15u64;
        let mut uniform = move || {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            (random >> 11) as f64 / (1u64 << 53) as f64
        };
        let accepted = (0..200)
            .filter(|_| {
                let config = GateConfig { tasks: 64, group_size: 4, ..GateConfig::default() };
                let tasks: Vec<_> = (0..64)
                    .map(|_| {
                        let p = uniform();
                        let mut arm = || (0..4).filter(|_| uniform() < p).count();
                        let (incumbent, candidate) = (arm(), arm());
                        task(incumbent, candidate, 4)
                    })
                    .collect();
                run(config, tasks).paired == Verdict::Accept
            })
            .count();
        let bound = 200.0 * 0.1 + 3.0 * (200.0f64 * 0.1 * 0.9).sqrt();
        assert!((accepted as f64) < bound, "{accepted} of 200 accepted");
    }

    #[test]
    fn the_reason_names_what_is_missing_with_both_numbers() {
        let report = run(GateConfig { tasks: 2, ..GateConfig::default() }, [task(1, 1, 8), task(2, 2, 8)]);
        expect_test::expect![[
            "not shown (better on one rate: evidence 1.00 of 10 needed; pass rate not lower: evidence 1.02 of 10 needed; trainable rate not lower: evidence 1.05 of 10 needed): pass rate 18.8 % to 18.8 % on 2 tasks"
        ]]
        .assert_eq(&report.reason);
    }
}
