//! What went wrong in the interaction, counted from episodes without a model?
//!
//! Signals are facts of the record. A failed episode whose patch is there,
//! applies and is still wrong has none of them: that is a wrong repair strategy,
//! which is not a matter for the harness.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use tandem_host::agent::{EpisodeRecord, Exit, Outcome};
use tandem_host::harness::ToolStatus;

/// One kind of interaction trouble.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Signal {
    /// A limit ended the episode while the work tree held changes that nobody handed in.
    LimitWithEdits,
    /// A limit ended the episode and nothing had been changed.
    LimitWithoutEdits,
    /// The policy handed in an empty patch.
    EmptyPatch,
    /// The text that the policy handed in does not apply to the base commit.
    PatchDoesNotApply,
    /// A new file in the work tree is not in the patch that was handed in.
    NewFileMissing,
    /// A reply without exactly one action.
    FormatError,
    /// The same command, four times or more.
    RepeatedCommand,
    /// A command was stopped at its time limit.
    CommandTimeout,
    /// A name that does not exist was called or imported.
    UnknownName,
    /// A command that edits a file failed or changed nothing.
    FailedEdit,
}

impl Signal {
    /// All signals, in the order in which a tie is broken.
    pub const ALL: [Self; 10] = [
        Self::LimitWithEdits,
        Self::EmptyPatch,
        Self::PatchDoesNotApply,
        Self::NewFileMissing,
        Self::LimitWithoutEdits,
        Self::UnknownName,
        Self::FailedEdit,
        Self::FormatError,
        Self::RepeatedCommand,
        Self::CommandTimeout,
    ];

    /// The name in records and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::LimitWithEdits => "limit-with-edits",
            Self::LimitWithoutEdits => "limit-without-edits",
            Self::EmptyPatch => "empty-patch",
            Self::PatchDoesNotApply => "patch-does-not-apply",
            Self::NewFileMissing => "new-file-missing",
            Self::FormatError => "format-error",
            Self::RepeatedCommand => "repeated-command",
            Self::CommandTimeout => "command-timeout",
            Self::UnknownName => "unknown-name",
            Self::FailedEdit => "failed-edit",
        }
    }
}

/// The signals of a set of episodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Diagnosis {
    /// Valid episodes that were looked at.
    pub episodes: usize,
    /// Those that did not solve their task.
    pub failed: usize,
    /// Failed episodes without any signal: the patch's idea was wrong.
    pub strategy: usize,
    /// For each signal, the tasks on which it was seen and in how many episodes.
    pub signals: BTreeMap<Signal, BTreeMap<String, usize>>,
}

impl Diagnosis {
    /// Signals seen on at least `min_tasks` tasks, most episodes first. A signal
    /// of one task is that task's matter, not the harness's.
    pub fn recurring(&self, min_tasks: usize) -> Vec<(Signal, usize)> {
        let mut found: Vec<_> = Signal::ALL
            .into_iter()
            .filter_map(|signal| {
                let tasks = self.signals.get(&signal)?;
                (tasks.len() >= min_tasks).then(|| (signal, tasks.values().sum::<usize>()))
            })
            .collect();
        // The sort is stable, so equal counts stay in the order of `ALL`.
        found.sort_by_key(|(_, episodes)| std::cmp::Reverse(*episodes));
        found
    }
}

/// Counts the signals of the failed episodes among `records`. Invalid episodes say nothing.
pub fn diagnose<'a>(records: impl IntoIterator<Item = &'a EpisodeRecord>) -> Diagnosis {
    let mut diagnosis = Diagnosis::default();
    for record in records {
        match record.outcome {
            Outcome::Invalid(_) => continue,
            Outcome::Solved => diagnosis.episodes += 1,
            Outcome::Unsolved => {
                diagnosis.episodes += 1;
                diagnosis.failed += 1;
                let signals = signals_of(record);
                if signals.is_empty() {
                    diagnosis.strategy += 1;
                }
                for signal in signals {
                    *diagnosis.signals.entry(signal).or_default().entry(record.task.clone()).or_default() +=
                        1;
                }
            }
        }
    }
    diagnosis
}

fn signals_of(record: &EpisodeRecord) -> BTreeSet<Signal> {
    let mut signals = BTreeSet::new();
    let dirty = !record.work_tree.changed.is_empty() || !record.work_tree.untracked.is_empty();
    match &record.exit {
        Exit::Limit { salvaged: false, .. } => {
            signals.insert(if dirty { Signal::LimitWithEdits } else { Signal::LimitWithoutEdits });
        }
        Exit::Submitted => {
            if record.patch.is_empty() {
                signals.insert(Signal::EmptyPatch);
            } else if record.submitted_applies == Some(false) && record.patch_source.is_some() {
                signals.insert(Signal::PatchDoesNotApply);
            }
            let patch = String::from_utf8_lossy(&record.patch);
            if record.work_tree.untracked.iter().any(|path| !patch.contains(path.as_str())) {
                signals.insert(Signal::NewFileMissing);
            }
        }
        _ => {}
    }
    let mut commands: BTreeMap<String, usize> = BTreeMap::new();
    for turn in &record.turns {
        if turn.calls.is_empty() {
            signals.insert(Signal::FormatError);
        }
        for call in &turn.calls {
            *commands.entry(format!("{} {}", call.name, call.arguments)).or_default() += 1;
            if call.result.status == ToolStatus::TimedOut {
                signals.insert(Signal::CommandTimeout);
            }
            if UNKNOWN_NAMES.iter().any(|mark| call.result.text.contains(mark)) {
                signals.insert(Signal::UnknownName);
            }
            if call.result.exit_code.is_some_and(|code| code != 0) && edits_a_file(&call.arguments) {
                signals.insert(Signal::FailedEdit);
            }
        }
    }
    if commands.values().any(|times| *times >= REPEATED) {
        signals.insert(Signal::RepeatedCommand);
    }
    signals
}

/// From how many equal commands on an episode counts as going in circles.
const REPEATED: usize = 4;

/// What Python says of a name that does not exist.
const UNKNOWN_NAMES: [&str; 4] =
    ["NameError: name", "has no attribute", "cannot import name", "No module named"];

fn edits_a_file(arguments: &serde_json::Value) -> bool {
    let command = arguments.get("command").and_then(|command| command.as_str()).unwrap_or_default();
    ["sed -i", "patch ", "git apply", "> ", "tee "].iter().any(|mark| command.contains(mark))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_host::agent::{CallRecord, TurnRecord};
    use tandem_host::harness::{LimitKind, PatchSource, ToolResult, WorkTree};
    use tandem_host::policy::{Message, Role};
    use tandem_host::store::Digest;

    fn episode(task: &str) -> EpisodeRecord {
        EpisodeRecord {
            id: "e".into(),
            task: task.into(),
            seed: 0,
            policy: "p".into(),
            policy_version: 0,
            harness: Digest::of(b"h"),
            turns: vec![turn("ls", "", Some(0))],
            segments: vec![],
            effects: vec![],
            faults: vec![],
            exit: Exit::Submitted,
            patch_source: Some(PatchSource::Submitted),
            patch: b"diff --git a/m.py b/m.py\n".to_vec(),
            work_tree: WorkTree { changed: vec!["m.py".into()], untracked: vec![] },
            submitted_applies: Some(true),
            outcome: Outcome::Unsolved,
            seconds: 0.0,
        }
    }

    fn turn(command: &str, text: &str, exit_code: Option<i32>) -> TurnRecord {
        TurnRecord {
            input: vec![],
            reply: Message::new(Role::Assistant, ""),
            policy_version: 0,
            sampled_tokens: 1,
            calls: vec![CallRecord {
                name: "bash".into(),
                arguments: serde_json::json!({ "command": command }),
                result: ToolResult {
                    status: if exit_code.is_none() { ToolStatus::TimedOut } else { ToolStatus::Finished },
                    exit_code,
                    text: text.into(),
                    raw_bytes: text.len() as u64,
                },
                seconds: 0.0,
            }],
        }
    }

    fn check(change: impl Fn(&mut EpisodeRecord), expected: &[Signal]) {
        let mut record = episode("t");
        change(&mut record);
        assert_eq!(signals_of(&record).into_iter().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn each_kind_of_trouble_has_its_signal() {
        let limit = |salvaged| Exit::Limit { limit: LimitKind::Turns, salvaged };
        check(|_| {}, &[]);
        check(|e| e.exit = limit(false), &[Signal::LimitWithEdits]);
        check(|e| e.exit = limit(true), &[]);
        check(
            |e| {
                e.exit = limit(false);
                e.work_tree = WorkTree::default();
            },
            &[Signal::LimitWithoutEdits],
        );
        check(|e| e.patch.clear(), &[Signal::EmptyPatch]);
        check(|e| e.submitted_applies = Some(false), &[Signal::PatchDoesNotApply]);
        check(|e| e.work_tree.untracked = vec!["new.py".into()], &[Signal::NewFileMissing]);
        check(|e| e.turns[0].calls.clear(), &[Signal::FormatError]);
        check(|e| e.turns = vec![turn("ls", "", Some(0)); 4], &[Signal::RepeatedCommand]);
        check(|e| e.turns = vec![turn("ls", "", Some(0)); 3], &[]);
        check(|e| e.turns.push(turn("sleep 9", "", None)), &[Signal::CommandTimeout]);
        check(|e| e.turns.push(turn("python3 m.py", "NameError: name 'f'", Some(1))), &[Signal::UnknownName]);
        check(|e| e.turns.push(turn("sed -i x m.py", "unknown command", Some(1))), &[Signal::FailedEdit]);
    }

    #[test]
    fn a_signal_of_one_task_is_not_recurring() {
        let mut one = episode("a");
        one.patch.clear();
        let mut other = episode("b");
        other.patch.clear();
        let alone = diagnose([&one, &one]);
        assert_eq!(alone.recurring(2), []);
        let both = diagnose([&one, &other]);
        assert_eq!(both.recurring(2), [(Signal::EmptyPatch, 2)]);
    }

    #[test]
    fn invalid_episodes_say_nothing() {
        let mut record = episode("a");
        record.patch.clear();
        record.outcome = Outcome::Invalid(tandem_host::agent::InvalidCause::Workspace);
        assert_eq!(diagnose([&record]), Diagnosis::default());
    }

    #[test]
    fn a_wrong_idea_counts_as_strategy() {
        let record = episode("a");
        let diagnosis = diagnose([&record]);
        assert_eq!((diagnosis.failed, diagnosis.strategy), (1, 1));
    }
}
