//! Holds a hand-in back once whose patch changes tests that were there before.
//!
//! Watches submissions. Fires when the patch touches an existing test file: who changes the tests
//! until they pass has not repaired the code, and the tests that judge are others. The policy
//! reads which files and the command that restores them. Silent for new test files, for patches
//! without tests, and when the hand-in was deferred before, so that a task that is about tests
//! can be solved by handing in again.
//!
//! Point: `on-submit`. Grants: none.

use tandem_plugin::*;

/// How often a submission is held back in one episode; the host allows 2.
const MAX_DEFERRALS: u32 = 1; // parameter
/// Files that are named.
const MAX_FILES: usize = 5; // parameter
/// Turns that must be left after this one.
const MIN_TURNS_LEFT: u64 = 1; // parameter

pub struct Plugin;

impl OnSubmit for Plugin {
    fn on_submit(context: Context, submission: Submission) -> Option<String> {
        let left = context.budget.turns.limit.map(|limit| limit.saturating_sub(u64::from(context.turn)));
        if submission.deferrals >= MAX_DEFERRALS || left.is_some_and(|left| left < MIN_TURNS_LEFT) {
            return None;
        }
        // A file that git does not track yet is new, and so is its test.
        let untracked = &submission.work_tree.untracked;
        let files = submission.patch.files.iter().map(String::as_str);
        let tests: Vec<&str> =
            files.filter(|path| is_test(path) && !untracked.iter().any(|new| new == path)).collect();
        message(&tests)
    }
}

export_on_submit!(Plugin);

fn message(tests: &[&str]) -> Option<String> {
    if tests.is_empty() {
        return None;
    }
    let shown = &tests[..tests.len().min(MAX_FILES)];
    let more = match tests.len() - shown.len() {
        0 => String::new(),
        count => format!(" and {count} more"),
    };
    Some(format!(
        "The patch changes tests: {}{more}. Tests say what the code should do, and others will judge it. To restore them: \
         git checkout -- {}. Then hand in again; hand in again as it is only if the task asks for changed tests.",
        shown.join(", "),
        shown.join(" "),
    ))
}

/// Whether a path is that of a test, by the customs of its language.
fn is_test(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let folder =
        path.split('/').rev().skip(1).any(|part| matches!(part, "tests" | "test" | "__tests__" | "spec"));
    let (stem, _) = name.split_once('.').unwrap_or((name, ""));
    let by_name = stem.starts_with("test_")
        || stem.ends_with("_test")
        || stem.ends_with("_spec")
        || name == "conftest.py"
        || name.contains(".test.")
        || name.contains(".spec.");
    let is_code = ["py", "js", "ts", "tsx", "jsx", "mjs", "rs", "go", "java", "rb", "c", "cc", "cpp"]
        .contains(&name.rsplit('.').next().unwrap_or_default());
    is_code && (folder || by_name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_known_by_the_customs_of_their_language() {
        for path in [
            "tests/a.py",
            "pkg/test_a.py",
            "a_test.go",
            "src/a.test.ts",
            "conftest.py",
            "x/__tests__/a.js",
            "tests/common/mod.rs",
        ] {
            assert!(is_test(path), "{path}");
        }
        for path in
            ["src/a.py", "testing.py", "latest.py", "tests/data.json", "contest.go", "src/protest.rs", "test"]
        {
            assert!(!is_test(path), "{path}");
        }
    }

    #[test]
    fn the_message_has_the_command() {
        assert_eq!(message(&[]), None);
        assert!(message(&["a", "b"]).unwrap().contains("git checkout -- a b."));
        assert!(message(&["1", "2", "3", "4", "5", "6"]).unwrap().contains("5 and 1 more."));
    }
}
