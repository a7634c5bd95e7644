//! Which accepted changes are tested for whether they are still needed?
//!
//! Those that cost something by being there: plugins, which run and may talk, and prompts that became longer, which
//! episodes read. Of several edits of one prompt the newest is tested. A removal is a candidate like any other: the
//! harness without one of them. It goes through the same gate, and "lower on neither rate" decides, since nothing has
//! to get better by having less.

use std::collections::BTreeMap;

use anyhow::Result;
use tandem_host::agent::check_prompts;
use tandem_host::harness::{HarnessManifest, PluginEntry};
use tandem_host::store::Digest;

use super::super::record::RunRecord;
use super::super::reports::{CandidateReport, Change, ProposalRow, candidates};
use super::super::run::{Campaign, newest_harness};
use crate::evolve::{Claim, EditKind, GateConfig};

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

/// The harness `incumbent` without what the proposal brought into it; none where that cannot be told apart any
/// more.
pub(in crate::campaign) fn without(
    record: &RunRecord,
    proposal: &ProposalRow,
    incumbent: &Digest,
) -> Result<Option<HarnessManifest>> {
    let is_it = |report: &CandidateReport| {
        report.change == Change::Add && report.accepted() && report.proposal.is_same_edit(proposal)
    };
    let Some((.., report)) = candidates(record)?.into_iter().rev().find(|(.., report)| is_it(report)) else {
        return Ok(None);
    };
    let (before, now) = (record.harness(&report.incumbent)?, record.harness(incumbent)?);
    let without = proposal.edit(record.blobs())?.taken_back(&proposal.name, &before, &now);
    // A prompt of before may not go with limits that were changed since.
    Ok(without.filter(|without| check_prompts(&without.prompts, &without.limits).is_ok()))
}

/// The accepted changes in the newest harness that were let in, or kept by a test, `every` rounds ago or
/// more: the oldest first, at most `most`.
fn due(record: &RunRecord, round: u32, every: u32, most: usize) -> Result<Vec<ProposalRow>> {
    let mut last: BTreeMap<(EditKind, String, Option<Digest>), (u32, CandidateReport)> = BTreeMap::new();
    for (round, _, report) in candidates(record)? {
        // Settings, limits, orders and removals cost an episode nothing by being so.
        if !matches!(report.proposal.kind, EditKind::Plugin | EditKind::Prompt) {
            continue;
        }
        // A plugin takes the place of the one of its name; texts of one name may be of several prompts.
        let ProposalRow { kind, name, source, .. } = &report.proposal;
        let key = (*kind, name.clone(), (!kind.is_plugin()).then_some(*source));
        match (report.change, report.accepted()) {
            (Change::Add, true) => {
                last.insert(key, (round, report));
            }
            (Change::Add, false) => {}
            (Change::Remove, true) => {
                last.remove(&key);
            }
            (Change::Remove, false) => {
                if let Some(entry) = last.get_mut(&key) {
                    entry.0 = round;
                }
            }
        }
    }
    let newest = newest_harness(record)?;
    let harness = record.harness(&newest)?;
    let ancestry = record.ancestry()?;
    let mut due: Vec<(u32, ProposalRow)> = Vec::new();
    for (since, report) in last.into_values() {
        let proposal = &report.proposal;
        let is_there = match proposal.kind {
            // Another component of the name is another plugin.
            EditKind::Plugin => {
                let is_it = |entry: &PluginEntry| Some(entry.digest) == report.plugin;
                harness.plugins.iter().any(|entry| entry.name == proposal.name && is_it(entry))
            }
            _ => {
                report.stands(&proposal.edit(record.blobs())?, &ancestry, &harness)
                    && without(record, proposal, &newest)?.is_some()
            }
        };
        if round.saturating_sub(since) >= every && is_there {
            due.push((since, report.proposal));
        }
    }
    due.sort_by_key(|(since, _)| *since);
    due.truncate(most);
    Ok(due.into_iter().map(|(_, proposal)| proposal).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_host::forge::Language;

    use crate::campaign::record::Publication;
    use crate::evolve::{ArmCounts, Edit, PairedTask, PairedTest, Signal, Verdict};

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
        fn publish(&self, round: u32, plugins: &[&str]) {
            let entry = |name: &&str| PluginEntry {
                name: (*name).to_owned(),
                digest: Digest::of(name.as_bytes()),
                grants: vec![],
                settings: serde_json::Map::new(),
            };
            let plugins = plugins.iter().map(entry).collect();
            self.publish_all(round, &HarnessManifest { plugins, ..HarnessManifest::bare() });
        }

        /// Publishes the bare harness with this system prompt.
        fn publish_prompt(&self, round: u32, text: &str) {
            let mut manifest = HarnessManifest::bare();
            manifest.prompts.system = text.into();
            self.publish_all(round, &manifest);
        }

        fn publish_all(&self, round: u32, manifest: &HarnessManifest) {
            let digest = self.record.add_harness(manifest).unwrap();
            self.record.publish(&Publication { round, digest, reason: "r".into() }).unwrap();
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
            let first = HarnessManifest::bare();
            let text = format!("{}\n\nSaid: {name}.", first.prompts.system);
            let edit = serde_json::json!({ "kind": "prompt", "prompt": "system", "text": text });
            let edit: Edit = serde_json::from_value(edit).unwrap();
            let proposal = ProposalRow {
                name: name.into(),
                signal: Signal::EmptyPatch,
                kind,
                source: self.record.blobs().put(edit.kept().as_bytes()).unwrap(),
                language: Language::default(),
                grants: vec![],
                rationale: "r".into(),
                manifest: None,
            };
            let incumbent = self.record.add_harness(&first).unwrap();
            let mut report = CandidateReport::begun(proposal, change, incumbent);
            let mut with = first;
            with.prompts.system = text;
            report.harness = (change == Change::Add).then(|| with.digest());
            let is_built = kind.is_plugin() && change == Change::Add;
            report.plugin = is_built.then(|| Digest::of(name.as_bytes()));
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
    fn a_prompt_is_due_while_nothing_took_its_place_or_was_written_behind_it() {
        let run = Run::new();
        let first = HarnessManifest::bare().prompts.system;
        let said = format!("{first}\n\nSaid: say.");
        run.publish_prompt(1, &said);
        run.end_edit(1, 0, "say", EditKind::Prompt, Change::Add, Verdict::Accept);
        let check = |text: &str, expected: Option<&str>| {
            run.publish_prompt(2, text);
            run.check(2, 2, 9, &[]);
            let names: &[&str] = if expected.is_some() { &["say"] } else { &[] };
            run.check(3, 2, 9, names);
            let newest = newest_harness(&run.record).unwrap();
            let (.., report) = candidates(&run.record).unwrap().remove(0);
            let without = without(&run.record, &report.proposal, &newest).unwrap();
            assert_eq!(without.map(|manifest| manifest.prompts.system).as_deref(), expected, "{text}");
        };
        check(&said, Some(&first));
        check(&format!("{said}\n\nAnd more."), None);
        check(&format!("{said} And more."), None);
        check("Other.", None);
        check(&first, None);
        check(&said, Some(&first));
        run.end_edit(5, 0, "say", EditKind::Prompt, Change::Remove, Verdict::Reject);
        run.check(6, 2, 9, &[]);
        run.check(7, 2, 9, &["say"]);
        // One name for texts of two prompts: each is tested.
        run.end_edit(5, 1, "say", EditKind::Settings, Change::Add, Verdict::Accept);
        run.check(7, 2, 9, &["say"]);
    }

    #[test]
    fn plugins_of_the_first_harness_and_other_components_of_the_name_are_left_alone() {
        let run = Run::new();
        run.end(1, 0, "rolled-back", Change::Add, Verdict::Accept);
        run.publish(1, &["came-with-the-manifest"]);
        run.check(9, 1, 9, &[]);
    }
}
