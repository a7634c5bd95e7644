//! What is recorded of a gate, and what does it say in one sentence?

use serde::{Deserialize, Serialize};

use super::config::{Claim, GateConfig, Rule, as_recorded};
use super::counts::PairedTask;
use super::paired::{Ended, Level, PathPoint};
use super::paper::{PaperVerdict, Verdict};

/// Everything a third party needs to recompute a verdict.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GateReport {
    #[serde(deserialize_with = "as_recorded")]
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
    /// The decision's share of the run's error; older programs kept none, and took `config.alpha`.
    #[serde(default)]
    pub level: Option<Level>,
    /// What ended the paired test.
    #[serde(default)]
    pub ended: Option<Ended>,
    /// The e-values after each of `tasks`; empty in a report of an older program.
    #[serde(default)]
    pub path: Vec<PathPoint>,
}

/// One of the three tests: the question, what is there, and what is needed.
pub(super) struct Asked {
    pub question: &'static str,
    pub evidence: f64,
    pub needed: f64,
}

impl Asked {
    pub fn is_answered(&self) -> bool {
        self.evidence >= self.needed
    }
}

impl GateReport {
    /// The error of the superiority test.
    pub fn alpha(&self) -> f64 {
        self.level.map_or(self.config.alpha, |level| level.alpha)
    }

    /// The tests that must all be passed, in the order of the page: three, or for a removal the last two.
    pub(super) fn asked(&self) -> Vec<Asked> {
        let asked = |question, evidence, error: f64| Asked { question, evidence, needed: 1.0 / error };
        let mut all = vec![
            asked("better on one rate", self.superiority, self.alpha()),
            asked("pass rate not lower", self.level_pass, self.config.beta),
            asked("trainable rate not lower", self.level_trainable, self.config.beta),
        ];
        if self.config.claim == Claim::NotLower {
            all.remove(0);
        }
        all
    }

    /// Accepted or refused, and why.
    pub(super) fn sentence(&self) -> String {
        let rates = format!(
            "pass rate {:.1} % to {:.1} % on {} tasks",
            100.0 * self.paper.pass_incumbent,
            100.0 * self.paper.pass_candidate,
            self.tasks.len()
        );
        if self.config.rule == Rule::Paper {
            let verb = match (self.config.claim, self.paper.verdict) {
                (Claim::Better, Verdict::Accept) => "better",
                (Claim::Better, Verdict::Reject) => "not better",
                (Claim::NotLower, Verdict::Accept) => "not lower without it",
                (Claim::NotLower, Verdict::Reject) => "lower without it",
            };
            return format!("{verb} by the observed rates: {rates}");
        }
        let missing: Vec<_> = self
            .asked()
            .iter()
            .filter(|asked| !asked.is_answered())
            .map(|asked| {
                format!(
                    "{}: evidence {:.2} of {} needed",
                    asked.question,
                    asked.evidence,
                    number(asked.needed)
                )
            })
            .collect();
        let missing = missing.join("; ");
        let useful = number(100.0 * self.config.useful);
        match self.ended {
            Some(Ended::Shown) if self.config.claim == Claim::NotLower => {
                format!("lower on neither rate without it: {rates}")
            }
            Some(Ended::Shown) => format!("better, and lower on neither rate: {rates}"),
            Some(Ended::FarBehind) => format!("given up early, far behind the incumbent: {rates}"),
            Some(Ended::PassRateFalls) => format!("given up early, the pass rate falls: {rates}"),
            Some(Ended::NoUsefulGain) => {
                format!("given up early, a gain of {useful} points is ruled out ({missing}): {rates}")
            }
            Some(Ended::OutOfTasks) | None => format!("not shown ({missing}): {rates}"),
        }
    }
}

/// A number as short as it reads well: 10, 16.4, 0.05.
pub(super) fn number(value: f64) -> String {
    let digits = if value.abs() >= 1.0 { 1 } else { 4 };
    let text = format!("{value:.digits$}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::super::counts::task;
    use super::super::paired::tests::{alone, run};
    use super::*;
    use expect_test::{Expect, expect};

    fn check(config: GateConfig, tasks: Vec<PairedTask>, expected: Expect) {
        expected.assert_eq(&run(config, tasks).reason);
    }

    #[test]
    fn the_reason_names_what_is_missing_with_both_numbers() {
        check(
            GateConfig { tasks: 2, ..GateConfig::default() },
            vec![task(1, 1, 8), task(2, 2, 8)],
            expect![
                "not shown (better on one rate: evidence 1.00 of 16.4 needed; pass rate not lower: evidence 1.02 of 10 needed; trainable rate not lower: evidence 1.05 of 10 needed): pass rate 18.8 % to 18.8 % on 2 tasks"
            ],
        );
        check(
            alone(),
            vec![task(4, 4, 8); 256],
            expect![
                "given up early, a gain of 5 points is ruled out (better on one rate: evidence 1.00 of 10 needed; pass rate not lower: evidence 2.91 of 10 needed): pass rate 50.0 % to 50.0 % on 94 tasks"
            ],
        );
        check(
            alone(),
            vec![task(8, 0, 8); 256],
            expect!["given up early, far behind the incumbent: pass rate 100.0 % to 0.0 % on 4 tasks"],
        );
        check(
            GateConfig { margin_trainable: 0.1, ..alone() },
            vec![task(4, 6, 8); 256],
            expect!["better, and lower on neither rate: pass rate 50.0 % to 75.0 % on 38 tasks"],
        );
    }

    /// A report as a program before wealth paths wrote it.
    #[test]
    fn a_report_of_an_older_program_is_read_as_it_was_meant() {
        let text = r#"{"config":{"rule":"paired","tasks":1,"batch":1,"group_size":2,"alpha":0.25,"beta":0.25,"margin_pass":0.2,"margin_trainable":0.2,"trainable":"any-success"},"tasks":[{"task":"a","incumbent":{"solved":0,"rollouts":2},"candidate":{"solved":1,"rollouts":2}}],"verdict":"reject","paired":"reject","paper":{"verdict":"accept","pass_incumbent":0.0,"pass_candidate":0.5,"trainable_incumbent":0.0,"trainable_candidate":1.0},"superiority":1.4,"level_pass":1.3,"level_trainable":1.6,"reason":"not shown"}"#;
        let report: GateReport = serde_json::from_str(text).unwrap();
        assert_eq!((report.alpha(), report.config.futility, report.path.len()), (0.25, 0.0, 0));
        assert_eq!(report.config.level(7), 0.25);
    }

    #[test]
    fn numbers_are_short() {
        for (value, expected) in
            [(10.0, "10"), (16.449, "16.4"), (0.0608, "0.0608"), (0.05, "0.05"), (0.0, "0")]
        {
            assert_eq!(number(value), expected);
        }
    }
}
