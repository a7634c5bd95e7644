//! Why was a candidate accepted or refused? The words and numbers of one gate.

use std::fmt;

use serde::Serialize;
use tandem_host::store::Digest;

use super::config::{Claim, Rule, Spending};
use super::counts::PairedTask;
use super::paper::Verdict;
use super::report::{GateReport, number};

/// One gate, recomputed from its episodes and compared with what is recorded.
#[derive(Debug, Serialize)]
pub struct Explanation {
    /// The id of the gate, as `r1/gate0`.
    pub gate: String,
    /// The name of the plugin that was proposed.
    pub candidate: String,
    pub incumbent: Digest,
    /// The harness with the candidate in it.
    pub harness: Digest,
    /// The policy that both arms had.
    pub policy_version: Option<u64>,
    /// What the record says; none for a gate that is not done.
    pub recorded: Option<Verdict>,
    pub recomputed: GateReport,
    /// In what the record differs from its episodes; none when it agrees.
    pub differences: Vec<String>,
    /// What a reader must know beside, a sentence each.
    pub notes: Vec<String>,
    /// Tasks that one arm solves nearly always and the other nearly never.
    pub gained: Vec<String>,
    pub lost: Vec<String>,
    /// Show all of the wealth path as text, not some of it.
    #[serde(skip)]
    pub whole_path: bool,
}

/// Lines of the wealth path that are shown unless all are asked for.
const SOME: usize = 12;

/// Tasks where `high` is solved in 7 of 8 rollouts or more, and `low` in 2 of 8 or fewer.
fn turned(tasks: &[PairedTask], lost: fn(&PairedTask) -> (f64, f64)) -> Vec<String> {
    let turned = tasks.iter().filter(|task| {
        let (high, low) = lost(task);
        high >= 0.875 && low <= 0.25
    });
    turned.map(|task| task.task.clone()).collect()
}

impl Explanation {
    /// The tasks that turned from solved to unsolved, and the reverse: (gained, lost).
    pub fn turns(tasks: &[PairedTask]) -> (Vec<String>, Vec<String>) {
        let gained = turned(tasks, |task| (task.candidate.share(), task.incumbent.share()));
        let lost = turned(tasks, |task| (task.incumbent.share(), task.candidate.share()));
        (gained, lost)
    }

    fn head(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let report = &self.recomputed;
        let config = &report.config;
        let version =
            self.policy_version.map_or("no episode yet".into(), |version| format!("policy v{version}"));
        writeln!(
            f,
            "gate {}: `{}`, harness {} against {}, {version}",
            self.gate,
            self.candidate,
            self.harness.short(),
            self.incumbent.short()
        )?;
        let level = match (report.level, config.spending) {
            _ if config.claim == Claim::NotLower => "a removal: each test at the error `beta`".into(),
            (Some(level), Spending::Run) => format!(
                "decision {} of the run at level {}, of {} for all",
                level.decision,
                number(level.alpha),
                number(config.alpha)
            ),
            _ => format!("level {}, of this gate by itself", number(report.alpha())),
        };
        writeln!(f, "  the rule `{}` decides; {level}", config.rule.name())?;
        writeln!(
            f,
            "  {} of at most {} tasks, {} rollouts in each arm of a task",
            report.tasks.len(),
            config.tasks,
            config.group_size
        )
    }

    fn evidence(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let asked = self.recomputed.asked();
        let all = if asked.len() == 3 { "all three" } else { "both" };
        writeln!(f, "\nThe paired rule: {}, {all} must be shown", self.recomputed.paired.name())?;
        for asked in asked {
            writeln!(
                f,
                "  {:26} evidence {:.2} of {} needed: {}",
                asked.question,
                asked.evidence,
                number(asked.needed),
                if asked.is_answered() { "shown" } else { "not shown" }
            )?;
        }
        let paper = &self.recomputed.paper;
        let rule = if all == "both" { "no rate down" } else { "one rate up and none down" };
        writeln!(f, "The paper's rule: {}, {rule}", paper.verdict.name())?;
        let rates = [
            ("pass rate", paper.pass_incumbent, paper.pass_candidate),
            ("trainable rate", paper.trainable_incumbent, paper.trainable_candidate),
        ];
        for (name, incumbent, candidate) in rates {
            writeln!(f, "  {name:26} {:.1} % to {:.1} %", 100.0 * incumbent, 100.0 * candidate)?;
        }
        Ok(())
    }

    fn path(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let report = &self.recomputed;
        let count = report.path.len();
        let step = if self.whole_path { 1 } else { count.div_ceil(SOME).max(1) };
        let shown = if step == 1 { String::new() } else { format!(", each {step}th task; all with --path") };
        writeln!(f, "\nWealth after each task, in drawn order{shown}")?;
        writeln!(
            f,
            "  {:>4}  {:>5}  {:>5}  {:>6}  {:>4}  {:>9}  {:>9}  {:>9}  {:>9}  task",
            "n", "inc.", "cand.", "d", "u", "better", "pass", "trainable", "no gain"
        )?;
        let lines = report.tasks.iter().zip(&report.path).enumerate();
        for (at, (task, point)) in lines.filter(|(at, _)| (at + 1) % step == 0 || at + 1 == count) {
            let (old, new) = (task.incumbent, task.candidate);
            writeln!(
                f,
                "  {:>4}  {:>5}  {:>5}  {:>6}  {:>4}  {:>9.3}  {:>9.3}  {:>9.3}  {:>9.3}  {}",
                at + 1,
                format!("{}/{}", old.solved, old.rollouts),
                format!("{}/{}", new.solved, new.rollouts),
                format!("{:+.3}", point.d),
                format!("{:+}", point.u),
                point.superior(),
                point.level_pass,
                point.level_trainable,
                point.no_gain,
                task.task
            )?;
        }
        Ok(())
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.head(f)?;
        let done = match (self.recorded, self.recomputed.verdict) {
            (None, _) => "not done yet",
            (Some(_), Verdict::Accept) => "accepted",
            (Some(_), Verdict::Reject) => "refused",
        };
        writeln!(f, "  {done}: {}", self.recomputed.reason)?;
        self.evidence(f)?;
        if self.recomputed.config.rule == Rule::Paired {
            writeln!(f, "  It saw the tasks up to the decision of the paired rule, no fixed sample.")?;
        }
        self.path(f)?;
        for (what, tasks) in [("gained", &self.gained), ("lost", &self.lost)] {
            if !tasks.is_empty() {
                writeln!(f, "\nTasks {what} almost whole: {}", tasks.join(", "))?;
            }
        }
        for note in &self.notes {
            writeln!(f, "\nnote: {note}")?;
        }
        match (self.recorded, self.differences.is_empty()) {
            (_, false) => {
                writeln!(f, "\nThe record DIFFERS from its episodes:")?;
                self.differences.iter().try_for_each(|line| writeln!(f, "  {line}"))
            }
            (Some(_), true) => writeln!(f, "\nThe record agrees with its episodes."),
            (None, true) => Ok(()),
        }
    }
}
