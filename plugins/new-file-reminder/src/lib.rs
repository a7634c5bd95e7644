//! Reminds of new files that a patch leaves out, with the `git add -N` advice.
//!
//! Points: `on-submit`, `on-tool-result`. Grants: `workspace-read`, to see new
//! files when the policy looks at its difference.

use tandem_plugin::*;

/// How often a submission is held back in one episode; the host allows 2.
const MAX_DEFERRALS: u32 = 1; // parameter
/// How many files are named.
const MAX_FILES: usize = 5; // parameter
/// Say it also when the policy runs `git diff`, before it hands in.
const AT_GIT_DIFF: bool = true; // parameter

pub struct Plugin;

impl OnSubmit for Plugin {
    fn on_submit(_context: Context, submission: Submission) -> Option<String> {
        if submission.deferrals >= MAX_DEFERRALS {
            return None;
        }
        let left_out = left_out(&submission.work_tree.untracked, |path| {
            submission.patch.files.iter().any(|file| file == path)
        });
        let advice = advice(&left_out)?;
        Some(format!("{advice} Then hand in again. If none belongs to the fix, hand in again as it is."))
    }
}

export_on_submit!(Plugin);

impl OnToolResult for Plugin {
    fn on_tool_result(_context: Context, call: ToolCall, outcome: ToolResult) -> Option<ToolResultEffect> {
        if !AT_GIT_DIFF || outcome.exit_code != Some(0) || !shows_difference(&call.arguments) {
            return None;
        }
        let untracked = workspace::untracked().ok()?;
        let left_out = left_out(&untracked, |path| outcome.text.contains(path));
        advice(&left_out).map(ToolResultEffect::Annotate)
    }
}

export_on_tool_result!(Plugin);

/// Whether a command of `bash` is there to show the whole difference.
fn shows_difference(arguments: &str) -> bool {
    let Ok(arguments) = json::parse(arguments) else { return false };
    let command = arguments.get("command").and_then(json::Value::as_str).unwrap_or_default();
    let hands_in = command.contains("COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT");
    command.contains("git diff") && !command.contains("git add") && !hands_in
}

/// New files that are not in the patch, without what programs and helpers leave behind.
fn left_out(untracked: &[String], in_patch: impl Fn(&str) -> bool) -> Vec<&str> {
    untracked.iter().map(String::as_str).filter(|path| !is_litter(path) && !in_patch(path)).collect()
}

fn is_litter(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    path.split('/').any(|part| matches!(part, "__pycache__" | ".pytest_cache" | "build" | "dist"))
        || [".pyc", ".log", ".patch", ".diff", ".orig", ".rej", ".tmp", "patch.txt"]
            .iter()
            .any(|end| name.ends_with(end))
        || ["repro", "reproduce", "debug", "tmp", "scratch"].iter().any(|start| name.starts_with(start))
}

fn advice(files: &[&str]) -> Option<String> {
    if files.is_empty() {
        return None;
    }
    let shown = &files[..files.len().min(MAX_FILES)];
    let more = match files.len() - shown.len() {
        0 => String::new(),
        count => format!(" and {count} more"),
    };
    Some(format!(
        "`git diff` leaves out new files: {}{more}. For those that belong to the fix run: git add -N {}.",
        shown.join(", "),
        shown.join(" "),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_left_out(untracked: &[&str], patch: &[&str], expected: &[&str]) {
        let untracked: Vec<String> = untracked.iter().map(|path| (*path).to_owned()).collect();
        assert_eq!(left_out(&untracked, |path| patch.contains(&path)), expected);
    }

    #[test]
    fn new_files_outside_the_patch_are_found() {
        check_left_out(&["pkg/new.py"], &["pkg/a.py"], &["pkg/new.py"]);
        check_left_out(&["pkg/new.py"], &["pkg/new.py"], &[]);
        check_left_out(&[], &[], &[]);
    }

    #[test]
    fn litter_is_not_named() {
        check_left_out(
            &["a/__pycache__/b.pyc", "x.log", "fix.patch", "reproduce_bug.py", "patch.txt"],
            &[],
            &[],
        );
        check_left_out(&["builder.py", "logs.py"], &[], &["builder.py", "logs.py"]);
    }

    #[test]
    fn the_advice_is_one_command() {
        assert_eq!(advice(&[]), None);
        assert_eq!(
            advice(&["a.py", "b.py"]).unwrap(),
            "`git diff` leaves out new files: a.py, b.py. For those that belong to the fix run: git add -N a.py b.py."
        );
        assert!(advice(&["1", "2", "3", "4", "5", "6"]).unwrap().contains("5 and 1 more."));
    }

    #[test]
    fn only_a_look_at_the_difference_counts() {
        let check = |command: &str, expected| {
            let arguments = format!("{{\"command\":{}}}", json::quote(command));
            assert_eq!(shows_difference(&arguments), expected, "{command}");
        };
        check("git diff", true);
        check("cd pkg && git diff --stat", true);
        check("git add -N new.py && git diff", false);
        check("echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && git diff", false);
        check("cat a.py", false);
        assert!(!shows_difference("not json"));
    }
}
