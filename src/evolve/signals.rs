//! What went wrong in the interaction, counted from episodes without a model?
//!
//! Signals are facts of the record. A failed episode whose patch is there,
//! applies and is still wrong has none of them: that is a wrong repair strategy,
//! which is not a matter for the harness.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tandem_host::agent::{EpisodeRecord, Outcome};

use super::symptoms::signals_of;

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
    /// After an edit something did not parse any more.
    BrokenSyntax,
    /// The patch changes tests that were there before.
    TestsEdited,
    /// The patch changes the line endings or the byte order mark of lines and nothing else of them.
    EncodingChanged,
    /// Nothing was run between the last edit and the hand-in.
    UntestedHandIn,
    /// Paths that do not exist were named, twice or more.
    MissingPath,
    /// A command that waits for a person.
    InteractiveCommand,
    /// A command failed with a cause that often passes.
    FlakyCommand,
    /// A failing test run with an output that is long to read.
    LongTestFailure,
    /// Results that are long to read, twice or more.
    LongOutput,
    /// A search that took long, or found more than can be read.
    SlowSearch,
    /// Many looks at files in a row, without a change.
    ManyLooks,
}

impl Signal {
    /// All signals, in the order in which a tie is broken.
    /// What loses the whole work comes first, what costs a few turns last.
    pub const ALL: [Self; 21] = [
        Self::LimitWithEdits,
        Self::EmptyPatch,
        Self::PatchDoesNotApply,
        Self::NewFileMissing,
        Self::LimitWithoutEdits,
        Self::UnknownName,
        Self::BrokenSyntax,
        Self::EncodingChanged,
        Self::TestsEdited,
        Self::FailedEdit,
        Self::FormatError,
        Self::RepeatedCommand,
        Self::CommandTimeout,
        Self::InteractiveCommand,
        Self::FlakyCommand,
        Self::MissingPath,
        Self::LongTestFailure,
        Self::LongOutput,
        Self::SlowSearch,
        Self::ManyLooks,
        Self::UntestedHandIn,
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
            Self::BrokenSyntax => "broken-syntax",
            Self::TestsEdited => "tests-edited",
            Self::EncodingChanged => "encoding-changed",
            Self::UntestedHandIn => "untested-hand-in",
            Self::MissingPath => "missing-path",
            Self::InteractiveCommand => "interactive-command",
            Self::FlakyCommand => "flaky-command",
            Self::LongTestFailure => "long-test-failure",
            Self::LongOutput => "long-output",
            Self::SlowSearch => "slow-search",
            Self::ManyLooks => "many-looks",
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

#[cfg(test)]
mod tests {
    use super::super::testkit::episode;
    use super::*;

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
    fn every_signal_has_its_own_name_as_records_write_it() {
        for signal in Signal::ALL {
            assert_eq!(serde_json::to_value(signal).unwrap(), signal.name());
            assert_eq!(Signal::ALL.iter().filter(|other| **other == signal).count(), 1);
        }
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
