//! Holds a hand-in back once when nothing was run since the last edit.
//!
//! Watches commands and tool calls: which change files, which run tests. Fires when the policy
//! hands in a patch and no test ran after the last change, and says what to run. Silent when a
//! test ran since, when nothing was changed or the patch is empty, when the hand-in was deferred
//! before, and when too few turns are left to run anything.
//!
//! Points: `on-tool-result`, `on-submit`. Grants: `state`.

use tandem_plugin::*;

/// Whether running a program of the language counts as a test, for tasks without tests.
const PROGRAMS_COUNT: bool = true; // parameter
/// How often a submission is held back in one episode; the host allows 2.
const MAX_DEFERRALS: u32 = 1; // parameter
/// Turns that must be left after this one.
const MIN_TURNS_LEFT: u64 = 2; // parameter
const ADVICE: &str = "Run the tests of what you changed, or the changed code once if there are none, \
    and hand in again when that is right."; // parameter

/// In `state`: what happened last to the files.
const KEY: &str = "untested";

pub struct Plugin;

impl OnToolResult for Plugin {
    fn on_tool_result(_context: Context, call: ToolCall, outcome: ToolResult) -> Option<ToolResultEffect> {
        let (edits, tests) = match call.command() {
            Some(command) => (edits(&command), tests(&command)),
            None => (edits_by_tool(&call), false),
        };
        // A command that edits and then tests is tested; one that could not run did neither.
        if outcome.status == ToolStatus::Finished && (edits || tests) {
            state::set_number(KEY, u64::from(!tests));
        }
        None
    }
}

export_on_tool_result!(Plugin);

impl OnSubmit for Plugin {
    fn on_submit(context: Context, submission: Submission) -> Option<String> {
        if submission.patch.is_empty() || submission.deferrals >= MAX_DEFERRALS || state::number(KEY) == 0 {
            return None;
        }
        let left = context.budget.turns.limit.map(|limit| limit.saturating_sub(u64::from(context.turn)));
        if left.is_some_and(|left| left < MIN_TURNS_LEFT) {
            return None;
        }
        Some(format!("Nothing was run since the last change. {ADVICE}"))
    }
}

export_on_submit!(Plugin);

/// Whether a command changes files of the work tree.
fn edits(command: &str) -> bool {
    shell::commands(command).iter().any(|command| {
        let program = command.program();
        let in_tree = |path: &String| {
            !path.starts_with("/tmp") && !path.ends_with(".patch") && !path.ends_with(".diff")
        };
        command.writes.iter().any(in_tree)
            || (program == "sed"
                && command
                    .arguments()
                    .iter()
                    .any(|word| word.starts_with("-i") || word.starts_with("--in-place")))
            || (program == "git" && command.has(&["apply", "checkout", "restore", "revert"]))
            || matches!(program, "patch" | "ed" | "ex")
            || (program == "perl"
                && command.arguments().iter().any(|word| word.starts_with("-") && word.contains('i')))
            || (program == "tee" && command.operands().any(|path| !path.starts_with("/tmp")))
    }) || (command.contains("write_text(") || command.contains(", 'w')") || command.contains(", \"w\")"))
}

fn tests(command: &str) -> bool {
    shell::commands(command).iter().any(|command| {
        let program = command.program();
        let runs = (program.starts_with("python")
            && (command.operands().next().is_some() || command.has(&["-c"])))
            || (program == "node" && command.operands().next().is_some())
            || (program == "cargo" && command.has(&["run"]))
            || (program == "go" && command.has(&["run"]));
        shell::runs_tests(command) || (PROGRAMS_COUNT && runs && !command.fed && !writes_in_python(command))
    })
}

/// A script on the command line that is there to write a file.
fn writes_in_python(command: &shell::Command) -> bool {
    command
        .arguments()
        .iter()
        .any(|word| word.contains("write_text(") || word.contains(", 'w')") || word.contains(", \"w\")"))
}

/// Tools of plugins that change files take a `path` and something to write.
fn edits_by_tool(call: &ToolCall) -> bool {
    let has = |key: &str| call.text(key).is_some();
    has("path")
        && (has("new")
            || has("content")
            || (has("text") && call.text("command").as_deref() == Some("insert")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_and_tests_are_told_apart() {
        let check = |command: &str, expected: (bool, bool)| {
            assert_eq!((edits(command), tests(command)), expected, "{command}");
        };
        check("sed -i 's/a/b/' a.py", (true, false));
        check("cat > a.py <<'E'\nx\nE", (true, false));
        check("cat > a.py <<'E'\nx\nE\npython3 a.py", (true, true));
        check("git apply fix.patch", (true, false));
        check("python3 - <<'E'\nopen('a.py', 'w').write('x')\nE", (true, false));
        check("python3 -c \"open('a.py', 'w').write('x')\"", (true, false));
        check("python3 -m pytest -q", (false, true));
        check("python3 a.py", (false, true));
        check("python3 -c 'import a; print(a.f(1))'", (false, true));
        check("cargo test", (false, true));
        check("git diff > /tmp/x.patch", (false, false));
        check("git diff > fix.patch", (false, false));
        check("cat a.py", (false, false));
        check("ls", (false, false));
    }
}
