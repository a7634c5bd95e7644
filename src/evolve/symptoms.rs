//! By which facts of a record is a signal counted?
//!
//! Every rule is a text that stands in the record, a number or an order of calls: the same
//! record always gives the same signals.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use tandem_host::agent::{CallRecord, EpisodeRecord, Exit};
use tandem_host::harness::ToolStatus;

use super::commands;
use super::signals::Signal;

/// From how many equal commands on an episode counts as going in circles.
const REPEATED: usize = 4;
/// Bytes of a result that is long to read, and how many of them are too many.
const LONG_BYTES: u64 = 8_000;
const LONG_RESULTS: usize = 2;
/// Bytes of a failing test run that is long to read.
const LONG_TEST_BYTES: u64 = 3_000;
/// Seconds of a search that is slow.
const SLOW_SECONDS: f64 = 10.0;
/// Paths that do not exist.
const MISSING_PATHS: usize = 2;
/// Looks in a row.
const MANY_LOOKS: usize = 10;

/// What Python says of a name that does not exist.
const UNKNOWN_NAMES: [&str; 4] =
    ["NameError: name", "has no attribute", "cannot import name", "No module named"];
/// What Python, Node and rustc say of text that does not parse.
const BROKEN_SYNTAX: [&str; 4] = ["SyntaxError:", "IndentationError:", "TabError:", "error: expected "];
/// What programs say of a path that does not exist.
const MISSING_PATH: [&str; 2] = ["No such file or directory", "file or directory not found:"];
/// Causes of failure that often pass.
const FLAKY: [&str; 9] = [
    "Temporary failure in name resolution",
    "Could not resolve host",
    "Could not get lock",
    "index.lock': File exists",
    "Blocking waiting for file lock",
    "database is locked",
    "Connection refused",
    "Connection reset by peer",
    "Resource temporarily unavailable",
];

/// The signals of one episode.
pub(super) fn signals_of(record: &EpisodeRecord) -> BTreeSet<Signal> {
    let mut signals = BTreeSet::new();
    of_the_end(record, &mut signals);
    of_the_patch(&record.patch, &mut signals);
    if record.turns.iter().any(|turn| turn.calls.is_empty()) {
        signals.insert(Signal::FormatError);
    }
    let calls: Vec<Call> = record.turns.iter().flat_map(|turn| &turn.calls).map(Call::of).collect();
    of_single_calls(&calls, &mut signals);
    of_all_calls(&calls, &mut signals);
    let handed_in = record.exit == Exit::Submitted && !record.patch.is_empty();
    if handed_in && untested(&calls) {
        signals.insert(Signal::UntestedHandIn);
    }
    signals
}

/// A call with what its rules ask for.
struct Call<'a> {
    record: &'a CallRecord,
    /// The command line; empty for tools of plugins.
    command: &'a str,
    edits: bool,
}

impl<'a> Call<'a> {
    fn of(record: &'a CallRecord) -> Self {
        let text = |key: &str| record.arguments.get(key).and_then(Value::as_str);
        let command = if record.name == "bash" { text("command").unwrap_or_default() } else { "" };
        let by_tool = record.name != "bash"
            && text("path").is_some()
            && ["new", "text", "content"].iter().any(|key| text(key).is_some());
        Self { record, command, edits: by_tool || commands::edits(command) }
    }

    fn says(&self, marks: &[&str]) -> bool {
        marks.iter().any(|mark| self.record.result.text.contains(mark))
    }

    fn failed(&self) -> bool {
        self.record.result.exit_code.is_some_and(|code| code != 0)
    }
}

fn of_the_end(record: &EpisodeRecord, signals: &mut BTreeSet<Signal>) {
    let tree = &record.work_tree;
    match &record.exit {
        Exit::Limit { salvaged: false, .. } => {
            let dirty = !tree.changed.is_empty() || !tree.untracked.is_empty();
            signals.insert(if dirty { Signal::LimitWithEdits } else { Signal::LimitWithoutEdits });
        }
        Exit::Submitted => {
            if record.patch.is_empty() {
                signals.insert(Signal::EmptyPatch);
            } else if record.submitted_applies == Some(false) && record.patch_source.is_some() {
                signals.insert(Signal::PatchDoesNotApply);
            }
            let patch = String::from_utf8_lossy(&record.patch);
            if tree.untracked.iter().any(|path| !patch.contains(path.as_str())) {
                signals.insert(Signal::NewFileMissing);
            }
        }
        _ => {}
    }
}

fn of_the_patch(patch: &[u8], signals: &mut BTreeSet<Signal>) {
    let lines: Vec<&[u8]> = patch.split(|byte| *byte == b'\n').collect();
    let mut removed: Vec<&[u8]> = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        if let Some(path) = line.strip_prefix(b"--- a/") {
            let path = String::from_utf8_lossy(path);
            if lines.get(at + 1).is_some_and(|next| next.starts_with(b"+++ ")) && is_test(path.trim_end()) {
                signals.insert(Signal::TestsEdited);
            }
            removed.clear();
        } else if let Some(text) = line.strip_prefix(b"-") {
            removed.push(text);
        } else if let Some(text) = line.strip_prefix(b"+") {
            if removed.iter().any(|old| *old != text && bare(old) == bare(text)) {
                signals.insert(Signal::EncodingChanged);
            }
        } else {
            removed.clear();
        }
    }
}

/// A line without its carriage return and byte order mark.
fn bare(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line)
}

/// Whether a path is that of a test, by the customs of its language.
fn is_test(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let stem = name.split('.').next().unwrap_or(name);
    let folder = path.split('/').rev().skip(1).any(|part| matches!(part, "tests" | "test" | "__tests__"));
    folder
        || stem.starts_with("test_")
        || stem.ends_with("_test")
        || name.contains(".test.")
        || name == "conftest.py"
}

/// Rules that one call fulfils by itself, or after an edit.
fn of_single_calls(calls: &[Call], signals: &mut BTreeSet<Signal>) {
    let mut edited = false;
    for call in calls {
        let result = &call.record.result;
        edited |= call.edits;
        let searches = commands::searches(call.command);
        let slow = result.status == ToolStatus::TimedOut
            || call.record.seconds >= SLOW_SECONDS
            || result.raw_bytes > LONG_BYTES;
        let long_tests =
            call.failed() && result.raw_bytes > LONG_TEST_BYTES && commands::runs_tests(call.command);
        for (holds, signal) in [
            (result.status == ToolStatus::TimedOut, Signal::CommandTimeout),
            (call.says(&UNKNOWN_NAMES), Signal::UnknownName),
            (call.failed() && edits_a_file(call.command), Signal::FailedEdit),
            (edited && call.says(&BROKEN_SYNTAX), Signal::BrokenSyntax),
            (commands::waits_for_a_person(call.command), Signal::InteractiveCommand),
            (call.failed() && call.says(&FLAKY), Signal::FlakyCommand),
            (long_tests, Signal::LongTestFailure),
            (searches && slow, Signal::SlowSearch),
        ] {
            if holds {
                signals.insert(signal);
            }
        }
    }
}

/// Rules that count.
fn of_all_calls(calls: &[Call], signals: &mut BTreeSet<Signal>) {
    let mut same: BTreeMap<String, usize> = BTreeMap::new();
    let (mut looks, mut most_looks) = (0, 0);
    for call in calls {
        *same.entry(format!("{} {}", call.record.name, call.record.arguments)).or_default() += 1;
        looks = if commands::looks(call.command) { looks + 1 } else { 0 };
        most_looks = most_looks.max(looks);
    }
    let count = |is: &dyn Fn(&Call) -> bool| calls.iter().filter(|call| is(call)).count();
    let missing = |call: &Call| call.failed() && call.says(&MISSING_PATH);
    for (holds, signal) in [
        (same.values().any(|times| *times >= REPEATED), Signal::RepeatedCommand),
        (count(&|call| call.record.result.raw_bytes > LONG_BYTES) >= LONG_RESULTS, Signal::LongOutput),
        (count(&missing) >= MISSING_PATHS, Signal::MissingPath),
        (most_looks >= MANY_LOOKS, Signal::ManyLooks),
    ] {
        if holds {
            signals.insert(signal);
        }
    }
}

/// Whether nothing was run after the last edit.
fn untested(calls: &[Call]) -> bool {
    let ran = |call: &Call| commands::runs_something(call.command);
    let last_edit = calls.iter().rposition(|call| call.edits);
    let last_run = calls.iter().rposition(ran);
    last_edit.is_some() && last_run < last_edit
}

fn edits_a_file(command: &str) -> bool {
    ["sed -i", "patch ", "git apply", "> ", "tee "].iter().any(|mark| command.contains(mark))
}

#[cfg(test)]
mod tests {
    use tandem_host::harness::{LimitKind, WorkTree};

    use super::super::testkit::{episode, turn};
    use super::*;

    fn check(change: impl Fn(&mut EpisodeRecord), expected: &[Signal]) {
        let mut record = episode("t");
        change(&mut record);
        assert_eq!(signals_of(&record).into_iter().collect::<Vec<_>>(), expected);
    }

    /// An episode of these commands, each with output and exit code.
    fn check_calls(calls: &[(&str, &str, i32)], expected: &[Signal]) {
        let turns: Vec<_> =
            calls.iter().map(|(command, text, code)| turn(command, text, Some(*code))).collect();
        check(|e| e.turns = turns.clone(), expected);
    }

    fn check_patch(patch: &str, expected: &[Signal]) {
        check(|e| e.patch = patch.as_bytes().to_vec(), expected);
    }

    #[test]
    fn how_an_episode_ends_is_counted() {
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
    }

    #[test]
    fn single_calls_are_counted() {
        check(|e| e.turns.push(turn("sleep 9", "", None)), &[Signal::CommandTimeout]);
        check_calls(&[("python3 m.py", "NameError: name 'f'", 1)], &[Signal::UnknownName]);
        check_calls(
            &[("sed -i x m.py", "unknown command", 1), ("python3 m.py", "", 0)],
            &[Signal::FailedEdit],
        );
        check_calls(&[("vim m.py", "", 0)], &[Signal::InteractiveCommand]);
        check_calls(&[("echo 'vim m.py'", "", 0)], &[]);
    }

    #[test]
    fn repeated_commands_are_counted() {
        check_calls(&[("ls", "", 0); 4], &[Signal::RepeatedCommand]);
        check_calls(&[("ls", "", 0); 3], &[]);
    }

    #[test]
    fn syntax_counts_only_after_an_edit() {
        let error = ("python3 m.py", "SyntaxError: invalid syntax", 1);
        check_calls(&[("sed -i s/a/b/ m.py", "", 0), error], &[Signal::BrokenSyntax]);
        check_calls(&[error], &[]);
        check_calls(&[("sed -i s/a/b/ m.py", "", 0), ("python3 m.py", "ok", 0)], &[]);
    }

    #[test]
    fn a_hand_in_without_a_run_since_the_last_edit_is_counted() {
        let (edit, test) = (("sed -i s/a/b/ m.py", "", 0), ("python3 -m pytest", "", 1));
        check_calls(&[test, edit], &[Signal::UntestedHandIn]);
        check_calls(&[edit], &[Signal::UntestedHandIn]);
        check_calls(&[edit, test], &[]);
        check_calls(&[edit, ("python3 m.py", "", 0)], &[]);
        check_calls(&[test], &[]);
        let stopped = Exit::Limit { limit: LimitKind::Turns, salvaged: true };
        check(
            |e| {
                e.turns.push(turn("sed -i s/a/b/ m.py", "", Some(0)));
                e.exit = stopped.clone();
            },
            &[],
        );
    }

    #[test]
    fn missing_paths_are_counted_from_the_second_on() {
        let missing = ("cat a.py", "cat: a.py: No such file or directory", 1);
        let other = ("cat b.py", "cat: b.py: No such file or directory", 1);
        check_calls(&[missing, other], &[Signal::MissingPath]);
        check_calls(&[missing], &[]);
        check_calls(&[("cat a.py || true", missing.1, 0), ("cat b.py || true", other.1, 0)], &[]);
    }

    #[test]
    fn causes_that_pass_are_counted_where_they_fail_a_command() {
        check_calls(&[("git status", "fatal: database is locked", 1)], &[Signal::FlakyCommand]);
        check_calls(&[("cat log", "database is locked", 0)], &[]);
        check_calls(&[("git status", "fatal: not a repository", 1)], &[]);
    }

    #[test]
    fn long_results_are_counted() {
        let long = "x".repeat(LONG_BYTES as usize + 1);
        let short = "x".repeat(LONG_TEST_BYTES as usize);
        check_calls(&[("make", &long, 0), ("make all", &long, 0)], &[Signal::LongOutput]);
        check_calls(&[("make", &long, 0), ("make all", &short, 0)], &[]);
        check_calls(&[("python3 -m pytest", &long, 1)], &[Signal::LongTestFailure]);
        check_calls(&[("python3 -m pytest", &long, 0)], &[]);
        check_calls(&[("python3 -m pytest", &short, 1)], &[]);
        check_calls(&[("grep -rn x .", &long, 0)], &[Signal::SlowSearch]);
        check_calls(&[("grep -rn x .", &short, 0)], &[]);
        check_calls(&[("cat a.py", &long, 0)], &[]);
    }

    #[test]
    fn a_search_that_takes_long_is_counted() {
        let slow = |command: &str, seconds: f64| {
            let mut slow = turn(command, "", Some(0));
            slow.calls[0].seconds = seconds;
            slow
        };
        check(|e| e.turns.push(slow("find . -name x", 12.0)), &[Signal::SlowSearch]);
        check(|e| e.turns.push(slow("find . -name x", 1.0)), &[]);
        check(|e| e.turns.push(slow("make", 12.0)), &[]);
    }

    #[test]
    fn looks_in_a_row_are_counted() {
        let files: Vec<String> = (0..MANY_LOOKS).map(|at| format!("cat {at}.py")).collect();
        let mut calls: Vec<(&str, &str, i32)> = files.iter().map(|line| (line.as_str(), "", 0)).collect();
        check_calls(&calls, &[Signal::ManyLooks]);
        calls[5] = ("python3 a.py", "", 0);
        check_calls(&calls, &[]);
    }

    #[test]
    fn the_patch_shows_edited_tests_and_changed_encodings() {
        check_patch("--- a/m.py\n+++ b/m.py\n@@ -1 +1 @@\n-a\n+b\n", &[]);
        check_patch(
            "--- a/tests/test_m.py\n+++ b/tests/test_m.py\n@@ -1 +1 @@\n-a\n+b\n",
            &[Signal::TestsEdited],
        );
        check_patch("--- /dev/null\n+++ b/tests/test_new.py\n@@ -0,0 +1 @@\n+b\n", &[]);
        check_patch("--- a/m.py\n+++ b/m.py\n@@ -1 +1 @@\n-a\r\n+a\n", &[Signal::EncodingChanged]);
        check_patch("--- a/m.py\n+++ b/m.py\n@@ -1 +1 @@\n-\u{feff}a\n+a\n", &[Signal::EncodingChanged]);
        check_patch("--- a/m.py\n+++ b/m.py\n@@ -1 +1 @@\n-a\r\n+b\r\n", &[]);
        check_patch("--- a/m.py\n+++ b/m.py\n@@ -1 +1 @@\n-a\n b\n+a\r\n", &[]);
    }
}
