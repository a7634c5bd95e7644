//! Which mechanisms does the catalog have, and which of them answer which signal?
//!
//! Two tables. What a mechanism does, when it fires and when it is silent stands at the head of
//! its source and in the cases beside it.

use super::signals::Signal::{self, *};

/// A first-party plugin that the catalog may propose.
pub(super) struct Mechanism {
    /// Its folder in `plugins/`, and its name in a harness manifest.
    pub name: &'static str,
    /// One Rust file.
    pub source: &'static str,
    /// Capabilities that it asks for, exactly.
    pub grants: &'static [&'static str],
}

/// An answer to a signal: a mechanism with some of its parameters set.
pub(super) struct Answer {
    pub signal: Signal,
    pub mechanism: &'static str,
    /// Names of `// parameter` lines and their values as Rust writes them.
    pub parameters: &'static [(&'static str, &'static str)],
    /// Why it should help, in words that go on after the mechanism's name.
    pub rationale: &'static str,
}

macro_rules! mechanisms {
    ($($name:literal $grants:expr,)*) => {
        &[$(Mechanism {
            name: $name,
            source: include_str!(concat!("../../plugins/", $name, "/src/lib.rs")),
            grants: &$grants,
        }),*]
    };
}

pub(super) const MECHANISMS: &[Mechanism] = mechanisms![
    "budget-warning" [],
    "check-names" ["workspace-read"],
    "edit" ["workspace-read", "workspace-write"],
    "encoding-guard" ["state", "workspace-read"],
    "fold-output" ["settings"],
    "format-help" [],
    "hold-empty-patch" [],
    "interactive-guard" [],
    "lint-after-edit" ["exec", "state", "workspace-read"],
    "new-file-reminder" ["workspace-read"],
    "no-test-edits" [],
    "outline" ["workspace-read"],
    "path-hint" ["workspace-read"],
    "remind-tests" ["state"],
    "rescue-patch" [],
    "retry-flaky" ["exec", "state"],
    "search" ["workspace-read"],
    "stop-repeats" ["state"],
    "test-summary" [],
    "timeout-advice" [],
];

macro_rules! answers {
    ($($signal:ident: $mechanism:literal $([$($parameter:literal = $value:literal),*])? $rationale:literal,)*) => {
        &[$(Answer {
            signal: $signal,
            mechanism: $mechanism,
            parameters: &[$($(($parameter, $value)),*)?],
            rationale: $rationale,
        }),*]
    };
}

/// For each signal the answers to try, in this order: what needs no words first, then the words
/// that cost least, then the same mechanism with other parameters.
pub(super) const ANSWERS: &[Answer] = answers![
    LimitWithEdits: "rescue-patch"
        "work that a limit cut off is handed in instead of lost",
    LimitWithEdits: "budget-warning" ["TURNS_LEFT" = "1"]
        "the policy learns in time that it must hand in",
    LimitWithoutEdits: "budget-warning" ["TURNS_LEFT" = "2"]
        "the policy learns in time that it must change something",
    LimitWithoutEdits: "outline"
        "the place to change is found with fewer looks",
    EmptyPatch: "rescue-patch"
        "changes in the work tree are handed in when the patch is empty",
    EmptyPatch: "hold-empty-patch"
        "an empty patch goes back to the policy once",
    PatchDoesNotApply: "rescue-patch"
        "the work tree is handed in when the patch does not apply",
    NewFileMissing: "new-file-reminder"
        "`git add -N` brings new files into the patch",
    UnknownName: "check-names"
        "names that do not exist are pointed out before the hand-in",
    UnknownName: "outline"
        "the names that do exist are one call away",
    BrokenSyntax: "lint-after-edit"
        "an edit that breaks the syntax is pointed out at once, with line and message",
    BrokenSyntax: "edit"
        "an edit tool replaces exact text, where a stream editor cuts blindly",
    EncodingChanged: "encoding-guard"
        "changed line endings are pointed out with the command that restores them",
    TestsEdited: "no-test-edits"
        "a patch that changes tests instead of code goes back to the policy once",
    FailedEdit: "edit"
        "an edit tool whose errors say what to do",
    FormatError: "format-help"
        "the policy reads its own command in the form that runs",
    RepeatedCommand: "stop-repeats" ["STOP" = "false"]
        "a note says that repeating will not help",
    RepeatedCommand: "stop-repeats"
        "an episode that goes in circles ends before it costs every turn",
    CommandTimeout: "timeout-advice"
        "advice that fits the command keeps it from timing out again",
    CommandTimeout: "interactive-guard"
        "commands that wait for a person are refused before they cost their time limit",
    InteractiveCommand: "interactive-guard"
        "the policy learns the form that does not wait for a person",
    FlakyCommand: "retry-flaky"
        "what fails by chance is run again without costing a turn",
    FlakyCommand: "retry-flaky" ["RETRIES" = "3", "WAIT_SECONDS" = "2"]
        "what fails by chance is given more time to pass",
    MissingPath: "path-hint"
        "the path that was meant is named in the same turn",
    MissingPath: "search"
        "a search finds files by what is in them, not by a guessed path",
    LongTestFailure: "test-summary"
        "failed tests and their errors are read without the noise around them",
    LongTestFailure: "test-summary" ["MIN_LINES" = "20", "FIRST_LINES" = "25"]
        "shorter runs are summed up too, with more of the first report",
    LongOutput: "fold-output"
        "long output no longer crowds out what matters",
    LongOutput: "fold-output" ["MAX_LINES" = "40", "HEAD" = "10", "TAIL" = "15"]
        "output is folded earlier",
    SlowSearch: "search"
        "a search that is capped and skips the repository's own data",
    SlowSearch: "fold-output"
        "long lists of matches are folded",
    ManyLooks: "outline"
        "one outline stands for many looks into files",
    ManyLooks: "search" ["CONTEXT" = "4"]
        "matches come with the lines around them, so that no second look is needed",
    UntestedHandIn: "remind-tests"
        "a change that nobody ran goes back to the policy once",
    UntestedHandIn: "remind-tests" ["PROGRAMS_COUNT" = "false"]
        "only tests count as a check",
];
