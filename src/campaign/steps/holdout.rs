//! Were the gates right? Tasks that nothing else of a run sees, asked rarely and answered in one word.
//!
//! Teachers read the verdicts of gates, so the pool of the gates wears out: what is let in may fit the pool
//! and nothing else. Every few accepted candidates the newest harness is compared with that of the last
//! look on other tasks. The answer has three words only, and a run may ask a few times only, so that
//! little can leak (the Ladder of Blum and Hardt, 1502.04585).

use std::sync::Arc;

use anyhow::Result;
use serde::{Deserialize, Serialize};
use tandem_host::harness::Generation;
use tandem_host::store::Digest;

use super::super::ledger::keep_ledger;
use super::super::record::{Arm, Publication};
use super::super::reports::{CandidateReport, Change};
use super::super::run::{Campaign, newest_harness};
use super::episodes::{Label, Numbered};
use crate::evolve::{ArmCounts, PairedTask};

/// The phase of a round that holds its look at the hold-out.
pub const PHASE: &str = "holdout";
/// Standard errors of the mean gain that are more than chance: one error in twenty on each side.
const STANDARD_ERRORS: f64 = 1.645;

/// What the hold-out says of the newest harness.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HoldoutWord {
    Better,
    /// No difference that is more than chance.
    Level,
    /// The gates and the hold-out disagree.
    Worse,
}

impl HoldoutWord {
    pub fn name(self) -> &'static str {
        match self {
            Self::Better => "better",
            Self::Level => "level",
            Self::Worse => "worse",
        }
    }

    /// The word for these tasks: whether the mean gain differs from 0 by more than chance.
    fn of(tasks: &[PairedTask]) -> Self {
        let gains: Vec<f64> = tasks.iter().map(PairedTask::gain).collect();
        let count = gains.len() as f64;
        if gains.len() < 2 {
            return Self::Level;
        }
        let mean = gains.iter().sum::<f64>() / count;
        let variance = gains.iter().map(|gain| (gain - mean).powi(2)).sum::<f64>() / (count - 1.0);
        let error = (variance / count).sqrt() * STANDARD_ERRORS;
        match mean {
            mean if mean > error => Self::Better,
            mean if mean < -error => Self::Worse,
            _ => Self::Level,
        }
    }
}

/// One look.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HoldoutReport {
    /// The harness of the look before, or the first one of the run.
    pub before: Digest,
    /// The newest one.
    pub now: Digest,
    /// Accepted candidates of the run so far.
    pub accepted: usize,
    pub word: HoldoutWord,
    /// Whether `before` was published again.
    pub rolled_back: bool,
    /// What both did; for people who audit, never for teachers.
    pub tasks: Vec<PairedTask>,
}

impl HoldoutReport {
    /// The harness that stands after the look.
    pub fn standing(&self) -> Digest {
        if self.rolled_back { self.before } else { self.now }
    }
}

impl Campaign {
    /// Looks at the hold-out if a look is due.
    pub(in crate::campaign) async fn consult_holdout(&self, round: u32) -> Result<()> {
        let Some(config) = &self.config.evolve.holdout else { return Ok(()) };
        // A run that goes on walks through its rounds from the first, and what was accepted since is not theirs.
        if self.record.episodes()?.iter().any(|row| row.round > round) {
            return Ok(());
        }
        let looks = self.record.phases::<HoldoutReport>(PHASE)?;
        if looks.len() >= config.most || looks.iter().any(|(looked, ..)| *looked == round) {
            return Ok(());
        }
        let accepted = self.record.phases::<CandidateReport>("candidate-")?;
        let accepted = accepted.iter().filter(|(.., report)| report.accepted());
        let accepted = accepted.filter(|(.., report)| report.change == Change::Add).count();
        let last = looks.last().map(|(.., report)| report);
        let publications = self.record.publications()?;
        let first = publications.first().map(|publication| publication.digest);
        let Some(before) = last.map(HoldoutReport::standing).or(first) else { return Ok(()) };
        let now = newest_harness(&self.record)?;
        if accepted < last.map_or(0, |report| report.accepted) + config.every || now == before {
            return Ok(());
        }
        let harnesses = [self.generation(&before).await?, self.generation(&now).await?];
        let tasks = self.hold_out(round, &harnesses, config.group_size).await?;
        let word = HoldoutWord::of(&tasks);
        let rolled_back = word == HoldoutWord::Worse && config.rollback;
        let report = HoldoutReport { before, now, accepted, word, rolled_back, tasks };
        let publication = rolled_back.then(|| Publication {
            round,
            digest: before,
            reason: "the hold-out says that the harness got worse".into(),
        });
        self.record.end_gate(round, PHASE, &report, publication.as_ref())?;
        keep_ledger(&self.run, &self.record)?;
        let back = if rolled_back { "; rolled back" } else { "" };
        let [old, _] = harnesses;
        self.progress.say(&format!(
            "round {round}: on the hold-out harness {} is {} than {}{back}",
            now.short(),
            if word == HoldoutWord::Level { "no better and no worse" } else { word.name() },
            before.short()
        ));
        if rolled_back {
            self.generations.publish(old);
        }
        Ok(())
    }

    /// Runs both harnesses on every task of the hold-out, with the same seeds.
    async fn hold_out(
        &self,
        round: u32,
        harnesses: &[Arc<Generation>; 2],
        size: usize,
    ) -> Result<Vec<PairedTask>> {
        let label = format!("r{round}/holdout");
        let group = |side: usize, task: &str| format!("{label}/{side}/{task}");
        for (side, harness) in harnesses.iter().enumerate() {
            let mut specs = Vec::new();
            for task in self.holdout.keys() {
                let (numbers, group) = (0..size, group(side, task));
                let label = Label::Shared(&label);
                let wanted = Numbered { task, group, numbers, label, skill: None };
                specs.extend(self.specs(&self.holdout, wanted)?);
            }
            let title = format!("round {round}: hold-out, harness {}", harness.digest().short());
            self.rollouts(&title, round, Arm::Holdout, specs, Some(harness.clone())).await?;
        }
        let rows = self.rows(round, Arm::Holdout)?;
        let count = |side: usize, task: &str| {
            let group = group(side, task);
            let solved = rows.iter().filter(|row| row.group == group && row.solved()).count();
            ArmCounts { solved, rollouts: size }
        };
        let pair = |task: &String| PairedTask {
            task: task.clone(),
            incumbent: count(0, task),
            candidate: count(1, task),
        };
        Ok(self.holdout.keys().map(pair).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_is_one_word_and_chance_is_level() {
        let check = |solved: &[(usize, usize)], expected: HoldoutWord| {
            let arm = |solved| ArmCounts { solved, rollouts: 4 };
            let pair = |(old, new): &(usize, usize)| PairedTask {
                task: "t".into(),
                incumbent: arm(*old),
                candidate: arm(*new),
            };
            let tasks: Vec<_> = solved.iter().map(pair).collect();
            assert_eq!(HoldoutWord::of(&tasks), expected, "{solved:?}");
        };
        check(&[], HoldoutWord::Level);
        check(&[(4, 0)], HoldoutWord::Level);
        check(&[(2, 2), (1, 1), (4, 4)], HoldoutWord::Level);
        check(&[(2, 1), (1, 2), (3, 3), (0, 1)], HoldoutWord::Level);
        check(&[(3, 1), (3, 2), (4, 2), (2, 0)], HoldoutWord::Worse);
        check(&[(1, 3), (2, 3), (2, 4), (0, 2)], HoldoutWord::Better);
        // Every task the same: no spread at all, and clearly worse.
        check(&[(4, 2), (3, 1)], HoldoutWord::Worse);
    }
}
