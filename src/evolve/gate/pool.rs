//! How hard are the tasks that a simulated gate draws from, and what does an edit do to them?

use serde::Serialize;

use super::counts::ArmCounts;
use super::random::Random;

/// Values that stand for the pool when an effect is measured out.
const GRID: usize = 4_000;

/// A pool of tasks, by the chance of each to be solved.
#[derive(Clone, Debug, Serialize)]
pub struct Pool {
    pub name: String,
    #[serde(skip)]
    source: Source,
}

#[derive(Clone, Debug)]
enum Source {
    /// As many tasks as are wanted, chances from Beta(a, b).
    Beta { a: f64, b: f64 },
    /// These tasks, chances from what is known of each after its rollouts.
    Tasks { counts: Vec<ArmCounts>, a: f64, b: f64 },
}

impl Pool {
    /// The three synthetic pools: hard (many tasks never solved, as a small model on issues of real
    /// repositories), middle (solved always or never) and easy.
    pub fn synthetic() -> [Self; 3] {
        [("hard", 0.3, 1.783), ("middle", 0.5, 0.5), ("easy", 1.2, 0.28)]
            .map(|(name, a, b)| Self { name: name.into(), source: Source::Beta { a, b } })
    }

    /// A pool like the tasks that were counted. What a few rollouts say of a task is uncertain, so each
    /// simulated gate draws its chance anew, from a Beta posterior whose prior has the pool's mean and
    /// spread (empirical Bayes by moments). None without a rollout.
    pub fn of_tasks(name: impl Into<String>, counts: Vec<ArmCounts>) -> Option<Self> {
        let counts: Vec<_> = counts.into_iter().filter(|task| task.rollouts > 0).collect();
        let rollouts: usize = counts.iter().map(|task| task.rollouts).sum();
        if rollouts == 0 {
            return None;
        }
        let solved: usize = counts.iter().map(|task| task.solved).sum();
        // Off 0 and 1, where nothing could vary.
        let mean = (solved as f64 + 0.5) / (rollouts as f64 + 1.0);
        let concentration = concentration(&counts, mean);
        let (a, b) = (mean * concentration, (1.0 - mean) * concentration);
        Some(Self { name: name.into(), source: Source::Tasks { counts, a, b } })
    }

    /// How many tasks there are; none when there is no end of them.
    pub fn size(&self) -> Option<usize> {
        match &self.source {
            Source::Beta { .. } => None,
            Source::Tasks { counts, .. } => Some(counts.len()),
        }
    }

    /// Chances of `count` tasks. Those of a run come without one twice while there are enough, then again.
    pub(super) fn draw(&self, count: usize, random: &mut Random) -> Vec<f64> {
        match &self.source {
            Source::Beta { a, b } => (0..count).map(|_| random.beta(*a, *b)).collect(),
            Source::Tasks { counts, a, b } => {
                let mut order: Vec<usize> = Vec::with_capacity(count + counts.len());
                while order.len() < count {
                    let start = order.len();
                    order.extend(0..counts.len());
                    for at in (start + 1..order.len()).rev() {
                        order.swap(at, start + random.below(at - start + 1));
                    }
                }
                let chance = |at: &usize| {
                    let task = counts[*at];
                    random.beta(
                        a + task.solved as f64,
                        b + (task.rollouts - task.solved.min(task.rollouts)) as f64,
                    )
                };
                order[..count].iter().map(chance).collect()
            }
        }
    }

    /// Chances that stand for the whole pool.
    pub(super) fn grid(&self, seed: u64) -> Vec<f64> {
        self.draw(GRID, &mut Random::new(seed, u64::MAX))
    }
}

/// a + b of the Beta prior: from E[s (s − 1) / (n (n − 1))] = E[p²].
fn concentration(counts: &[ArmCounts], mean: f64) -> f64 {
    let several = counts.iter().filter(|task| task.rollouts >= 2);
    let squares: Vec<f64> = several
        .map(|task| {
            let (s, n) = (task.solved as f64, task.rollouts as f64);
            s * (s - 1.0) / (n * (n - 1.0))
        })
        .collect();
    if squares.is_empty() {
        return 2.0;
    }
    let variance = squares.iter().sum::<f64>() / squares.len() as f64 - mean * mean;
    if variance <= 0.0 { 100.0 } else { (mean * (1.0 - mean) / variance - 1.0).clamp(0.2, 100.0) }
}

/// An edit that multiplies the odds of every task by one factor: tasks that are never or always solved
/// stay so, those in between move most.
#[derive(Clone, Copy, Debug)]
pub(super) struct Edit {
    log_odds: f64,
}

impl Edit {
    /// The edit that moves the mean of `chances` by `gain`, or as far as it goes.
    pub fn with_gain(chances: &[f64], gain: f64) -> Self {
        let mean = |edit: Self| chances.iter().map(|p| edit.apply(*p)).sum::<f64>() / chances.len() as f64;
        let wanted = mean(Self { log_odds: 0.0 }) + gain;
        if gain == 0.0 {
            return Self { log_odds: 0.0 };
        }
        let (mut low, mut high) = (-30.0, 30.0);
        for _ in 0..50 {
            let middle = 0.5 * (low + high);
            if mean(Self { log_odds: middle }) < wanted { low = middle } else { high = middle }
        }
        Self { log_odds: 0.5 * (low + high) }
    }

    /// The chance of a task under the edit.
    pub fn apply(self, p: f64) -> f64 {
        if p <= 0.0 || p >= 1.0 || self.log_odds == 0.0 {
            return p;
        }
        1.0 / (1.0 + (1.0 - p) / p * (-self.log_odds).exp())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_edit_moves_the_mean_of_a_pool_by_its_gain() {
        for pool in Pool::synthetic() {
            let grid = pool.grid(1);
            let mean = |f: &dyn Fn(f64) -> f64| grid.iter().map(|p| f(*p)).sum::<f64>() / grid.len() as f64;
            for gain in [-0.05, 0.0, 0.05, 0.1] {
                let edit = Edit::with_gain(&grid, gain);
                let moved = mean(&|p| edit.apply(p)) - mean(&|p| p);
                assert!((moved - gain).abs() < 1e-6, "{}: {moved} is not {gain}", pool.name);
            }
        }
    }

    #[test]
    fn the_pools_have_the_means_that_they_are_named_for() {
        for (pool, expected) in Pool::synthetic().iter().zip([0.144, 0.5, 0.81]) {
            let grid = pool.grid(1);
            let mean = grid.iter().sum::<f64>() / grid.len() as f64;
            assert!((mean - expected).abs() < 0.02, "{}: {mean}", pool.name);
        }
    }

    #[test]
    fn a_pool_of_tasks_has_their_mean_and_spread() {
        let counts = |solved: usize| ArmCounts { solved, rollouts: 8 };
        let check = |solved: [usize; 6], expected: f64| {
            let pool = Pool::of_tasks("run", solved.map(counts).to_vec()).unwrap();
            let grid = pool.grid(1);
            let mean = grid.iter().sum::<f64>() / grid.len() as f64;
            assert!((mean - expected).abs() < 0.03, "{mean} is not {expected}");
            assert_eq!(pool.size(), Some(6));
        };
        check([0, 0, 0, 0, 8, 8], 0.333);
        check([4, 4, 4, 4, 4, 4], 0.5);
        check([0, 0, 0, 0, 0, 0], 0.01);
        assert!(Pool::of_tasks("none", vec![ArmCounts::default()]).is_none());
    }

    #[test]
    fn no_task_of_a_run_is_drawn_twice_before_all_were_drawn_once() {
        // Half of the tasks are always solved, and a gate with all of them sees exactly that.
        let counts = |solved| ArmCounts { solved, rollouts: 1_000_000 };
        let all: Vec<_> = (0..40).map(|i| counts(if i % 2 == 0 { 0 } else { 1_000_000 })).collect();
        let pool = Pool::of_tasks("run", all).unwrap();
        let drawn = pool.draw(40, &mut Random::new(2, 0));
        assert_eq!(drawn.iter().filter(|p| **p > 0.5).count(), 20);
    }
}
