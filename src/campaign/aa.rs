//! Does the gate of a campaign refuse what changes nothing? The same harness in both arms, through the
//! machinery that decides in a run: a test of policy, workspaces, seeds and statistics together.
//!
//! A few real gates say little about an error of some percent. The episodes of both arms come from one
//! harness, so which of them count for which arm is arbitrary: dealing them out again gives as many more
//! gates as wanted, each with the error that the gate promises (given the episodes, the expected gain is 0
//! on every task). They are dealt from all tasks of the gate's plan, also those that the gate decided without.

use std::fmt;

use anyhow::Result;
use serde::Serialize;
use tandem_host::store::Digest;

use super::gates::{GateEpisodes, GatePlan};
use super::ledger::gate_id;
use super::record::Arm;
use super::run::{Campaign, newest_harness};
use super::steps::{Asked, Gated, Seeds, number_of};
use crate::evolve::{ArmCounts, GateConfig, GateReport, PairedTask, PairedTest, Random, Spending, Verdict};

/// What is asked for.
#[derive(Clone, Copy, Debug)]
pub struct AaQuestion {
    /// Real gates, each on episodes of its own.
    pub gates: usize,
    /// Gates on the same episodes, dealt out again. With any, each real gate's episodes are run on all tasks of its
    /// plan.
    pub deals: usize,
    /// Whether both arms have the same seeds, which shows whether the policy repeats itself.
    pub seeds: Seeds,
}

/// What came of it.
#[derive(Debug, Serialize)]
pub struct AaReport {
    pub harness: Digest,
    pub policy_version: u64,
    /// The error that a gate may make.
    pub level: f64,
    pub gates: Vec<GateReport>,
    pub deals: usize,
    pub accepted_deals: usize,
    /// Pairs of episodes with one task and number, and those that ended alike; with shared seeds they differ
    /// by the policy's own doing alone.
    pub pairs: usize,
    pub alike: usize,
    pub shared_seeds: bool,
}

/// Chance, under the promised error, of what counts as breaking the promise.
const BREACH: f64 = 0.01;

impl AaReport {
    /// Real gates that accepted.
    pub fn accepted(&self) -> usize {
        self.gates.iter().filter(|gate| gate.verdict == Verdict::Accept).count()
    }

    /// Whether the gate accepts what does nothing more often than it may.
    pub fn is_broken(&self) -> bool {
        let share = self.accepted_deals as f64 / self.deals.max(1) as f64;
        let error = (self.level * (1.0 - self.level) / self.deals.max(1) as f64).sqrt();
        let by_deals = self.deals > 0 && share > self.level + 3.0 * error;
        by_deals || at_least(self.accepted(), self.gates.len(), self.level) < BREACH
    }
}

/// P(X ≥ `hits`) for X ~ Binomial(`tries`, `p`).
fn at_least(hits: usize, tries: usize, p: f64) -> f64 {
    let mut term = (1.0 - p).powi(tries as i32);
    let mut below = 0.0;
    for k in 0..hits.min(tries + 1) {
        below += term;
        term *= (tries - k) as f64 / (k + 1) as f64 * p / (1.0 - p);
    }
    (1.0 - below).max(0.0)
}

impl Campaign {
    /// Runs the gates of an A/A test, or what is left of them.
    pub async fn aa(&self, question: AaQuestion) -> Result<AaReport> {
        self.publish_first()?;
        let harness = newest_harness(&self.record)?;
        let generation = self.generation(&harness).await?;
        let gate = &self.config.evolve.gate;
        // Each has what the first gate of a run has.
        let config = GateConfig { alpha: gate.level(1), spending: Spending::Gate, ..gate.clone() };
        let mut report = AaReport {
            harness,
            policy_version: self.runtime.version(),
            level: config.alpha,
            gates: Vec::new(),
            deals: question.deals,
            accepted_deals: 0,
            pairs: 0,
            alike: 0,
            shared_seeds: question.seeds == Seeds::Shared,
        };
        let names = self.names();
        let mut dealt = Vec::new();
        for index in 0..question.gates {
            let asked = Asked {
                round: 1,
                index,
                incumbent: harness,
                candidate: &generation,
                config: &config,
                names: &names,
                seeds: question.seeds,
            };
            let Gated::Decided(decided, _) = self.gate(asked).await? else { continue };
            let label = gate_id(1, index);
            let Some(plan) = self.record.phase::<GatePlan>(1, &format!("gate-{index}"))? else { continue };
            if question.deals > 0 {
                // A gate stops when its tasks say enough, so that the tasks it saw are not as good as any.
                self.run_undecided(&plan, &asked).await?;
            }
            let episodes = GateEpisodes::of(&self.record, &label, &plan)?;
            let seen = if question.deals > 0 { plan.order.len() } else { decided.tasks.len() };
            let tasks: Vec<Outcomes> =
                plan.order[..seen].iter().map(|task| outcomes(&episodes, task, config.group_size)).collect();
            for task in &tasks {
                report.pairs += task.incumbent.len();
                let pairs = task.incumbent.iter().zip(&task.candidate);
                report.alike += pairs.filter(|(left, right)| left == right).count();
            }
            dealt.push(tasks);
            report.gates.push(*decided);
        }
        for deal in 0..question.deals {
            let mut random = Random::new(self.config.seed, deal as u64);
            let tasks = dealt.get(deal % dealt.len().max(1));
            let accepts =
                tasks.is_some_and(|tasks| deal_again(tasks, &config, &mut random) == Verdict::Accept);
            report.accepted_deals += usize::from(accepts);
        }
        Ok(report)
    }
}

/// A gate on the same episodes: its tasks in an order of its own, each dealt out again.
fn deal_again(tasks: &[Outcomes], config: &GateConfig, random: &mut Random) -> Verdict {
    let mut test = PairedTest::new(GateConfig { tasks: tasks.len(), ..config.clone() }, 1);
    let mut order: Vec<&Outcomes> = tasks.iter().collect();
    shuffle(&mut order, random);
    let decides = |task: &Outcomes| test.push(task.dealt_again(random)).is_some();
    let _decided = order.into_iter().any(decides);
    test.report().verdict
}

/// Each order has the same chance (Fisher and Yates).
fn shuffle<T>(all: &mut [T], random: &mut Random) {
    for at in (1..all.len()).rev() {
        all.swap(at, random.below(at + 1));
    }
}

/// What the episodes of one task came to, by number; one without a verdict is a failure.
struct Outcomes {
    task: String,
    incumbent: Vec<bool>,
    candidate: Vec<bool>,
}

fn outcomes(episodes: &GateEpisodes, task: &str, size: usize) -> Outcomes {
    let arm = |arm: Arm| {
        let mut solved = vec![false; size];
        for row in episodes.rows(arm, task) {
            if let Some(place) = number_of(row).and_then(|number| solved.get_mut(number)) {
                *place = row.solved();
            }
        }
        solved
    };
    let (incumbent, candidate) = (arm(Arm::GateIncumbent), arm(Arm::GateCandidate));
    Outcomes { task: task.to_owned(), incumbent, candidate }
}

impl Outcomes {
    /// The same outcomes, each in an arm drawn at random.
    fn dealt_again(&self, random: &mut Random) -> PairedTask {
        let mut all: Vec<bool> = self.incumbent.iter().chain(&self.candidate).copied().collect();
        shuffle(&mut all, random);
        let (left, right) = all.split_at(self.incumbent.len());
        let count = |arm: &[bool]| ArmCounts {
            solved: arm.iter().filter(|solved| **solved).count(),
            rollouts: arm.len(),
        };
        PairedTask { task: self.task.clone(), incumbent: count(left), candidate: count(right) }
    }
}

impl fmt::Display for AaReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "harness {} in both arms, policy v{}: a gate may accept in {:.2} % of the cases",
            self.harness.short(),
            self.policy_version,
            100.0 * self.level
        )?;
        for (number, gate) in self.gates.iter().enumerate() {
            writeln!(
                f,
                "  gate {number}: {} after {} tasks; wealth: better {:.2}, pass rate {:.2}, trainable rate {:.2}",
                gate.verdict.name(),
                gate.tasks.len(),
                gate.superiority,
                gate.level_pass,
                gate.level_trainable
            )?;
        }
        writeln!(f, "accepted: {} of {} gates", self.accepted(), self.gates.len())?;
        if self.deals > 0 {
            writeln!(
                f,
                "the same episodes dealt out again: {} of {} gates accepted, {:.2} %",
                self.accepted_deals,
                self.deals,
                100.0 * self.accepted_deals as f64 / self.deals as f64
            )?;
        }
        let seeds = if self.shared_seeds { "of one seed" } else { "with seeds of their own" };
        writeln!(f, "episodes {seeds} that ended alike: {} of {}", self.alike, self.pairs)?;
        match self.is_broken() {
            true => writeln!(f, "The gate accepts what does nothing MORE OFTEN than it may."),
            false => writeln!(f, "The gate keeps its promise here."),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_binomial_tail_is_that_of_tables() {
        let check = |hits, tries, p, expected: f64| {
            let found = at_least(hits, tries, p);
            assert!((found - expected).abs() < 1e-6, "{found} is not {expected}");
        };
        check(0, 5, 0.1, 1.0);
        check(1, 5, 0.1, 0.40951);
        check(5, 5, 0.5, 0.03125);
        check(3, 20, 0.05, 0.075484);
    }

    fn report(accepted_deals: usize) -> AaReport {
        AaReport {
            harness: Digest::of(b"h"),
            policy_version: 0,
            level: 0.06,
            gates: Vec::new(),
            deals: 1000,
            accepted_deals,
            pairs: 0,
            alike: 0,
            shared_seeds: false,
        }
    }

    #[test]
    fn a_gate_is_broken_when_it_accepts_clearly_more_than_it_may() {
        // 0.06 and three standard errors of 1000 deals: 8.25 %.
        assert!(!report(60).is_broken() && !report(80).is_broken());
        assert!(report(90).is_broken());
    }

    /// The promise given the episodes: whatever they are, dealing them out again is refused.
    #[test]
    fn outcomes_dealt_out_again_are_accepted_no_more_often_than_allowed() {
        let config = GateConfig { tasks: 60, ..GateConfig::default() };
        let mut pool = Random::new(3, 1);
        let tasks: Vec<Outcomes> = (0..60)
            .map(|task| {
                let chance = pool.uniform();
                let mut arm = || (0..8).map(|_| pool.uniform() < chance).collect();
                Outcomes { task: format!("t{task}"), incumbent: arm(), candidate: arm() }
            })
            .collect();
        let accepted = (0..500).filter(|deal| {
            let mut random = Random::new(9, *deal);
            deal_again(&tasks, &config, &mut random) == Verdict::Accept
        });
        let share = accepted.count() as f64 / 500.0;
        assert!(share <= config.level(1) + 0.03, "{share}");
    }
}
