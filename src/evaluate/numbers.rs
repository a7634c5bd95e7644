//! What do the episodes of an arm say, and how sure is that? The task is the sample.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::campaign::EpisodeRow;
use crate::pair::{interval, interval_of_rate};

/// What an arm did on one task.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Found {
    pub solved: usize,
    /// Episodes that were asked for. One without a verdict is a failure, as a user would see it.
    pub asked: usize,
}

impl Found {
    pub fn share(&self) -> f64 {
        if self.asked == 0 { 0.0 } else { self.solved as f64 / self.asked as f64 }
    }

    /// Whether more than half of the episodes solved it.
    pub fn mostly(&self) -> bool {
        2 * self.solved > self.asked
    }
}

/// An estimate with its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Estimate {
    pub value: f64,
    /// None with fewer than two tasks.
    pub interval: Option<[f64; 2]>,
}

/// Episodes by task.
pub fn by_task(rows: &[EpisodeRow], episodes: usize) -> BTreeMap<String, Found> {
    let mut tasks: BTreeMap<String, Found> = BTreeMap::new();
    for row in rows {
        let found = tasks.entry(row.task.clone()).or_insert(Found { solved: 0, asked: episodes });
        found.solved += usize::from(row.solved());
    }
    tasks
}

/// The pass rate: the mean over tasks of the share of episodes that solved it.
pub fn pass_rate(tasks: &BTreeMap<String, Found>) -> Estimate {
    let shares: Vec<f64> = tasks.values().map(Found::share).collect();
    Estimate { value: mean(&shares), interval: interval_of_rate(&shares) }
}

/// How much more `after` solves than `before`, on the tasks of both.
pub fn difference(before: &BTreeMap<String, Found>, after: &BTreeMap<String, Found>) -> Estimate {
    let values: Vec<f64> =
        after.iter().filter_map(|(task, found)| Some(found.share() - before.get(task)?.share())).collect();
    Estimate { value: mean(&values), interval: interval(&values) }
}

/// The unbiased chance that one of `k` episodes solves the task, from `n` episodes of which `c` did
/// (Chen et al., "Evaluating Large Language Models Trained on Code", 2021). None for more than `n`.
pub fn pass_at_k(n: usize, c: usize, k: usize) -> Option<f64> {
    if k == 0 || k > n {
        return None;
    }
    if n - c < k {
        return Some(1.0);
    }
    // 1 − C(n−c, k) / C(n, k), as a product that does not overflow.
    Some(1.0 - (n - c + 1..=n).map(|i| 1.0 - k as f64 / i as f64).product::<f64>())
}

/// The mean of [`pass_at_k`] over tasks.
pub fn mean_pass_at_k(tasks: &BTreeMap<String, Found>, k: usize) -> Option<f64> {
    let each: Option<Vec<f64>> =
        tasks.values().map(|found| pass_at_k(found.asked, found.solved, k)).collect();
    each.filter(|values| !values.is_empty()).map(|values| mean(&values))
}

/// Tasks that `after` mostly solves and `before` does not, the reverse, and the chance of a split as
/// uneven as this when neither is better: McNemar's test, exact and two-sided.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct McNemar {
    pub gained: usize,
    pub lost: usize,
    pub p: f64,
}

pub fn mcnemar(before: &BTreeMap<String, Found>, after: &BTreeMap<String, Found>) -> McNemar {
    let (mut gained, mut lost) = (0, 0);
    for (task, found) in after {
        let Some(earlier) = before.get(task) else { continue };
        gained += usize::from(found.mostly() && !earlier.mostly());
        lost += usize::from(!found.mostly() && earlier.mostly());
    }
    McNemar { gained, lost, p: exact_mcnemar(gained, lost) }
}

/// The two-sided exact binomial test of an even split of `gained` + `lost`.
pub fn exact_mcnemar(gained: usize, lost: usize) -> f64 {
    let n = gained + lost;
    // In logarithms: 0.5^n is 0 from about a thousand tasks on.
    let mut term = n as f64 * 0.5f64.ln();
    let mut tail = 0.0;
    for i in 0..=gained.min(lost) {
        tail += term.exp();
        term += ((n - i) as f64 / (i + 1) as f64).ln();
    }
    (2.0 * tail).min(1.0)
}

fn mean(values: &[f64]) -> f64 {
    if values.is_empty() { 0.0 } else { values.iter().sum::<f64>() / values.len() as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pass_at_k_is_the_share_of_draws_with_a_success() {
        let check = |n, c, k, expected: Option<f64>| match (pass_at_k(n, c, k), expected) {
            (Some(found), Some(expected)) => {
                assert!((found - expected).abs() < 1e-12, "{n} {c} {k}: {found}")
            }
            (found, expected) => assert_eq!(found, expected, "{n} {c} {k}"),
        };
        check(4, 1, 1, Some(0.25));
        // 1 − C(3,2)/C(4,2) = 1 − 3/6.
        check(4, 1, 2, Some(0.5));
        check(4, 0, 4, Some(0.0));
        check(4, 3, 2, Some(1.0));
        // 1 − C(7,4)/C(8,4) = 1 − 35/70.
        check(8, 1, 4, Some(0.5));
        check(8, 2, 4, Some(1.0 - 15.0 / 70.0));
        check(2, 1, 3, None);
        check(300, 1, 100, Some(1.0 / 3.0));
    }

    #[test]
    fn mcnemar_is_exact() {
        let check = |gained, lost, expected: f64| {
            let found = exact_mcnemar(gained, lost);
            assert!((found - expected).abs() < 1e-9, "{gained} {lost}: {found}");
        };
        check(0, 0, 1.0);
        check(1, 0, 1.0);
        check(5, 0, 0.0625);
        check(0, 10, 2.0 / 1024.0);
        check(5, 5, 1.0);
        // 2 · (1 + 9) / 512.
        check(8, 1, 20.0 / 512.0);
    }

    #[test]
    fn an_episode_without_a_verdict_counts_as_a_failure() {
        let tasks = BTreeMap::from([
            ("a".to_owned(), Found { solved: 1, asked: 2 }),
            ("b".to_owned(), Found { solved: 2, asked: 2 }),
        ]);
        assert_eq!(pass_rate(&tasks).value, 0.75);
        assert!(!tasks["a"].mostly());
    }
}
