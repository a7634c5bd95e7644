//! How does a run's harness history reach the ledger in its folder?
//!
//! The run record decides what was published; the ledger follows it. An entry carries the id of
//! its gate as key, so that writing it again after a kill writes nothing: whatever instant the
//! program ends at, the next start adds what is missing, in order, exactly once.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;
use tandem_host::harness::{Base, HarnessHome, NewEntry, PublicationKind};
use tandem_host::store::Digest;

use super::record::RunRecord;
use super::reports::{Change, candidates};
use super::steps::{HOLDOUT, HoldoutReport};
use crate::evolve::EditKind;

/// The key and actor of the first harness, which no gate let in.
const FIRST: &str = "campaign";

/// Brings the ledger of the run folder up to the run record.
pub fn keep_ledger(run: &Path, record: &RunRecord) -> Result<()> {
    let publications = record.publications()?;
    let Some(first) = publications.first() else { return Ok(()) };
    let home = HarnessHome::create(run)?;
    let publish = |new: Entry| {
        let Entry { key, reason, harness, sources, kind } = new;
        home.publish(
            NewEntry { kind, actor: key.clone(), reason, harness, sources, key: Some(key) },
            Base::Any,
        )
    };
    let kind = PublicationKind::Publish;
    let (key, reason, harness) = (FIRST.to_owned(), first.reason.clone(), first.digest);
    publish(Entry { key, reason, harness, sources: BTreeMap::new(), kind })?;
    for entry in entries(record)? {
        publish(entry)?;
    }
    Ok(())
}

/// What the ledger says of one publication.
struct Entry {
    key: String,
    reason: String,
    harness: Digest,
    sources: BTreeMap<String, Digest>,
    kind: PublicationKind,
}

/// The publications of gates and of the hold-out, in the order in which they happened.
fn entries(record: &RunRecord) -> Result<Vec<Entry>> {
    let mut all: Vec<((u32, usize), Entry)> = Vec::new();
    for (round, index, report) in candidates(record)? {
        let Some(harness) = report.harness.filter(|_| report.accepted()) else { continue };
        let proposal = &report.proposal;
        let sources = match (report.change, proposal.kind) {
            (Change::Add, EditKind::Plugin) => BTreeMap::from([(proposal.name.clone(), proposal.source)]),
            _ => BTreeMap::new(),
        };
        let reason = format!("{}: {}; {}", report.name(), proposal.rationale, report.verdict());
        let kind = PublicationKind::Publish;
        let entry = Entry { key: gate_id(round, index), reason, harness, sources, kind };
        all.push(((round, index), entry));
    }
    for (round, _, report) in record.phases::<HoldoutReport>(HOLDOUT)? {
        if report.rolled_back {
            let reason = "the hold-out says that the harness got worse".to_owned();
            let (key, kind) = (format!("r{round}/{HOLDOUT}"), PublicationKind::Activate);
            let entry = Entry { key, reason, harness: report.before, sources: BTreeMap::new(), kind };
            // The hold-out is asked after the gates of its round.
            all.push(((round, usize::MAX), entry));
        }
    }
    all.sort_by_key(|(place, _)| *place);
    Ok(all.into_iter().map(|(_, entry)| entry).collect())
}

/// The id of a gate: of candidate `index` (from 0) in round `round`. Its groups start with it.
pub fn gate_id(round: u32, index: usize) -> String {
    format!("r{round}/gate{index}")
}

/// The id of the gate whose candidate's report is the phase `phase`.
pub fn gate_id_of(round: u32, phase: &str) -> Option<String> {
    let index = phase.strip_prefix("candidate-")?.parse().ok()?;
    Some(gate_id(round, index))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_host::harness::{HarnessManifest, LedgerEntry, Limits};

    use crate::campaign::record::Publication;
    use crate::campaign::reports::{CandidateReport, ProposalRow};
    use crate::evolve::{ArmCounts, GateConfig, PairedTask, PairedTest, Signal, Verdict};
    use tandem_host::forge::Language;

    fn harness(record: &RunRecord, turns: u64) -> Digest {
        let limits = Limits { turns, ..Limits::default() };
        record.add_harness(&HarnessManifest { limits, ..HarnessManifest::bare() }).unwrap()
    }

    /// A run whose first harness is published.
    fn run() -> (tempfile::TempDir, RunRecord) {
        let dir = tempfile::tempdir().unwrap();
        let record = RunRecord::open(dir.path()).unwrap();
        let digest = harness(&record, 3);
        record.publish(&Publication { round: 0, digest, reason: "the first harness".into() }).unwrap();
        (dir, record)
    }

    /// Ends a real gate in which the candidate solved what the incumbent did not, or the reverse.
    fn end_gate(record: &RunRecord, round: u32, index: usize, better: bool) {
        let config = serde_json::json!({"rule": "paper", "tasks": 1, "group_size": 2});
        let config: GateConfig = serde_json::from_value(config).unwrap();
        let mut test = PairedTest::new(config, 1);
        let counts = |solved| ArmCounts { solved, rollouts: 2 };
        let (incumbent, candidate) = if better { (counts(0), counts(1)) } else { (counts(1), counts(0)) };
        test.push(PairedTask { task: "a".into(), incumbent, candidate });
        let gate = test.report();
        assert_eq!(gate.verdict == Verdict::Accept, better);
        let digest = harness(record, 100 * u64::from(round) + index as u64);
        let report = CandidateReport {
            change: Default::default(),
            saved: None,
            proposal: ProposalRow {
                name: format!("plugin-{index}"),
                signal: Signal::LimitWithEdits,
                kind: EditKind::Plugin,
                source: Digest::of(format!("source {round} {index}").as_bytes()),
                language: Language::default(),
                manifest: None,
                grants: vec![],
                rationale: "work that a limit cut off is handed in".into(),
            },
            plugin: Some(Digest::of(b"component")),
            incumbent: digest,
            harness: Some(digest),
            build_seconds: 0.2,
            refused: None,
            gate: Some(gate),
        };
        let publication = Publication { round, digest, reason: "added".into() };
        let phase = format!("candidate-{index}");
        record.end_gate(round, &phase, &report, better.then_some(&publication)).unwrap();
    }

    fn log(dir: &tempfile::TempDir) -> Vec<LedgerEntry> {
        HarnessHome::open(dir.path()).unwrap().log().unwrap()
    }

    #[test]
    fn a_run_killed_between_record_and_ledger_writes_each_publication_once() {
        let (dir, record) = run();
        keep_ledger(dir.path(), &record).unwrap();
        end_gate(&record, 1, 0, true);
        // Killed here: the record has it, the ledger does not. The next start adds it.
        assert_eq!(log(&dir).len(), 1);
        keep_ledger(dir.path(), &record).unwrap();
        keep_ledger(dir.path(), &record).unwrap();
        end_gate(&record, 1, 1, false);
        end_gate(&record, 2, 0, true);
        keep_ledger(dir.path(), &record).unwrap();
        let log = log(&dir);
        let actors: Vec<_> = log.iter().map(|entry| entry.actor.as_str()).collect();
        assert_eq!(actors, ["campaign", "r1/gate0", "r2/gate0"]);
        let published: Vec<_> = record.publications().unwrap().iter().map(|row| row.digest).collect();
        assert_eq!(log.iter().map(|entry| entry.harness).collect::<Vec<_>>(), published);
        assert!(
            log[1]
                .reason
                .starts_with("plugin-0: work that a limit cut off is handed in; accepted and published: "),
            "{}",
            log[1].reason
        );
    }

    #[test]
    fn the_tenth_candidate_comes_after_the_second() {
        let (dir, record) = run();
        for index in [2, 10] {
            end_gate(&record, 1, index, true);
        }
        keep_ledger(dir.path(), &record).unwrap();
        let actors: Vec<_> = log(&dir).into_iter().map(|entry| entry.actor).collect();
        assert_eq!(actors, ["campaign", "r1/gate2", "r1/gate10"]);
    }
}
