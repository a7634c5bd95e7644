//! Which accepted plugins are tested for whether they are still needed?
//!
//! A removal is a candidate like any other: the harness without one plugin. It goes through the same gate,
//! and "lower on neither rate" decides, since nothing has to get better by having less.

use std::collections::BTreeMap;

use anyhow::Result;
use tandem_host::store::Digest;

use super::super::record::RunRecord;
use super::super::reports::{Change, ProposalRow, candidates};
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
                let trial = self.begin(round, index, proposal, Change::Remove).await?;
                self.confirm(round, trial, &gate, &self.names()).await?;
            }
        }
        Ok(())
    }
}

/// The accepted plugins of the newest harness that were let in, or kept by a test, `every` rounds ago or
/// more: the oldest first, at most `most`.
fn due(record: &RunRecord, round: u32, every: u32, most: usize) -> Result<Vec<ProposalRow>> {
    let mut last: BTreeMap<String, (u32, ProposalRow, Option<Digest>)> = BTreeMap::new();
    for (round, _, report) in candidates(record)? {
        let name = report.proposal.name.clone();
        // Prompts, settings, limits and orders cost an episode nothing by being there: only plugins are tested.
        if !report.proposal.kind.is_plugin() {
            continue;
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_host::forge::Language;
    use tandem_host::harness::{HarnessManifest, PluginEntry};

    use crate::campaign::record::Publication;
    use crate::campaign::reports::CandidateReport;
    use crate::evolve::{ArmCounts, EditKind, PairedTask, PairedTest, Signal, Verdict};

    struct Run {
        _folder: tempfile::TempDir,
        record: RunRecord,
    }

    impl Run {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let record = RunRecord::open(folder.path()).unwrap();
            let run = Self { _folder: folder, record };
            run.publish(0, &[]);
            run
        }

        /// Publishes a harness with these plugins.
        fn publish(&self, round: u32, plugins: &[&str]) -> Publication {
            let entry = |name: &&str| PluginEntry {
                name: (*name).to_owned(),
                digest: Digest::of(name.as_bytes()),
                grants: vec![],
                settings: serde_json::Map::new(),
            };
            let manifest =
                HarnessManifest { plugins: plugins.iter().map(entry).collect(), ..HarnessManifest::bare() };
            let digest = self.record.add_harness(&manifest).unwrap();
            let publication = Publication { round, digest, reason: "r".into() };
            self.record.publish(&publication).unwrap();
            publication
        }

        /// Ends a gate on a change of `name`, with this verdict.
        fn end(&self, round: u32, index: usize, name: &str, change: Change, verdict: Verdict) {
            self.end_edit(round, index, name, EditKind::Plugin, change, verdict);
        }

        fn end_edit(
            &self,
            round: u32,
            index: usize,
            name: &str,
            kind: EditKind,
            change: Change,
            verdict: Verdict,
        ) {
            let config = GateConfig {
                rule: serde_json::from_str("\"paper\"").unwrap(),
                tasks: 1,
                group_size: 1,
                ..GateConfig::default()
            };
            let mut test = PairedTest::new(config, 1);
            let counts = |solved| ArmCounts { solved, rollouts: 1 };
            let gain = usize::from(verdict == Verdict::Accept);
            test.push(PairedTask { task: "t".into(), incumbent: counts(0), candidate: counts(gain) });
            let proposal = ProposalRow {
                name: name.into(),
                signal: Signal::EmptyPatch,
                kind,
                source: Digest::of(b"source"),
                language: Language::default(),
                grants: vec![],
                rationale: "r".into(),
                manifest: None,
            };
            let mut report = CandidateReport::begun(proposal, change, Digest::of(b"incumbent"));
            report.plugin = (change == Change::Add).then(|| Digest::of(name.as_bytes()));
            report.gate = Some(test.report());
            assert_eq!(report.accepted(), verdict == Verdict::Accept);
            self.record.end_gate(round, &format!("candidate-{index}"), &report, None).unwrap();
        }

        fn check(&self, round: u32, every: u32, most: usize, expected: &[&str]) {
            let due = due(&self.record, round, every, most).unwrap();
            let names: Vec<_> = due.iter().map(|row| row.name.as_str()).collect();
            assert_eq!(names, expected, "round {round}, every {every}");
        }
    }

    #[test]
    fn accepted_plugins_are_due_again_after_so_many_rounds_the_oldest_first() {
        let run = Run::new();
        run.check(9, 1, 9, &[]);
        run.end(1, 0, "old", Change::Add, Verdict::Accept);
        run.end(1, 1, "refused", Change::Add, Verdict::Reject);
        run.end(2, 0, "new", Change::Add, Verdict::Accept);
        run.publish(2, &["new", "old"]);
        run.check(2, 1, 9, &["old"]);
        run.check(3, 1, 9, &["old", "new"]);
        run.check(3, 1, 1, &["old"]);
        run.check(3, 4, 9, &[]);
        // A test that kept it starts the time again.
        run.end(5, 0, "old", Change::Remove, Verdict::Reject);
        run.check(6, 4, 9, &["new"]);
        run.check(9, 4, 9, &["new", "old"]);
        // What was removed is not there to be tested.
        run.end(7, 0, "new", Change::Remove, Verdict::Accept);
        run.publish(7, &["old"]);
        run.check(20, 4, 9, &["old"]);
        // And what came back is new.
        run.end(8, 0, "new", Change::Add, Verdict::Accept);
        run.publish(8, &["old", "new"]);
        run.check(9, 2, 9, &["old"]);
        run.check(10, 2, 9, &["old", "new"]);
    }

    #[test]
    fn an_edit_that_has_the_name_of_a_plugin_is_no_plugin() {
        let run = Run::new();
        run.end_edit(1, 0, "there", EditKind::Prompt, Change::Add, Verdict::Accept);
        run.publish(1, &["there"]);
        run.check(9, 1, 9, &[]);
        run.end(2, 0, "there", Change::Add, Verdict::Accept);
        run.end_edit(8, 0, "there", EditKind::Settings, Change::Add, Verdict::Accept);
        run.check(9, 5, 9, &["there"]);
    }

    #[test]
    fn plugins_of_the_first_harness_and_other_components_of_the_name_are_left_alone() {
        let run = Run::new();
        run.end(1, 0, "rolled-back", Change::Add, Verdict::Accept);
        run.publish(1, &["came-with-the-manifest"]);
        run.check(9, 1, 9, &[]);
    }
}
