//! Holds a patch back once while new files are not part of it.

use tandem_plugin::*;

pub struct Plugin;

impl OnSubmit for Plugin {
    fn on_submit(_context: Context, submission: Submission) -> Option<String> {
        let files = &submission.patch.files;
        let left_out: Vec<&str> =
            submission.work_tree.untracked.iter().filter(|path| !files.contains(path)).map(String::as_str).collect();
        if left_out.is_empty() || submission.deferrals > 0 {
            return None;
        }
        Some(format!("New files are not in the patch: {}. Run `git add -N .` and hand in again.", left_out.join(", ")))
    }
}

export_on_submit!(Plugin);
