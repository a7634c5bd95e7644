//! Which of several candidates is worth a gate? A cheap look at all of them, whose episodes no gate uses.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::Result;
use serde::{Deserialize, Serialize};
use tandem_host::harness::Generation;
use tandem_host::store::Digest;

use super::super::draw;
use super::super::record::Arm;
use super::super::reports::{CandidateReport, Change, ProposalRow};
use super::super::run::Campaign;
use super::confirm::Trial;
use super::episodes::{Label, Numbered};
use crate::evolve::ArmCounts;

/// The phase of a round that holds its screen.
const PHASE: &str = "screen";

/// What a screen saw.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ScreenReport {
    /// The tasks in the order in which they were used: the first looks are at the first of them.
    pub tasks: Vec<String>,
    pub rollouts: usize,
    pub looks: Vec<Look>,
    /// The candidate that goes on to the gate, by its number in the round; none where the incumbent is best.
    pub finalist: Option<usize>,
}

/// One look: the same tasks and seeds under every harness that is left.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Look {
    pub tasks: usize,
    pub arms: Vec<LookArm>,
}

/// What one harness did. Episodes without a result count as failures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LookArm {
    /// The number of the candidate in the round; none for the incumbent.
    pub candidate: Option<usize>,
    pub name: String,
    pub harness: Digest,
    pub counts: ArmCounts,
}

/// A harness in a look.
pub struct Contender<'a> {
    pub candidate: Option<usize>,
    pub name: String,
    pub generation: &'a Arc<Generation>,
}

impl Campaign {
    /// Builds the proposals, halves them by looks at more and more tasks, and gates the one that is left on
    /// tasks that the looks did not use, as far as there are some.
    pub(in crate::campaign) async fn screened(&self, round: u32, proposals: &[ProposalRow]) -> Result<()> {
        let mut trials = Vec::new();
        for (index, proposal) in proposals.iter().enumerate() {
            if !self.is_settled(round, index)? {
                trials.push(self.begin(round, index, proposal.clone(), Change::Add).await?);
            }
        }
        // What could not be built is settled at once; what was settled before a kill is not here any more.
        let mut left = Vec::new();
        for trial in trials {
            if trial.generation.is_some() { left.push(trial) } else { self.settle(round, trial)? }
        }
        if left.is_empty() {
            return Ok(());
        }
        let screen = match self.record.phase::<ScreenReport>(round, PHASE)? {
            Some(screen) => screen,
            None => {
                let screen = self.halve(round, &left).await?;
                self.record.end_phase(round, PHASE, &screen)?;
                screen
            }
        };
        let (finalist, others): (Vec<_>, Vec<_>) =
            left.into_iter().partition(|trial| Some(trial.index) == screen.finalist);
        for trial in others {
            self.settle(round, passed_over(trial, &screen))?;
        }
        for trial in finalist {
            self.confirm(round, trial, &self.config.evolve.gate, &self.names()).await?;
        }
        Ok(())
    }

    async fn halve(&self, round: u32, trials: &[Trial]) -> Result<ScreenReport> {
        let config = &self.config.evolve.screen;
        let names = self.names();
        let order = draw::order(self.config.seed, &format!("r{round}/screen"), &names);
        let mut left: Vec<Contender<'_>> = trials.iter().filter_map(contender).collect();
        let mut screen = ScreenReport { rollouts: config.rollouts, ..ScreenReport::default() };
        let mut tasks = config.tasks.min(order.len());
        while left.len() > 1 {
            let arms = self.look(round, &left, &order[..tasks], config.rollouts).await?;
            screen.tasks = order[..tasks].to_vec();
            let keep = left.len().div_ceil(2);
            let best: Vec<Option<usize>> = ranked(&arms).into_iter().take(keep).collect();
            left.retain(|contender| best.contains(&contender.candidate));
            screen.looks.push(Look { tasks, arms });
            tasks = (2 * tasks).min(order.len());
        }
        screen.finalist = left.first().and_then(|contender| contender.candidate);
        Ok(screen)
    }

    /// Runs every harness of `left` on the same tasks with the same seeds.
    pub(in crate::campaign) async fn look(
        &self,
        round: u32,
        left: &[Contender<'_>],
        tasks: &[String],
        rollouts: usize,
    ) -> Result<Vec<LookArm>> {
        let label = format!("r{round}/screen");
        let key = |contender: &Contender<'_>| match contender.candidate {
            Some(index) => format!("{label}/{index}"),
            None => format!("{label}/incumbent"),
        };
        for contender in left {
            let mut specs = Vec::new();
            for task in tasks {
                let group = format!("{}/{task}", key(contender));
                let (numbers, label) = (0..rollouts, Label::Shared(&label));
                specs.extend(self.specs(&self.tasks, Numbered { task, group, numbers, label, skill: None })?);
            }
            let title = format!("round {round}: look at {}", contender.name);
            self.rollouts(&title, round, Arm::Screen, specs, Some(contender.generation.clone())).await?;
        }
        let mut solved: BTreeMap<String, usize> = BTreeMap::new();
        for row in self.rows(round, Arm::Screen)?.into_iter().filter(|row| row.solved()) {
            *solved.entry(row.group).or_default() += 1;
        }
        let count = |contender: &Contender<'_>| {
            let of = |task: &String| solved.get(&format!("{}/{task}", key(contender))).copied().unwrap_or(0);
            ArmCounts { solved: tasks.iter().map(of).sum(), rollouts: rollouts * tasks.len() }
        };
        Ok(left
            .iter()
            .map(|contender| LookArm {
                candidate: contender.candidate,
                name: contender.name.clone(),
                harness: contender.generation.digest(),
                counts: count(contender),
            })
            .collect())
    }
}

/// A trial as a contender; none when it could not be built.
pub fn contender(trial: &Trial) -> Option<Contender<'_>> {
    let generation = trial.generation.as_ref()?;
    Some(Contender { candidate: Some(trial.index), name: trial.report.name(), generation })
}

/// The candidates of a look, best first; of equals the incumbent first, then the earlier proposal.
pub fn ranked(arms: &[LookArm]) -> Vec<Option<usize>> {
    let mut order: Vec<&LookArm> = arms.iter().collect();
    order.sort_by_key(|arm| (std::cmp::Reverse(arm.counts.solved), arm.candidate));
    order.into_iter().map(|arm| arm.candidate).collect()
}

/// A candidate that another one was better than.
pub fn passed_over(mut trial: Trial, screen: &ScreenReport) -> Trial {
    let of = |candidate: Option<usize>| {
        let seen = screen.looks.iter().rev();
        let mut arms = seen.flat_map(|look| &look.arms).filter(|arm| arm.candidate == candidate);
        arms.next().map(|arm| (arm.name.clone(), format!("{}/{}", arm.counts.solved, arm.counts.rollouts)))
    };
    let own = of(Some(trial.index)).map_or("nothing".into(), |(_, counts)| counts);
    let best = of(screen.finalist).map_or("another".into(), |(name, counts)| format!("{name} {counts}"));
    let report: &mut CandidateReport = &mut trial.report;
    report.refused = Some(format!("not the best of the round's screen: it solved {own}, {best}"));
    trial
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_equals_the_incumbent_stays_and_then_the_earlier_proposal_goes_on() {
        let arm = |candidate, solved| LookArm {
            candidate,
            name: "n".into(),
            harness: Digest::of(b"h"),
            counts: ArmCounts { solved, rollouts: 8 },
        };
        let check = |arms: &[LookArm], expected: &[Option<usize>]| assert_eq!(ranked(arms), expected);
        check(&[arm(Some(1), 3), arm(Some(0), 3), arm(None, 3)], &[None, Some(0), Some(1)]);
        check(&[arm(None, 1), arm(Some(0), 0), arm(Some(1), 2)], &[Some(1), None, Some(0)]);
    }
}
