//! Hands in the work tree when the patch that the policy handed in is no use.
//!
//! Points: `on-choose-patch`, `on-limit`. Grants: none.

use tandem_plugin::*;

/// Choose the work tree also when the submitted patch is empty.
const RESCUE_EMPTY: bool = true; // parameter
/// Hand in the work tree when a limit ended the episode.
const SALVAGE_AT_LIMIT: bool = true; // parameter
/// A work tree with more changed files than this is litter rather than a fix.
const MAX_FILES: usize = 20; // parameter

pub struct Plugin;

impl OnChoosePatch for Plugin {
    fn on_choose_patch(_context: Context, candidates: Vec<PatchCandidate>) -> Option<u32> {
        choose(&candidates)
    }
}

export_on_choose_patch!(Plugin);

impl OnLimit for Plugin {
    fn on_limit(_context: Context, _limit: Limit, work_tree: PatchCandidate) -> bool {
        SALVAGE_AT_LIMIT && is_usable(&work_tree)
    }
}

export_on_limit!(Plugin);

/// The work tree's index, if the submitted patch is no use and the work tree is.
fn choose(candidates: &[PatchCandidate]) -> Option<u32> {
    let submitted = candidates.iter().find(|patch| patch.source == PatchSource::Submitted)?;
    let is_lost = if submitted.is_empty() { RESCUE_EMPTY } else { !submitted.applies };
    if !is_lost {
        return None;
    }
    let usable = |patch: &PatchCandidate| patch.source == PatchSource::WorkTree && is_usable(patch);
    candidates.iter().position(usable).and_then(|index| u32::try_from(index).ok())
}

fn is_usable(patch: &PatchCandidate) -> bool {
    !patch.is_empty() && patch.applies && patch.files.len() <= MAX_FILES
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patch(source: PatchSource, bytes: u64, applies: bool) -> PatchCandidate {
        PatchCandidate { source, bytes, files: vec!["a.py".into()], applies }
    }

    /// Bytes and whether it applies, of the submitted patch and of the work tree.
    fn check(submitted: (u64, bool), work_tree: (u64, bool), expected: Option<u32>) {
        let candidates = [
            patch(PatchSource::Submitted, submitted.0, submitted.1),
            patch(PatchSource::WorkTree, work_tree.0, work_tree.1),
        ];
        assert_eq!(choose(&candidates), expected, "{submitted:?} {work_tree:?}");
    }

    #[test]
    fn a_good_patch_stands() {
        check((10, true), (20, true), None);
        check((10, true), (0, true), None);
    }

    #[test]
    fn a_patch_that_does_not_apply_is_replaced() {
        check((10, false), (20, true), Some(1));
        check((0, true), (20, true), Some(1));
    }

    #[test]
    fn an_unusable_work_tree_is_not_chosen() {
        check((10, false), (0, true), None);
        check((10, false), (20, false), None);
        check((0, true), (0, true), None);
    }

    #[test]
    fn the_index_is_the_work_trees_wherever_it_stands() {
        let tree = patch(PatchSource::WorkTree, 5, true);
        let broken = patch(PatchSource::Submitted, 5, false);
        assert_eq!(choose(&[tree.clone(), broken]), Some(0));
        assert_eq!(choose(std::slice::from_ref(&tree)), None);
        assert_eq!(choose(&[]), None);
    }

    #[test]
    fn a_tree_full_of_litter_is_not_a_fix() {
        let mut tree = patch(PatchSource::WorkTree, 5, true);
        assert!(is_usable(&tree));
        tree.files = vec!["x".into(); MAX_FILES + 1];
        assert!(!is_usable(&tree));
    }
}
