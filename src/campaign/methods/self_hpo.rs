//! Cycles: the method `self-hpo`. A harness step looks for the best of several variants on tasks that were
//! never solved; a policy step updates the policy under the harness that came of it, which stays as it is.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use serde::{Deserialize, Serialize};
use tandem_host::task::validate;

use super::super::draw;
use super::super::record::{Arm, EpisodeRow};
use super::super::reports::Change;
use super::super::retention::retain;
use super::super::run::{Campaign, newest_harness};
use super::super::steps::{
    Contender, Label, Look, Numbered, ScreenReport, contender, in_order, passed_over, ranked,
};

/// The tasks of a harness step.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HardSet {
    pub tasks: Vec<String>,
    /// Attempts at each of them, none of which solved it.
    pub attempts: BTreeMap<String, usize>,
    /// Tasks that were never solved either and are left out, with what is wrong with them.
    pub unfit: BTreeMap<String, String>,
    /// Tasks that were never solved and for which there was no room.
    pub left_out: usize,
    /// Tasks beside them in the confirmation: solved ones, then tasks that were not tried yet.
    pub guard: Vec<String>,
}

/// The phases of a cycle's first round.
const HARD_SET: &str = "hard-set";
const SCREEN: &str = "screen";

impl Campaign {
    /// Runs what is left of all cycles, and says why there is no further one.
    pub(in crate::campaign) async fn self_hpo(&mut self) -> Result<String> {
        let (cycles, updates) = (self.config.self_hpo.cycles, self.config.self_hpo.updates);
        for cycle in 0..cycles {
            let first = cycle * updates + 1;
            if let Some(why) = self.spent(first)? {
                return Ok(why);
            }
            let hard = self.hard_set(first).await?;
            self.harness_step(first, &hard).await?;
            self.consult_holdout(first).await?;
            for round in first..first + updates {
                if let Some(why) = self.spent(round)? {
                    return Ok(why);
                }
                let (seen, others) = self.drawn(round);
                self.collect(round, &[seen, others].concat()).await?;
                self.update(round).await?;
                retain(&self.record, &self.config.retention, round)?;
            }
        }
        Ok(format!("cycles 1 to {cycles} were run, of {updates} updates each"))
    }

    /// The hard set of the cycle that begins with `round`: tasks with enough attempts and no success, in a
    /// probe before the first cycle, then in the policy step before. Each is validated again, since a task
    /// that its own reference does not solve would be hard for ever.
    async fn hard_set(&self, round: u32) -> Result<HardSet> {
        if let Some(hard) = self.record.phase(round, HARD_SET)? {
            return Ok(hard);
        }
        let config = &self.config.self_hpo;
        let least =
            if config.min_attempts > 0 { config.min_attempts } else { self.config.rollout.group_size };
        let rows = self.attempts_before(round).await?;
        let mut counts: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
        for row in rows.iter().filter(|row| row.valid()) {
            let (solved, attempts) = counts.entry(&row.task).or_default();
            *solved += usize::from(row.solved());
            *attempts += 1;
        }
        let wanted = |solved: fn(usize) -> bool| -> Vec<String> {
            let some = counts.iter().filter(|(_, (s, attempts))| solved(*s) && *attempts >= least);
            some.map(|(task, _)| (*task).to_owned()).collect()
        };
        let label = format!("r{round}/hard");
        let never = draw::order(self.config.seed, &label, &wanted(|solved| solved == 0));
        // What is solved must stay so. With the few tasks of a probe alone the confirmation would be too small to
        // find anything, so tasks that nobody tried make up the number.
        let tried: BTreeSet<&String> = rows.iter().map(|row| &row.task).collect();
        let untried: Vec<String> = self.names().into_iter().filter(|name| !tried.contains(name)).collect();
        let of_both = [wanted(|solved| solved > 0), untried];
        let mut guard = of_both.map(|names| draw::order(self.config.seed, &label, &names)).concat();
        guard.truncate(config.guard);
        let mut hard = HardSet { guard, ..HardSet::default() };
        let spinner = self.progress.spin(&format!("round {round}: the hard tasks are validated"));
        for task in never {
            self.check_cancelled()?;
            let Some(known) = self.tasks.get(&task) else { continue };
            if config.hard_tasks > 0 && hard.tasks.len() >= config.hard_tasks {
                hard.left_out += 1;
                continue;
            }
            // Without a reference there is nothing to hold the task against.
            let trouble = match known.reference()? {
                Some(_) => validate(known, 1, &self.workspaces).await.trouble,
                None => None,
            };
            match trouble {
                Some(trouble) => drop(hard.unfit.insert(task, trouble)),
                None => {
                    let attempts = counts.get(task.as_str()).map_or(0, |(_, attempts)| *attempts);
                    hard.attempts.insert(task.clone(), attempts);
                    hard.tasks.push(task);
                }
            }
        }
        spinner.finish();
        self.record.end_phase(round, HARD_SET, &hard)?;
        self.progress.say(&format!(
            "round {round}: {} tasks were never solved, {} more are unfit, {} did not fit in",
            hard.tasks.len(),
            hard.unfit.len(),
            hard.left_out
        ));
        Ok(hard)
    }

    /// The attempts that decide what is hard in the cycle that begins with `round`.
    async fn attempts_before(&self, round: u32) -> Result<Vec<EpisodeRow>> {
        if round == 1 {
            self.probe(round).await?;
            return self.rows(round, Arm::Probe);
        }
        let from = round - self.config.self_hpo.updates;
        let rows = self.record.episodes()?;
        let trained = [Arm::Collect.name(), Arm::TopUp.name()];
        let of_step =
            |row: &EpisodeRow| (from..round).contains(&row.round) && trained.contains(&row.arm.as_str());
        Ok(in_order(rows.into_iter().filter(of_step)))
    }

    /// A group of each of as many tasks as a round has, before anything is trained.
    async fn probe(&self, round: u32) -> Result<()> {
        let (seen, others) = self.drawn(round);
        let mut specs = Vec::new();
        for task in seen.iter().chain(&others) {
            let group = format!("r{round}/probe/{task}");
            let (numbers, label) = (0..self.config.rollout.group_size, Label::Own);
            specs.extend(self.specs(&self.tasks, Numbered { task, group, numbers, label, skill: None })?);
        }
        self.rollouts(&format!("round {round}: probe"), round, Arm::Probe, specs, None).await
    }

    /// Asks for variants, runs them and the incumbent on the hard set, and confirms the best of them on
    /// fresh episodes of the hard set and of its guard.
    async fn harness_step(&self, round: u32, hard: &HardSet) -> Result<()> {
        if hard.tasks.is_empty() {
            self.progress.say(&format!("round {round}: no task is hard, so the harness stays"));
            return Ok(());
        }
        let tasks: BTreeSet<&String> = hard.tasks.iter().collect();
        let mut rows = self.attempts_before(round).await?;
        rows.retain(|row| tasks.contains(&row.task));
        let proposals = self.propose(round, &rows, self.config.self_hpo.variants).await?;
        let mut trials = Vec::new();
        for (index, proposal) in proposals.into_iter().enumerate() {
            if self.is_settled(round, index)? {
                continue;
            }
            let trial = self.begin(round, index, proposal, Change::Add).await?;
            if trial.generation.is_some() { trials.push(trial) } else { self.settle(round, trial)? }
        }
        if trials.is_empty() {
            return Ok(());
        }
        let screen = match self.record.phase::<ScreenReport>(round, SCREEN)? {
            Some(screen) => screen,
            None => {
                let incumbent = self.generation(&newest_harness(&self.record)?).await?;
                let mut all =
                    vec![Contender { candidate: None, name: "the incumbent".into(), generation: &incumbent }];
                all.extend(trials.iter().filter_map(contender));
                let attempts = self.config.self_hpo.attempts;
                let arms = self.look(round, &all, &hard.tasks, attempts).await?;
                let finalist = ranked(&arms).into_iter().next().flatten();
                let look = Look { tasks: hard.tasks.len(), arms };
                let screen = ScreenReport {
                    tasks: hard.tasks.clone(),
                    rollouts: attempts,
                    looks: vec![look],
                    finalist,
                };
                self.record.end_phase(round, SCREEN, &screen)?;
                screen
            }
        };
        let (finalist, others): (Vec<_>, Vec<_>) =
            trials.into_iter().partition(|trial| Some(trial.index) == screen.finalist);
        for trial in others {
            self.settle(round, passed_over(trial, &screen))?;
        }
        let pool = [hard.tasks.clone(), hard.guard.clone()].concat();
        for trial in finalist {
            self.confirm(round, trial, &self.config.evolve.gate, &pool).await?;
        }
        Ok(())
    }
}
