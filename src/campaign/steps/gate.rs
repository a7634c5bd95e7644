//! How do both arms of a gate run: fresh episodes, batch by batch in drawn order, until the test is decided?

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::Result;
use tandem_host::harness::Generation;
use tandem_host::store::Digest;

use super::super::gates::{Drawn, GateEpisodes, GatePlan};
use super::super::ledger::gate_id;
use super::super::record::{Arm, EpisodeRow};
use super::super::reports::SavedRollouts;
use super::super::run::Campaign;
use super::collect::group_of;
use super::episodes::{Label, Numbered, number_of};
use crate::evolve::{GateConfig, GateReport, PairedTest};

/// Whether both arms of a gate have the same seeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seeds {
    /// As in every gate of a run.
    Shared,
    /// Each arm has its own, so that equal harnesses differ by chance.
    Own,
}

/// A gate that is asked for.
#[derive(Clone, Copy)]
pub struct Asked<'a> {
    pub round: u32,
    pub index: usize,
    pub incumbent: Digest,
    pub candidate: &'a Arc<Generation>,
    pub config: &'a GateConfig,
    /// The tasks of the pool.
    pub names: &'a [String],
    pub seeds: Seeds,
}

/// What came of a gate.
pub enum Gated {
    Decided(Box<GateReport>, Option<SavedRollouts>),
    /// What was saved turned out to be no tie: nothing is decided by it.
    Broken(String, SavedRollouts),
}

/// A gate whose plan is fixed.
pub(super) struct Arms<'a> {
    pub plan: &'a GatePlan,
    pub round: u32,
    pub index: usize,
    pub label: &'a str,
    pub seeds: Seeds,
    pub incumbent: &'a Arc<Generation>,
    pub candidate: &'a Arc<Generation>,
}

impl Campaign {
    /// Runs a gate, or what is left of it.
    pub(in crate::campaign) async fn gate(&self, asked: Asked<'_>) -> Result<Gated> {
        let Asked { round, index, incumbent, candidate, config, names, seeds } = asked;
        let label = gate_id(round, index);
        let reusable = self.reusable(round, &incumbent, config.group_size)?;
        let drawn = Drawn {
            config,
            seed: self.config.seed,
            names,
            incumbent,
            candidate: candidate.digest(),
            reusable: &reusable,
        };
        let plan = GatePlan::of(&self.record, round, index, &drawn)?;
        let incumbent = self.generation(&incumbent).await?;
        let arms = Arms { plan: &plan, round, index, label: &label, seeds, incumbent: &incumbent, candidate };
        let inert = self.config.evolve.savings.inert && replays_foresee(&incumbent, candidate);
        let mut test = PairedTest::new(plan.config.clone(), plan.decision);
        for (number, batch) in plan.order.chunks(plan.config.batch).enumerate() {
            if inert {
                self.run_arm(&arms, Arm::GateIncumbent, batch).await?;
                self.take_ties(&arms, number, batch).await?;
                self.run_arm(&arms, Arm::GateCandidate, batch).await?;
            } else {
                tokio::try_join!(
                    self.run_arm(&arms, Arm::GateIncumbent, batch),
                    self.run_arm(&arms, Arm::GateCandidate, batch)
                )?;
            }
            let episodes = GateEpisodes::of(&self.record, &label, &plan)?;
            // Results are looked at in drawn order, not as they come in.
            let decides = |task: &String| test.push(episodes.pair(task, plan.config.group_size)).is_some();
            if batch.iter().any(decides) {
                break;
            }
        }
        let episodes = GateEpisodes::of(&self.record, &label, &plan)?;
        let seen = test.tasks().iter().flat_map(|task| episodes.rows(Arm::GateIncumbent, &task.task));
        if let Some(reason) = unseen(&seen.collect::<Vec<_>>()) {
            return Ok(Gated::Broken(reason, SavedRollouts::default()));
        }
        let mut saved = if inert { self.checked_ties(&arms)? } else { SavedRollouts::default() };
        let looked_at = test.tasks().iter().filter(|task| plan.reused.contains_key(&task.task)).count();
        saved.reused = looked_at * plan.config.group_size;
        if saved.differed > 0 && saved.ties > 0 {
            let reason = format!(
                "{} of {} audited episodes differ from those of the incumbent with the same seed, though the candidate does nothing in them: the policy does not repeat itself, and {} ties cannot be trusted\nhelp: set `evolve.savings.inert = false`",
                saved.differed, saved.audited, saved.ties
            );
            return Ok(Gated::Broken(reason, saved));
        }
        let any = saved != SavedRollouts::default();
        Ok(Gated::Decided(Box::new(test.report()), any.then_some(saved)))
    }

    /// Runs both arms on those tasks of a gate's plan that it decided without.
    pub(in crate::campaign) async fn run_undecided(&self, plan: &GatePlan, asked: &Asked<'_>) -> Result<()> {
        let label = gate_id(asked.round, asked.index);
        let incumbent = self.generation(&asked.incumbent).await?;
        let (round, index, seeds, candidate) = (asked.round, asked.index, asked.seeds, asked.candidate);
        let arms = Arms { plan, round, index, label: &label, seeds, incumbent: &incumbent, candidate };
        self.run_arm(&arms, Arm::GateIncumbent, &plan.order).await?;
        self.run_arm(&arms, Arm::GateCandidate, &plan.order).await
    }

    /// Runs what is missing of one arm on the tasks of a batch.
    async fn run_arm(&self, gate: &Arms<'_>, arm: Arm, batch: &[String]) -> Result<()> {
        let size = gate.plan.config.group_size;
        let generation = if arm == Arm::GateIncumbent { gate.incumbent } else { gate.candidate };
        let mut specs = Vec::new();
        for task in batch {
            let reused = gate.plan.reused.get(task);
            if arm == Arm::GateIncumbent && reused.is_some() {
                continue;
            }
            // Both arms have the same seeds: those of the training group, where that is the other arm.
            let label = match (gate.seeds, reused) {
                (Seeds::Own, _) => Label::Own,
                (Seeds::Shared, Some(group)) => Label::OfGroup(group),
                (Seeds::Shared, None) => Label::Shared(gate.label),
            };
            let group = arm_group(gate.label, arm, task);
            let wanted = Numbered { task, group, numbers: 0..size, label, skill: None };
            specs.extend(self.specs(&self.tasks, wanted)?);
        }
        let who = arm.name().trim_start_matches("gate-");
        let title = format!("round {}: gate {}, {who}", gate.round, gate.index);
        self.rollouts(&title, gate.round, arm, specs, Some(generation.clone())).await
    }

    /// Training groups of `round` that may serve as an incumbent's arm: of tasks that no teacher was shown
    /// episodes of in this round, whole, under this very harness and policy version.
    fn reusable(&self, round: u32, incumbent: &Digest, size: usize) -> Result<BTreeMap<String, String>> {
        if !self.config.evolve.savings.reuse {
            return Ok(BTreeMap::new());
        }
        let (_, unseen) = self.drawn(round);
        let version = self.runtime.version();
        let mut found = BTreeMap::new();
        let rows = self.rows(round, Arm::Collect)?;
        for task in unseen {
            let group = group_of(round, &task);
            let of_group = rows.iter().filter(|row| row.group == group);
            let first = of_group.filter(|row| number_of(row).is_some_and(|number| number < size));
            let first: Vec<&EpisodeRow> = first.collect();
            let fits = |row: &&EpisodeRow| row.harness == *incumbent && row.policy_version == version;
            if first.len() == size && first.iter().all(fits) {
                found.insert(task, group);
            }
        }
        Ok(found)
    }
}

/// The key of the episodes of one arm of gate `label` on `task`.
pub(super) fn arm_group(label: &str, arm: Arm, task: &str) -> String {
    format!("{label}/{}/{task}", arm.name())
}

/// Whether a replay of the incumbent's episodes can show that the candidate does nothing in them: whether
/// both differ in what plugins do, and in nothing that the policy is told by other ways. Prompts are all that
/// it reads, limits cut what a record holds already, and tools may be told outside the conversation: of these
/// no tie is claimed.
fn replays_foresee(left: &Generation, right: &Generation) -> bool {
    let tools = |generation: &Generation| {
        generation.facts().into_iter().flat_map(|plugin| plugin.tools).collect::<Vec<_>>()
    };
    let (old, new) = (left.manifest(), right.manifest());
    old.prompts == new.prompts && old.limits == new.limits && tools(left) == tools(right)
}

/// Why nothing is decided by a gate most of whose incumbent's episodes ended without a verdict by something else
/// than the harness: of two arms that nobody saw at work none is better.
fn unseen(incumbent: &[&EpisodeRow]) -> Option<String> {
    let (lost, all) = (incumbent.iter().filter(|row| row.lost()).count(), incumbent.len());
    (2 * lost > all).then(|| {
        format!(
            "{lost} of {all} episodes of the incumbent ended without a verdict, and not by its harness: nothing is decided by them\nhelp: the log says why they failed; mend that before the run goes on"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_host::agent::{InvalidCause, Outcome};
    use tandem_host::harness::HarnessManifest;

    use crate::campaign::record::{Place, RunRecord};
    use crate::evolve::testkit;

    #[test]
    fn two_arms_that_nobody_saw_at_work_are_no_tie() {
        let check = |outcomes: &[Outcome], expected: bool| {
            let folder = tempfile::tempdir().unwrap();
            let record = RunRecord::open(folder.path()).unwrap();
            for (number, outcome) in outcomes.iter().enumerate() {
                let mut episode = testkit::episode("t");
                (episode.id, episode.outcome) = (format!("r1/gate0/{number}"), outcome.clone());
                let place = Place { round: 1, arm: Arm::GateIncumbent, group: "r1/gate0".into() };
                record.add_episode(&place, &episode).unwrap();
            }
            let rows = record.episodes().unwrap();
            let found = unseen(&rows.iter().collect::<Vec<_>>());
            assert_eq!(found.is_some(), expected, "{outcomes:?}: {found:?}");
        };
        let [policy, workspace, harness] =
            [InvalidCause::Policy, InvalidCause::Workspace, InvalidCause::Harness].map(Outcome::Invalid);
        check(&[], false);
        check(&[Outcome::Solved, Outcome::Unsolved], false);
        check(&[policy.clone(), Outcome::Unsolved], false);
        check(&[policy, workspace, Outcome::Unsolved], true);
        // An incumbent that breaks its own episodes is beaten by what does not.
        check(&[harness.clone(), harness], false);
    }

    #[test]
    fn no_tie_is_claimed_of_another_prompt_or_limit() {
        let check = |change: fn(&mut HarnessManifest), expected: bool| {
            let mut manifest = HarnessManifest::bare();
            change(&mut manifest);
            let (left, right) = (Generation::bare(HarnessManifest::bare()), Generation::bare(manifest));
            assert_eq!(replays_foresee(&left, &right), expected);
        };
        check(|_| {}, true);
        check(|m| m.prompts.format_error.push('!'), false);
        check(|m| m.prompts.system.push('!'), false);
        check(|m| m.limits.observation_chars += 1, false);
        check(|m| m.limits.command_seconds += 1, false);
    }
}
