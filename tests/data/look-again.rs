//! A plugin of the tests: is a patch taken at once? It goes back the first time.

use tandem_plugin::*;
pub struct Plugin;
impl OnSubmit for Plugin {
    fn on_submit(_context: Context, submission: Submission) -> Option<String> {
        (submission.deferrals == 0).then(|| "Look again.".into())
    }
}
export_on_submit!(Plugin);
