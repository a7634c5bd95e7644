//! How often does the gate say the right thing, and what does it cost? Its operating
//! characteristics by Monte Carlo, with the very test that decides in a run.

use serde::Serialize;

use super::config::GateConfig;
use super::counts::{ArmCounts, PairedTask};
use super::paired::PairedTest;
use super::paper::{Verdict, paper_verdict};
use super::pool::{Edit, Pool};
use super::random::Random;

/// What is simulated.
#[derive(Clone, Debug)]
pub struct Question {
    pub config: GateConfig,
    /// Which gate of the run, from 1: later ones have less of the run's error.
    pub decision: u32,
    /// The gain of the pass rate that the candidate really brings; 0 is an edit that does nothing.
    pub gain: f64,
    /// Gates that are simulated.
    pub gates: usize,
    pub seed: u64,
}

/// What the gate did to candidates of one gain on one pool.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Characteristics {
    pub pool: String,
    /// Mean chance of the incumbent on the pool.
    pub pass_rate: f64,
    pub gain: f64,
    pub gates: usize,
    /// Share that the paired rule accepts.
    pub accepted: f64,
    /// Share that the paper's rule accepts, on the whole sample of tasks.
    pub accepted_paper: f64,
    /// Tasks until the paired rule decides: mean, and the most of nine gates in ten.
    pub tasks: f64,
    pub tasks_90: usize,
    /// Rollouts of both arms until then, whole batches, on average.
    pub rollouts: f64,
    /// The most that a gate can take.
    pub most_rollouts: usize,
}

impl Characteristics {
    /// The standard error of a share of `gates`.
    pub fn standard_error(&self, share: f64) -> f64 {
        (share * (1.0 - share) / self.gates.max(1) as f64).sqrt()
    }
}

/// One simulated gate.
struct Run {
    paired: bool,
    paper: bool,
    tasks: usize,
}

/// Simulates gates on `pool`, on all cores. The result depends on the question alone.
pub fn simulate(question: &Question, pool: &Pool) -> Characteristics {
    let config = &question.config;
    let grid = pool.grid(question.seed);
    let edit = Edit::with_gain(&grid, question.gain);
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let each = question.gates.div_ceil(cores).max(1);
    let numbers: Vec<u64> = (0..question.gates as u64).collect();
    let runs: Vec<Run> = std::thread::scope(|scope| {
        let part =
            |numbers: &[u64]| numbers.iter().map(|n| gate(question, pool, edit, *n)).collect::<Vec<_>>();
        let handles: Vec<_> = numbers.chunks(each).map(|chunk| scope.spawn(move || part(chunk))).collect();
        // A thread that panicked is a fault of this program, and goes on as one.
        let joined =
            handles.into_iter().map(|handle| handle.join().unwrap_or_else(|e| std::panic::resume_unwind(e)));
        joined.flatten().collect()
    });
    let count = runs.len().max(1) as f64;
    let share = |accepted: fn(&Run) -> bool| runs.iter().filter(|run| accepted(run)).count() as f64 / count;
    let mean = |value: &dyn Fn(&Run) -> usize| runs.iter().map(|run| value(run) as f64).sum::<f64>() / count;
    let rollouts = |run: &Run| {
        let whole = run.tasks.div_ceil(config.batch) * config.batch;
        2 * config.group_size * whole.min(config.tasks)
    };
    let mut lengths: Vec<usize> = runs.iter().map(|run| run.tasks).collect();
    lengths.sort_unstable();
    Characteristics {
        pool: pool.name.clone(),
        pass_rate: grid.iter().sum::<f64>() / grid.len().max(1) as f64,
        gain: question.gain,
        gates: runs.len(),
        accepted: share(|run| run.paired),
        accepted_paper: share(|run| run.paper),
        tasks: mean(&|run| run.tasks),
        tasks_90: lengths.get(lengths.len() * 9 / 10).copied().unwrap_or(0),
        rollouts: mean(&rollouts),
        most_rollouts: config.most_rollouts(config.tasks),
    }
}

fn gate(question: &Question, pool: &Pool, edit: Edit, number: u64) -> Run {
    let config = &question.config;
    let mut random = Random::new(question.seed, number);
    let size = config.group_size;
    let tasks: Vec<PairedTask> = pool
        .draw(config.tasks, &mut random)
        .into_iter()
        .map(|p| {
            let mut arm = |p| ArmCounts { solved: random.successes(size, p), rollouts: size };
            PairedTask { task: String::new(), incumbent: arm(p), candidate: arm(edit.apply(p)) }
        })
        .collect();
    let paper = paper_verdict(&tasks, config.claim).verdict == Verdict::Accept;
    // Whatever rule decides in the run, the sequential one is looked at beside the literal one.
    let config = GateConfig { rule: super::Rule::Paired, ..config.clone() };
    let mut test = PairedTest::new(config, question.decision);
    let mut seen = 0;
    let mut verdict = None;
    for task in tasks {
        seen += 1;
        verdict = test.push(task);
        if verdict.is_some() {
            break;
        }
    }
    Run { paired: verdict == Some(Verdict::Accept), paper, tasks: seen }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(gain: f64, pool: &Pool) -> Characteristics {
        let config = GateConfig::default();
        simulate(&Question { config, decision: 1, gain, gates: 200, seed: 11 }, pool)
    }

    /// The promise of the default settings, with three standard errors of 200 simulated gates.
    #[test]
    fn the_default_gate_refuses_what_does_nothing_and_finds_five_points() {
        for pool in Pool::synthetic() {
            let nothing = ask(0.0, &pool);
            assert!(nothing.accepted <= 0.04 + 3.0 * nothing.standard_error(0.04), "{nothing:?}");
            assert!((0.1..0.5).contains(&nothing.accepted_paper), "{nothing:?}");
            let gain = ask(0.05, &pool);
            assert!(gain.accepted >= 0.9 - 3.0 * gain.standard_error(0.9), "{gain:?}");
            assert!(gain.tasks < 256.0 && nothing.tasks < 160.0, "{gain:?} {nothing:?}");
            let loss = ask(-0.03, &pool);
            assert!(loss.accepted <= 0.01 && loss.tasks < 110.0, "{loss:?}");
        }
    }

    #[test]
    fn a_simulation_comes_again_for_its_seed() {
        let [pool, ..] = Pool::synthetic();
        assert_eq!(ask(0.05, &pool), ask(0.05, &pool));
    }
}
