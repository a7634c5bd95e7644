//! After the last turn, hands in what is in the work tree if it is small.

use tandem_plugin::*;

pub struct Plugin;

impl OnLimit for Plugin {
    fn on_limit(_context: Context, limit: Limit, work_tree: PatchCandidate) -> bool {
        limit == Limit::Turns && work_tree.applies && !work_tree.is_empty() && work_tree.files.len() <= 5
    }
}

export_on_limit!(Plugin);
