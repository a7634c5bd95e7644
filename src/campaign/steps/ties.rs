//! Which episodes of a candidate need not be run, since it does nothing in them?
//!
//! An episode of the incumbent is replayed under the candidate, with the recorded replies. Where nothing
//! that the policy reads or that is kept of the episode differs, a policy that repeats itself for a seed
//! would give the very same episode under the candidate: it is taken over as the candidate's, an exact tie.
//! That the policy does repeat itself is checked: in the first batches all such episodes are run for real
//! too, later a share of them, and compared byte for byte with those of the incumbent.

use anyhow::{Context, Result};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use serde::{Deserialize, Serialize};
use tandem_host::agent::{EpisodeRecord, replay};
use tandem_host::rollout::Cancelled;

use super::super::draw;
use super::super::gates::GateEpisodes;
use super::super::record::{Arm, EpisodeRow, Place};
use super::super::reports::SavedRollouts;
use super::super::run::Campaign;
use super::episodes::number_of;
use super::gate::{Arms, arm_group};
use crate::evolve::Random;

/// What was foreseen of one batch of a gate, fixed before the candidate's episodes of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct BatchTies {
    /// Episodes in which the candidate does nothing.
    foreseen: Vec<Foreseen>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Foreseen {
    incumbent: String,
    /// The id of the candidate's episode of the same seed.
    candidate: String,
    /// Whether the incumbent's is taken over; else both are run and compared.
    taken: bool,
}

impl Campaign {
    /// Foresees the ties of a batch and records those that are taken over.
    pub(super) async fn take_ties(&self, gate: &Arms<'_>, number: usize, batch: &[String]) -> Result<()> {
        let phase = format!("ties-{}-{number}", gate.index);
        let episodes = GateEpisodes::of(&self.record, gate.label, gate.plan)?;
        let ties = match self.record.phase::<BatchTies>(gate.round, &phase)? {
            Some(ties) => ties,
            None => {
                let so_far = self.checked_ties(gate)?;
                let proven = so_far.audited > 0 && so_far.differed == 0;
                let mut ties = BatchTies { foreseen: self.foresee(gate, &episodes, batch).await? };
                for tie in &mut ties.foreseen {
                    let label = format!("audit/{}", tie.candidate);
                    let draw = Random::of_state(draw::seed(self.config.seed, &label)).uniform();
                    tie.taken = proven && draw >= self.config.evolve.savings.audit;
                }
                self.record.end_phase(gate.round, &phase, &ties)?;
                ties
            }
        };
        let known = self.record.episode_ids()?;
        for tie in ties.foreseen.iter().filter(|tie| tie.taken && !known.contains(&tie.candidate)) {
            let rows = batch.iter().flat_map(|task| episodes.rows(Arm::GateIncumbent, task));
            let row = rows.into_iter().find(|row| row.id == tie.incumbent);
            let row = row.with_context(|| format!("the run record has no episode {}", tie.incumbent))?;
            let incumbent = self.record.episode(row)?;
            let episode =
                EpisodeRecord { id: tie.candidate.clone(), harness: gate.candidate.digest(), ..incumbent };
            let group = arm_group(gate.label, Arm::GateCandidate, &row.task);
            let place = Place { round: gate.round, arm: Arm::GateCandidate, group };
            self.record.add_episode(&place, &episode)?;
        }
        Ok(())
    }

    /// Replays the incumbent's episodes of a batch under the candidate, several at once.
    async fn foresee(
        &self,
        gate: &Arms<'_>,
        episodes: &GateEpisodes,
        batch: &[String],
    ) -> Result<Vec<Foreseen>> {
        let known = self.record.episode_ids()?;
        let mut waiting = Vec::new();
        for row in batch.iter().flat_map(|task| episodes.rows(Arm::GateIncumbent, task)) {
            let Some(number) = number_of(row) else { continue };
            let candidate = format!("{}/{number}", arm_group(gate.label, Arm::GateCandidate, &row.task));
            if row.valid() && !known.contains(&candidate) {
                waiting.push((row.clone(), candidate));
            }
        }
        let spinner = self.progress.spin(&format!("round {}: gate {}, replays", gate.round, gate.index));
        let mut waiting = waiting.into_iter();
        let mut running = FuturesUnordered::new();
        let mut found = Vec::new();
        loop {
            while running.len() < self.config.rollout.concurrency
                && let Some((row, candidate)) = waiting.next()
            {
                let recorded = self.record.episode(&row)?;
                let Some(task) = self.tasks.get(&row.task).cloned() else { continue };
                let (lease, spaces) = (gate.candidate.lease(), self.workspaces.clone());
                let cancel = self.cancel.clone();
                running.push(async move {
                    let again = replay(&recorded, task, &lease, &spaces, &cancel).await.ok_or(Cancelled)?;
                    let tie = Foreseen { incumbent: row.id, candidate, taken: false };
                    let same = told(&recorded, Tokens::LeftOut)? == told(&again, Tokens::LeftOut)?;
                    anyhow::Ok(same.then_some(tie))
                });
            }
            let Some(next) = running.next().await else { break };
            found.extend(next?);
        }
        spinner.finish();
        // Replays end in any order; the record has the order of the gate.
        found.sort_by(|left, right| left.candidate.cmp(&right.candidate));
        Ok(found)
    }

    /// What the record says of the ties of a gate.
    pub(super) fn checked_ties(&self, gate: &Arms<'_>) -> Result<SavedRollouts> {
        let mut saved = SavedRollouts::default();
        let rows = self.record.episodes()?;
        let row = |id: &str| rows.iter().find(|row| row.id == id);
        let prefix = format!("ties-{}-", gate.index);
        for (round, _, ties) in self.record.phases::<BatchTies>(&prefix)? {
            if round != gate.round {
                continue;
            }
            for tie in ties.foreseen {
                if tie.taken {
                    saved.ties += 1;
                } else if let (Some(left), Some(right)) = (row(&tie.incumbent), row(&tie.candidate)) {
                    saved.audited += 1;
                    saved.differed += usize::from(!self.same(left, right)?);
                }
            }
        }
        Ok(saved)
    }

    fn same(&self, left: &EpisodeRow, right: &EpisodeRow) -> Result<bool> {
        let (left, right) = (self.record.episode(left)?, self.record.episode(right)?);
        Ok(told(&left, Tokens::Compared)? == told(&right, Tokens::Compared)?)
    }
}

/// Whether the token ids are compared; a replay has none.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tokens {
    Compared,
    LeftOut,
}

/// All that is kept of an episode but its name, its harness, and what the clock says.
fn told(episode: &EpisodeRecord, tokens: Tokens) -> Result<serde_json::Value> {
    let mut episode = EpisodeRecord {
        id: String::new(),
        harness: tandem_host::store::Digest::of(b""),
        seconds: 0.0,
        spent: Default::default(),
        ..episode.clone()
    };
    for turn in &mut episode.turns {
        turn.calls.iter_mut().for_each(|call| call.seconds = 0.0);
        turn.cost = 0.0;
        if tokens == Tokens::LeftOut {
            turn.prompt_tokens = 0;
            turn.sampled_tokens = 0;
        }
    }
    if tokens == Tokens::LeftOut {
        episode.segments.clear();
    }
    Ok(serde_json::to_value(episode)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evolve::testkit;

    #[test]
    fn only_names_and_clocks_may_differ_in_a_tie() {
        let check = |change: fn(&mut EpisodeRecord), expected: bool| {
            let left = testkit::episode("t");
            let mut right = left.clone();
            change(&mut right);
            let same = told(&left, Tokens::Compared).unwrap() == told(&right, Tokens::Compared).unwrap();
            assert_eq!(same, expected);
        };
        check(|_| {}, true);
        check(|e| e.id = "other".into(), true);
        check(|e| e.harness = tandem_host::store::Digest::of(b"other"), true);
        check(|e| e.seconds = 9.0, true);
        check(|e| e.turns[0].calls[0].seconds = 9.0, true);
        check(|e| e.turns[0].calls[0].result.text.push('x'), false);
        check(|e| e.turns[0].reply = tandem_host::policy::Message::new(e.turns[0].reply.role, "x"), false);
        check(|e| e.patch.push(b'x'), false);
        check(|e| e.outcome = tandem_host::agent::Outcome::Solved, false);
        check(|e| e.seed = 4, false);
        check(|e| e.turns[0].sampled_tokens = 2, false);
    }
}
