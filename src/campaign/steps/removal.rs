//! Which accepted plugins are tested for whether they are still needed?
//!
//! A removal is a candidate like any other: the harness without one plugin. It goes through the same gate,
//! and "lower on neither rate" decides, since nothing has to get better by having less.

use std::collections::BTreeMap;

use anyhow::Result;
use tandem_host::store::Digest;

use super::super::record::RunRecord;
use super::super::reports::{CandidateReport, Change, ProposalRow};
use super::super::run::{Campaign, newest_harness};
use crate::evolve::{Claim, GateConfig};

/// The phase of a round that holds its removal tests, fixed before the first of them.
const PHASE: &str = "removals";

impl Campaign {
    /// Runs the removal tests of a round; their candidates are numbered from `first` on.
    pub(in crate::campaign) async fn removal_tests(&self, round: u32, first: usize) -> Result<()> {
        let config = &self.config.evolve.removal;
        if config.every == 0 {
            return Ok(());
        }
        let due: Vec<ProposalRow> = match self.record.phase(round, PHASE)? {
            Some(due) => due,
            None => {
                let due = due(&self.record, round, config.every, config.most)?;
                if due.is_empty() {
                    return Ok(());
                }
                self.record.end_phase(round, PHASE, &due)?;
                due
            }
        };
        let gate = &self.config.evolve.gate;
        let gate = GateConfig {
            claim: Claim::NotLower,
            margin_pass: config.margin_pass.unwrap_or(gate.margin_pass),
            margin_trainable: config.margin_trainable.unwrap_or(gate.margin_trainable),
            ..gate.clone()
        };
        for (number, proposal) in due.into_iter().enumerate() {
            let index = first + number;
            if !self.is_settled(round, index)? {
                let trial = self.begin(index, proposal, Change::Remove).await?;
                self.confirm(round, trial, &gate, &self.names()).await?;
            }
        }
        Ok(())
    }
}

/// The accepted plugins of the newest harness that were let in, or kept by a test, `every` rounds ago or
/// more: the oldest first, at most `most`.
fn due(record: &RunRecord, round: u32, every: u32, most: usize) -> Result<Vec<ProposalRow>> {
    let mut reports: Vec<(u32, usize, CandidateReport)> = Vec::new();
    for (round, phase, report) in record.phases::<CandidateReport>("candidate-")? {
        let index = phase.rsplit('-').next().and_then(|digits| digits.parse().ok()).unwrap_or(0);
        reports.push((round, index, report));
    }
    reports.sort_by_key(|(round, index, _)| (*round, *index));
    let mut last: BTreeMap<String, (u32, ProposalRow, Option<Digest>)> = BTreeMap::new();
    for (round, _, report) in reports {
        let name = report.proposal.name.clone();
        match (report.change, report.accepted()) {
            (Change::Add, true) => {
                last.insert(name, (round, report.proposal, report.plugin));
            }
            (Change::Add, false) => {}
            (Change::Remove, true) => {
                last.remove(&name);
            }
            (Change::Remove, false) => {
                if let Some(entry) = last.get_mut(&name) {
                    entry.0 = round;
                }
            }
        }
    }
    let harness = record.harness(&newest_harness(record)?)?;
    let is_there = |name: &str, plugin: &Option<Digest>| {
        harness.plugins.iter().any(|entry| entry.name == name && Some(entry.digest) == *plugin)
    };
    let mut due: Vec<(u32, ProposalRow)> = last
        .into_iter()
        .filter(|(name, (since, _, plugin))| round.saturating_sub(*since) >= every && is_there(name, plugin))
        .map(|(_, (since, proposal, _))| (since, proposal))
        .collect();
    due.sort_by_key(|(since, _)| *since);
    due.truncate(most);
    Ok(due.into_iter().map(|(_, proposal)| proposal).collect())
}
