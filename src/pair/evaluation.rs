//! What did a run's policies and harnesses solve, and how sure is that?
//!
//! The task is the sample: a cell's pass rate is the mean over its tasks of the share of episodes
//! that solved it, and its interval comes from drawing tasks with replacement (the percentile
//! bootstrap). Draws have a fixed seed: the same episodes give the same intervals.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tandem_host::store::Digest;

use crate::campaign::EpisodeRow;
use crate::evolve::Random;

const RESAMPLES: usize = 10_000;
const SEED: u64 = 0x7461_6e64_656d;
/// Share of the draws that the interval leaves out on each side.
const TAIL: f64 = 0.025;

/// The table of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Evaluation {
    /// How the intervals were made, in words.
    pub method: String,
    pub resamples: usize,
    pub seed: u64,
    /// By policy version and harness.
    pub cells: Vec<Cell>,
    /// What the pair's cell has over the one that the run began with, on the tasks of both.
    pub gain: Option<Gain>,
}

/// One policy version under one harness.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cell {
    pub policy_version: u64,
    pub harness: Digest,
    /// Whether it is that of the pair.
    pub of_pair: bool,
    pub tasks: usize,
    /// Those with a verdict.
    pub episodes: usize,
    pub solved: usize,
    /// Episodes without a verdict, which count as failures in the rate.
    pub invalid: usize,
    pub pass_rate: f64,
    /// 95 %; none with fewer than two tasks.
    pub interval: Option<[f64; 2]>,
}

/// A difference of pass rates, in the same unit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gain {
    pub tasks: usize,
    pub pass_rate: f64,
    /// 95 %; none with fewer than two tasks.
    pub interval: Option<[f64; 2]>,
}

/// Episodes of one task: solved, with a verdict, without.
#[derive(Clone, Copy, Default)]
struct Counts {
    solved: usize,
    valid: usize,
    invalid: usize,
}

/// The table of the episodes `rows`, of which `pair` is the policy version and harness that is
/// shipped. None without episodes.
pub fn evaluation<'a>(
    rows: impl Iterator<Item = &'a EpisodeRow>,
    first: Digest,
    pair: (u64, Digest),
) -> Option<Evaluation> {
    let mut cells: BTreeMap<(u64, Digest), BTreeMap<String, Counts>> = BTreeMap::new();
    for row in rows {
        let tasks = cells.entry((row.policy_version, row.harness)).or_default();
        let counts = tasks.entry(row.task.clone()).or_default();
        match (row.valid(), row.solved()) {
            (true, solved) => {
                counts.valid += 1;
                counts.solved += usize::from(solved);
            }
            (false, _) => counts.invalid += 1,
        }
    }
    if cells.is_empty() {
        return None;
    }
    let gain = match (cells.get(&(0, first)), cells.get(&pair)) {
        (Some(before), Some(after)) if pair != (0, first) => gain(before, after),
        _ => None,
    };
    let cells = cells.iter().map(|(key, tasks)| cell(*key, tasks, *key == pair)).collect();
    Some(Evaluation {
        method: "mean over tasks of the share of solved episodes; 95 % percentile bootstrap over tasks, and where all tasks agree the exact binomial interval"
            .into(),
        resamples: RESAMPLES,
        seed: SEED,
        cells,
        gain,
    })
}

fn shares(tasks: &BTreeMap<String, Counts>) -> BTreeMap<&str, f64> {
    // As gates and `tandem eval` have it: what ended without a verdict was not solved.
    let share = |counts: &Counts| counts.solved as f64 / (counts.valid + counts.invalid) as f64;
    tasks.iter().map(|(task, counts)| (task.as_str(), share(counts))).collect()
}

fn cell((policy_version, harness): (u64, Digest), tasks: &BTreeMap<String, Counts>, of_pair: bool) -> Cell {
    let values: Vec<f64> = shares(tasks).into_values().collect();
    Cell {
        policy_version,
        harness,
        of_pair,
        tasks: values.len(),
        episodes: tasks.values().map(|counts| counts.valid).sum(),
        solved: tasks.values().map(|counts| counts.solved).sum(),
        invalid: tasks.values().map(|counts| counts.invalid).sum(),
        pass_rate: short(mean(&values)),
        interval: interval_of_rate(&values),
    }
}

fn gain(before: &BTreeMap<String, Counts>, after: &BTreeMap<String, Counts>) -> Option<Gain> {
    let (before, after) = (shares(before), shares(after));
    let values: Vec<f64> = after.iter().filter_map(|(task, share)| Some(share - before.get(task)?)).collect();
    let any = !values.is_empty();
    any.then(|| Gain { tasks: values.len(), pass_rate: short(mean(&values)), interval: interval(&values) })
}

fn mean(values: &[f64]) -> f64 {
    if values.is_empty() { 0.0 } else { values.iter().sum::<f64>() / values.len() as f64 }
}

/// Six decimals: what is written is read back as the same number by every reader.
fn short(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}

/// Where all tasks were solved every time, or none ever, drawing again says nothing: the exact
/// binomial interval (Clopper and Pearson, 1934) does.
pub fn interval_of_rate(values: &[f64]) -> Option<[f64; 2]> {
    let bound = || TAIL.powf(1.0 / values.len() as f64);
    match interval(values)? {
        [_, high] if high == 0.0 => Some([0.0, short(1.0 - bound())]),
        [low, _] if low == 1.0 => Some([short(bound()), 1.0]),
        drawn => Some(drawn),
    }
}

/// A 95 % interval of the mean of `values`, one for each task; none with fewer than two.
pub fn interval(values: &[f64]) -> Option<[f64; 2]> {
    if values.len() < 2 {
        return None;
    }
    let mut random = Random::of_state(SEED);
    let count = values.len() as u64;
    let mut means: Vec<f64> = (0..RESAMPLES)
        .map(|_| {
            let sum: f64 = (0..count).map(|_| values[(random.next() % count) as usize]).sum();
            sum / count as f64
        })
        .collect();
    means.sort_by(f64::total_cmp);
    let at = |share: f64| short(means[((RESAMPLES - 1) as f64 * share).round() as usize]);
    Some([at(TAIL), at(1.0 - TAIL)])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(task: &str, version: u64, outcome: &str, number: usize) -> EpisodeRow {
        EpisodeRow {
            id: format!("{version}/{task}/{number}"),
            round: 1,
            arm: "evaluate".into(),
            task: task.into(),
            group: task.into(),
            policy_version: version,
            harness: Digest::of(b"h"),
            skill: None,
            outcome: outcome.into(),
            exit: "submitted".into(),
            turns: 1,
            sampled_tokens: 1,
            effects: 0,
            faults: 0,
            seconds: 0.0,
            record: Digest::of(b"r"),
            thinned: false,
        }
    }

    #[test]
    fn intervals_are_of_tasks_and_are_drawn_alike_every_time() {
        let mut rows = Vec::new();
        for task in 0..20 {
            for number in 0..2 {
                let name = format!("t{task}");
                rows.push(row(&name, 0, if task < 4 { "solved" } else { "unsolved" }, number));
                rows.push(row(&name, 3, if task < 10 { "solved" } else { "unsolved" }, number));
            }
        }
        rows.push(row("t0", 3, "invalid:workspace", 9));
        let harness = Digest::of(b"h");
        let table = evaluation(rows.iter(), harness, (3, harness)).unwrap();
        assert_eq!(table, evaluation(rows.iter().rev(), harness, (3, harness)).unwrap());
        let [before, after] = &table.cells[..] else { panic!("two cells") };
        assert_eq!((before.pass_rate, after.invalid), (0.2, 1));
        let near = |value: f64, expected: f64| assert!((value - expected).abs() < 1e-6, "{value} {expected}");
        // Of the first task two of three episodes are solved: one without a verdict is a failure.
        near(after.pass_rate, (9.0 + 2.0 / 3.0) / 20.0);
        assert_eq!((after.tasks, after.episodes, after.solved, after.of_pair), (20, 40, 20, true));
        // The normal approximation gives 0.5 ± 1.96 √(0.25 / 20) = [0.28, 0.72].
        let [low, high] = after.interval.unwrap();
        assert!((low - 0.28).abs() < 0.04 && (high - 0.72).abs() < 0.04, "{low} {high}");
        let gain = table.gain.unwrap();
        assert_eq!(gain.tasks, 20);
        near(gain.pass_rate, (5.0 + 2.0 / 3.0) / 20.0);
        assert!(gain.interval.unwrap()[0] > 0.0, "six of twenty tasks are clearly more");
    }

    #[test]
    fn no_success_in_a_few_tasks_is_not_certainty() {
        let harness = Digest::of(b"h");
        let check = |outcome: &str, expected: [f64; 2]| {
            let rows: Vec<_> = (0..10).map(|task| row(&format!("t{task}"), 0, outcome, 0)).collect();
            let table = evaluation(rows.iter(), harness, (0, harness)).unwrap();
            assert_eq!(table.cells[0].interval, Some(expected));
        };
        // Clopper-Pearson for 0 and 10 of 10, as tables have it: 0.3085.
        check("unsolved", [0.0, 0.308497]);
        check("solved", [0.691503, 1.0]);
    }

    #[test]
    fn one_task_has_no_interval_and_no_episode_no_table() {
        let harness = Digest::of(b"h");
        let one = [row("a", 0, "solved", 0)];
        let table = evaluation(one.iter(), harness, (0, harness)).unwrap();
        assert_eq!((table.cells[0].interval, table.gain), (None, None));
        assert_eq!(evaluation([].iter(), harness, (0, harness)), None);
    }
}
