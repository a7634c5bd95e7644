//! When is the paired test decided, and how? Three e-processes that must all speak for a
//! candidate, and the reasons to give it up.

use serde::{Deserialize, Serialize};

use super::config::{Claim, GateConfig, Rule};
use super::counts::PairedTask;
use super::paper::Verdict;
use super::report::GateReport;
use super::wealth::Wealth;

/// The e-values after one task: enough to see where the test turned.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PathPoint {
    /// Candidate minus incumbent: share of solved rollouts, trainable indicator.
    pub d: f64,
    pub u: f64,
    /// W(d; 0) and W(u; 0); superiority looks at their mean.
    pub superior_pass: f64,
    pub superior_trainable: f64,
    /// W(d; `margin_pass`) and W(u; `margin_trainable`).
    pub level_pass: f64,
    pub level_trainable: f64,
    /// W(−d; `useful`): evidence that the pass rate gains less than what is useful.
    pub no_gain: f64,
}

impl PathPoint {
    pub fn superior(&self) -> f64 {
        0.5 * (self.superior_pass + self.superior_trainable)
    }
}

/// What ended the paired test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ended {
    /// All three tests spoke for the candidate.
    Shown,
    /// The tasks were used up.
    OutOfTasks,
    /// Σd ≤ −4 within the first 24 tasks.
    FarBehind,
    /// W(d; `margin_pass`) < 0.05 after 40 tasks or more.
    PassRateFalls,
    /// The useful gain is ruled out at `futility`, and nothing speaks for the trainable rate.
    NoUsefulGain,
}

/// The level of one decision of a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Level {
    /// Which gate of the run, from 1.
    pub decision: u32,
    /// The error of its superiority test.
    pub alpha: f64,
}

/// The paired test while it runs.
pub struct PairedTest {
    config: GateConfig,
    level: Level,
    superior_pass: Wealth,
    superior_trainable: Wealth,
    superior_max: f64,
    level_pass: Wealth,
    level_trainable: Wealth,
    no_gain: Wealth,
    sum_pass: f64,
    tasks: Vec<PairedTask>,
    path: Vec<PathPoint>,
    ended: Option<Ended>,
}

impl PairedTest {
    /// The test of gate `decision` of a run, counted from 1.
    pub fn new(config: GateConfig, decision: u32) -> Self {
        Self {
            level: Level { decision, alpha: config.level(decision) },
            config,
            superior_pass: Wealth::START,
            superior_trainable: Wealth::START,
            superior_max: 1.0,
            level_pass: Wealth::START,
            level_trainable: Wealth::START,
            no_gain: Wealth::START,
            sum_pass: 0.0,
            tasks: Vec::new(),
            path: Vec::new(),
            ended: None,
        }
    }

    /// Adds the next task in drawn order and says whether the gate is decided. By the paper's rule it is
    /// when all tasks are there: a look in between would choose the moment by its result.
    pub fn push(&mut self, task: PairedTask) -> Option<Verdict> {
        let d = task.gain();
        let u = task.trainable_gain(self.config.trainable);
        self.superior_pass.push(d, 0.0);
        self.superior_trainable.push(u, 0.0);
        self.level_pass.push(d, self.config.margin_pass);
        self.level_trainable.push(u, self.config.margin_trainable);
        self.no_gain.push(-d, self.config.useful);
        let point = PathPoint {
            d,
            u,
            superior_pass: self.superior_pass.mean(),
            superior_trainable: self.superior_trainable.mean(),
            level_pass: self.level_pass.mean(),
            level_trainable: self.level_trainable.mean(),
            no_gain: self.no_gain.mean(),
        };
        self.superior_max = self.superior_max.max(point.superior());
        self.sum_pass += d;
        self.tasks.push(task);
        self.path.push(point);
        // The first end counts: what comes after it only serves the paper's rule.
        self.ended = self.ended.or_else(|| self.ends(&point));
        match self.config.rule {
            Rule::Paired => self.verdict(),
            Rule::Paper if self.tasks.len() >= self.config.tasks => {
                Some(super::paper::paper_verdict(&self.tasks, self.config.claim).verdict)
            }
            Rule::Paper => None,
        }
    }

    /// The tasks so far, in drawn order.
    pub fn tasks(&self) -> &[PairedTask] {
        &self.tasks
    }

    fn ends(&self, now: &PathPoint) -> Option<Ended> {
        let config = &self.config;
        let seen = self.tasks.len();
        let better = config.claim == Claim::NotLower || self.superior_max >= 1.0 / self.level.alpha;
        let shown = better
            && self.level_pass.max() >= 1.0 / config.beta
            && self.level_trainable.max() >= 1.0 / config.beta;
        if shown {
            return Some(Ended::Shown);
        }
        // Giving up costs power only: any rule for it keeps the error bounds. This one misses the
        // useful gain with probability `futility` at most, since under that gain W(−d; useful) is an
        // e-process. A candidate may also be worth it by its trainable rate.
        let wants_gain = config.claim == Claim::Better && config.futility > 0.0;
        let ruled_out = wants_gain && self.no_gain.max() >= 1.0 / config.futility;
        if seen <= 24 && self.sum_pass <= -4.0 {
            Some(Ended::FarBehind)
        } else if seen >= 40 && now.level_pass < 0.05 {
            Some(Ended::PassRateFalls)
        } else if ruled_out && now.superior_trainable <= 1.0 {
            Some(Ended::NoUsefulGain)
        } else {
            (seen >= config.tasks).then_some(Ended::OutOfTasks)
        }
    }

    /// What the paired rule says, once it does.
    fn verdict(&self) -> Option<Verdict> {
        self.ended.map(|ended| if ended == Ended::Shown { Verdict::Accept } else { Verdict::Reject })
    }

    /// Closes the test: undecided is refused.
    pub fn report(self) -> GateReport {
        let paired = self.verdict().unwrap_or(Verdict::Reject);
        let paper = super::paper::paper_verdict(&self.tasks, self.config.claim);
        let verdict = match self.config.rule {
            Rule::Paired => paired,
            Rule::Paper => paper.verdict,
        };
        let mut report = GateReport {
            verdict,
            paired,
            paper,
            superiority: self.superior_max,
            level_pass: self.level_pass.max(),
            level_trainable: self.level_trainable.max(),
            reason: String::new(),
            level: Some(self.level),
            ended: self.ended,
            path: self.path,
            tasks: self.tasks,
            config: self.config,
        };
        report.reason = report.sentence();
        report
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::config::Spending;
    use super::super::counts::task;
    use super::super::random::Random;
    use super::*;

    /// As each gate by itself, which the golden numbers are of.
    pub fn alone() -> GateConfig {
        GateConfig { spending: Spending::Gate, ..GateConfig::default() }
    }

    pub fn run(config: GateConfig, tasks: impl IntoIterator<Item = PairedTask>) -> GateReport {
        let mut test = PairedTest::new(config, 1);
        for task in tasks {
            if test.push(task).is_some() {
                break;
            }
        }
        test.report()
    }

    fn check(config: GateConfig, tasks: Vec<PairedTask>, expected: (Ended, usize)) {
        let report = run(config, tasks);
        assert_eq!((report.ended, report.tasks.len()), (Some(expected.0), expected.1));
        let accepted = expected.0 == Ended::Shown;
        assert_eq!(report.paired == Verdict::Accept, accepted);
    }

    #[test]
    fn the_test_ends_where_it_should() {
        let lots = |incumbent, candidate| vec![task(incumbent, candidate, 8); 256];
        let gain = GateConfig { group_size: 2, margin_trainable: 0.1, ..alone() };
        check(gain, vec![task(0, 2, 2); 256], (Ended::Shown, 5));
        check(alone(), lots(8, 0), (Ended::FarBehind, 4));
        check(alone(), lots(4, 4), (Ended::NoUsefulGain, 94));
        check(GateConfig { futility: 0.0, ..alone() }, lots(4, 4), (Ended::OutOfTasks, 256));
        check(GateConfig { futility: 0.0, ..alone() }, lots(4, 3), (Ended::PassRateFalls, 137));
        // Whoever runs short of tasks has shown nothing.
        check(GateConfig { tasks: 4, ..alone() }, lots(0, 8), (Ended::OutOfTasks, 4));
    }

    /// Removal tests: nothing has to get better, and nothing is given up for want of a gain.
    #[test]
    fn a_removal_is_accepted_when_nothing_is_lower_without_it() {
        let removal = || GateConfig { claim: Claim::NotLower, ..alone() };
        let report = run(removal(), vec![task(4, 4, 8); 256]);
        assert_eq!((report.ended, report.tasks.len()), (Some(Ended::Shown), 184));
        assert_eq!((report.verdict, report.paper.verdict), (Verdict::Accept, Verdict::Accept));
        assert_eq!(
            report.reason,
            "lower on neither rate without it: pass rate 50.0 % to 50.0 % on 184 tasks"
        );
        // What the plugin brought is lost without it.
        let report = run(removal(), vec![task(8, 0, 8); 256]);
        assert_eq!((report.verdict, report.ended), (Verdict::Reject, Some(Ended::FarBehind)));
        let paper = GateConfig { rule: Rule::Paper, tasks: 2, ..removal() };
        assert_eq!(run(paper.clone(), vec![task(2, 2, 8); 2]).verdict, Verdict::Accept);
        assert_eq!(run(paper, vec![task(2, 1, 8); 2]).verdict, Verdict::Reject);
    }

    /// A removal that costs more than the margin passes no more often than beta allows.
    #[test]
    fn a_removal_that_costs_more_than_the_margin_is_refused() {
        let config =
            GateConfig { claim: Claim::NotLower, margin_pass: 0.05, margin_trainable: 0.2, ..alone() };
        let edit = |number| {
            let mut random = Random::new(8, number);
            let tasks = (0..config.tasks).map(|_| {
                let p = 0.1 + 0.8 * random.uniform();
                let mut arm = |p| random.successes(8, p);
                let (incumbent, candidate) = (arm(p), arm(p - 0.06));
                task(incumbent, candidate, 8)
            });
            run(config.clone(), tasks.collect::<Vec<_>>()).paired == Verdict::Accept
        };
        let accepted = (0..200).filter(|number| edit(*number)).count() as f64;
        assert!(accepted < 200.0 * 0.1 + 3.0 * (200.0f64 * 0.1 * 0.9).sqrt(), "{accepted} of 200 accepted");
    }

    #[test]
    fn a_shared_budget_asks_more_of_later_gates() {
        let tasks_of = |decision| {
            let mut test = PairedTest::new(GateConfig::default(), decision);
            (1..=256).find(|_| test.push(task(3, 5, 8)).is_some()).unwrap()
        };
        let config = GateConfig { margin_trainable: 0.5, ..GateConfig::default() };
        let with = |decision| {
            let mut test = PairedTest::new(config.clone(), decision);
            (1..=256).find(|_| test.push(task(3, 5, 8)) == Some(Verdict::Accept)).unwrap()
        };
        assert!(with(1) < with(2) && with(2) < with(20), "{} {} {}", with(1), with(2), with(20));
        assert!(tasks_of(1) >= with(1));
    }

    #[test]
    fn solving_a_task_every_time_is_not_a_loss_of_trainable_rate() {
        // The literal rule refuses it, since a solved group is no longer mixed.
        let config = GateConfig { margin_trainable: 0.1, ..alone() };
        let report = run(config, vec![task(4, 8, 8); 256]);
        assert_eq!((report.paired, report.paper.verdict), (Verdict::Accept, Verdict::Reject));
    }

    #[test]
    fn the_rule_of_the_configuration_decides_and_both_are_recorded() {
        let config = GateConfig { rule: Rule::Paper, tasks: 2, group_size: 2, ..alone() };
        let report = run(config, [task(0, 1, 2), task(1, 1, 2)]);
        assert_eq!((report.verdict, report.paired), (Verdict::Accept, Verdict::Reject));
    }

    #[test]
    fn the_papers_rule_is_not_read_before_all_tasks_are_there() {
        // The paired test gives up after four tasks; the literal rule has a fixed sample.
        let config = GateConfig { rule: Rule::Paper, tasks: 30, ..alone() };
        let report = run(config, vec![task(8, 0, 8); 30]);
        assert_eq!((report.tasks.len(), report.ended), (30, Some(Ended::FarBehind)));
    }

    #[test]
    fn a_candidate_whose_trainable_rate_rises_is_not_given_up_for_its_pass_rate() {
        // One task in two gains its only success; the others lose as much.
        let tasks: Vec<_> =
            (0..256).map(|i| if i % 2 == 0 { task(0, 1, 8) } else { task(5, 4, 8) }).collect();
        let report = run(GateConfig { margin_pass: 0.1, ..alone() }, tasks);
        assert_eq!(report.ended, Some(Ended::Shown));
    }

    /// 200 edits that change nothing must not pass more often than α allows
    /// (plus three standard deviations of the binomial).
    #[test]
    fn edits_that_do_nothing_are_accepted_at_most_alpha_of_the_time() {
        let accepted = |config: &GateConfig, seed| {
            let edit = |number| {
                let mut random = Random::new(seed, number);
                let tasks = (0..config.tasks).map(|_| {
                    let p = random.uniform();
                    let mut arm = || (0..config.group_size).filter(|_| random.uniform() < p).count();
                    let (incumbent, candidate) = (arm(), arm());
                    task(incumbent, candidate, config.group_size)
                });
                run(config.clone(), tasks.collect::<Vec<_>>()).paired == Verdict::Accept
            };
            (0..200).filter(|number| edit(*number)).count() as f64
        };
        let bound = 200.0 * 0.1 + 3.0 * (200.0f64 * 0.1 * 0.9).sqrt();
        for config in [
            GateConfig { tasks: 64, group_size: 4, ..alone() },
            // Margins so wide that superiority alone decides.
            GateConfig { margin_pass: 0.5, margin_trainable: 0.5, futility: 0.0, ..alone() },
        ] {
            let count = accepted(&config, 3);
            assert!(count < bound, "{count} of 200 accepted");
        }
    }
}
