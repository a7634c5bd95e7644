//! Does a recorded gate say what its episodes say?

use super::paired::PathPoint;
use super::report::GateReport;

/// Relative difference under which two numbers are the same: JSON may move the last digit.
const SAME: f64 = 1e-9;

/// In what `recorded` differs from what was `recomputed` of the same gate, a sentence each; no sentence
/// when they agree. What an older program did not record is not compared.
pub fn differences(recorded: &GateReport, recomputed: &GateReport) -> Vec<String> {
    let mut found = Vec::new();
    let mut say = |what: &str, recorded: String, recomputed: String| {
        found.push(format!("{what}: recorded {recorded}, recomputed {recomputed}"));
    };
    let verdicts = [
        ("verdict", recorded.verdict, recomputed.verdict),
        ("verdict of the paired rule", recorded.paired, recomputed.paired),
        ("verdict of the paper's rule", recorded.paper.verdict, recomputed.paper.verdict),
    ];
    for (what, left, right) in verdicts.into_iter().filter(|(_, left, right)| left != right) {
        say(what, left.name().into(), right.name().into());
    }
    let (left, right) = (&recorded.paper, &recomputed.paper);
    let numbers = [
        ("level of the decision", recorded.alpha(), recomputed.alpha()),
        ("evidence of superiority", recorded.superiority, recomputed.superiority),
        ("evidence that the pass rate is not lower", recorded.level_pass, recomputed.level_pass),
        (
            "evidence that the trainable rate is not lower",
            recorded.level_trainable,
            recomputed.level_trainable,
        ),
        ("pass rate of the incumbent", left.pass_incumbent, right.pass_incumbent),
        ("pass rate of the candidate", left.pass_candidate, right.pass_candidate),
        ("trainable rate of the incumbent", left.trainable_incumbent, right.trainable_incumbent),
        ("trainable rate of the candidate", left.trainable_candidate, right.trainable_candidate),
    ];
    for (what, left, right) in numbers.into_iter().filter(|(_, left, right)| !same(*left, *right)) {
        say(what, format!("{left:.6}"), format!("{right:.6}"));
    }
    if recorded.config != recomputed.config {
        found.push("the settings of the gate are not those that were kept before its first rollout".into());
    }
    tasks(recorded, recomputed, &mut found);
    path(recorded, recomputed, &mut found);
    found
}

fn tasks(recorded: &GateReport, recomputed: &GateReport, found: &mut Vec<String>) {
    if recorded.tasks.len() != recomputed.tasks.len() {
        let (left, right) = (recorded.tasks.len(), recomputed.tasks.len());
        found.push(format!("tasks until the decision: recorded {left}, recomputed {right}"));
    }
    let pairs = recorded.tasks.iter().zip(&recomputed.tasks);
    for (number, (left, right)) in pairs.enumerate().filter(|(_, (left, right))| left != right) {
        let counts = |task: &super::PairedTask| {
            let (old, new) = (task.incumbent, task.candidate);
            format!("{} {}/{} and {}/{}", task.task, old.solved, old.rollouts, new.solved, new.rollouts)
        };
        found.push(format!("task {}: recorded {}, recomputed {}", number + 1, counts(left), counts(right)));
    }
}

fn path(recorded: &GateReport, recomputed: &GateReport, found: &mut Vec<String>) {
    if recorded.path.is_empty() {
        return;
    }
    if recorded.ended != recomputed.ended {
        found.push("what ended the test is recorded differently".into());
    }
    let differ = recorded.path.iter().zip(&recomputed.path).position(|(left, right)| {
        values(left).into_iter().zip(values(right)).any(|(left, right)| !same(left, right))
    });
    let lengths = (recorded.path.len() != recomputed.path.len())
        .then(|| recorded.path.len().min(recomputed.path.len()));
    if let Some(first) = differ.or(lengths) {
        found.push(format!("the wealth path differs from task {} on", first + 1));
    }
}

fn values(point: &PathPoint) -> [f64; 7] {
    [
        point.d,
        point.u,
        point.superior_pass,
        point.superior_trainable,
        point.level_pass,
        point.level_trainable,
        point.no_gain,
    ]
}

fn same(left: f64, right: f64) -> bool {
    left == right || (left - right).abs() <= SAME * left.abs().max(right.abs()).max(1.0)
}

#[cfg(test)]
mod tests {
    use super::super::config::GateConfig;
    use super::super::counts::task;
    use super::super::paired::tests::run;
    use super::*;
    use expect_test::{Expect, expect};

    fn check(change: fn(&mut GateReport), expected: Expect) {
        let report = run(GateConfig { tasks: 4, ..GateConfig::default() }, vec![task(2, 3, 8); 4]);
        // As a record holds it.
        let mut recorded: GateReport =
            serde_json::from_str(&serde_json::to_string(&report).unwrap()).unwrap();
        change(&mut recorded);
        expected.assert_eq(&differences(&recorded, &report).join("\n"));
    }

    #[test]
    fn whatever_was_changed_in_a_record_is_named() {
        check(|_| {}, expect![[""]]);
        check(
            |r| r.tasks[1].candidate.solved = 8,
            expect!["task 2: recorded t 2/8 and 8/8, recomputed t 2/8 and 3/8"],
        );
        check(
            |r| r.verdict = super::super::Verdict::Accept,
            expect!["verdict: recorded accept, recomputed reject"],
        );
        check(|r| r.path[2].level_pass *= 1.001, expect!["the wealth path differs from task 3 on"]);
        check(
            |r| r.config.margin_pass = 0.5,
            expect!["the settings of the gate are not those that were kept before its first rollout"],
        );
        check(
            |r| {
                r.tasks.pop();
                r.path.pop();
            },
            expect![[r#"
                tasks until the decision: recorded 3, recomputed 4
                the wealth path differs from task 4 on"#]],
        );
        check(
            |r| r.superiority = 20.0,
            expect!["evidence of superiority: recorded 20.000000, recomputed 1.141449"],
        );
        // What an older program did not keep is not missed.
        check(|r| r.path.clear(), expect![[""]]);
    }
}
