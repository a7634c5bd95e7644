//! Holds an empty patch back, and says how to hand in what is there.
//!
//! Point: `on-submit`. Grants: none.

use tandem_plugin::*;

/// How often an empty patch is held back in one episode; the host allows 2.
const MAX_DEFERRALS: u32 = 2; // parameter
/// How many files are named.
const MAX_FILES: usize = 5; // parameter
const HAND_IN: &str = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && git diff"; // parameter

pub struct Plugin;

impl OnSubmit for Plugin {
    fn on_submit(_context: Context, submission: Submission) -> Option<String> {
        message(&submission)
    }
}

export_on_submit!(Plugin);

fn message(submission: &Submission) -> Option<String> {
    if !submission.patch.is_empty() || submission.deferrals >= MAX_DEFERRALS {
        return None;
    }
    let WorkTree { changed, untracked } = &submission.work_tree;
    let untracked: Vec<String> = untracked.iter().filter(|path| !is_litter(path)).cloned().collect();
    Some(if !changed.is_empty() {
        let files = names(changed);
        format!("Your patch is empty, but you changed {files}. Hand in the difference:\n{HAND_IN}")
    } else if !untracked.is_empty() {
        let files = names(&untracked);
        let first = untracked.first().map(String::as_str).unwrap_or_default();
        format!(
            "Your patch is empty. These files are new, and `git diff` leaves them out: {files}. \
             Name those that belong to the fix, then hand in:\ngit add -N {first}"
        )
    } else {
        "Your patch is empty and no file is changed. Edit the source file that has the fault, \
         check the fix, then hand in."
            .to_owned()
    })
}

/// Files that programs leave behind.
fn is_litter(path: &str) -> bool {
    path.split('/').any(|part| matches!(part, "__pycache__" | ".pytest_cache"))
        || [".pyc", ".log", ".patch", ".diff", "patch.txt"].iter().any(|end| path.ends_with(end))
}

fn names(files: &[String]) -> String {
    let mut text = files.iter().take(MAX_FILES).map(String::as_str).collect::<Vec<_>>().join(", ");
    if files.len() > MAX_FILES {
        text.push_str(&format!(" and {} more", files.len() - MAX_FILES));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(bytes: u64, changed: &[&str], untracked: &[&str], deferrals: u32, expected: Option<&str>) {
        let owned = |paths: &[&str]| paths.iter().map(|path| (*path).to_owned()).collect();
        let submission = Submission {
            patch: PatchCandidate { source: PatchSource::Submitted, bytes, files: vec![], applies: true },
            work_tree: WorkTree { changed: owned(changed), untracked: owned(untracked) },
            deferrals,
        };
        let text = message(&submission);
        match expected {
            None => assert_eq!(text, None),
            Some(part) => assert!(text.as_ref().is_some_and(|text| text.contains(part)), "{text:?}"),
        }
    }

    #[test]
    fn a_patch_with_content_passes() {
        check(10, &["a.py"], &[], 0, None);
        check(1, &[], &[], 0, None);
    }

    #[test]
    fn an_empty_patch_is_held_with_what_is_there() {
        check(0, &["a.py", "b.py"], &["c.py"], 0, Some("you changed a.py, b.py. Hand in"));
        check(0, &[], &["new.py"], 0, Some("git add -N new.py"));
        check(0, &[], &[], 0, Some("no file is changed"));
        check(0, &[], &["pkg/__pycache__/a.pyc", "run.log"], 0, Some("no file is changed"));
        check(0, &["1", "2", "3", "4", "5", "6", "7"], &[], 1, Some("1, 2, 3, 4, 5 and 2 more"));
    }

    #[test]
    fn it_gives_up_after_its_deferrals() {
        check(0, &["a.py"], &[], 2, None);
    }
}
