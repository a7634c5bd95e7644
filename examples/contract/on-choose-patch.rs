//! Hands in the work tree when what the policy submitted does not apply.

use tandem_plugin::*;

pub struct Plugin;

impl OnChoosePatch for Plugin {
    fn on_choose_patch(_context: Context, candidates: Vec<PatchCandidate>) -> Option<u32> {
        if candidates.first()?.applies {
            return None;
        }
        let usable = candidates.iter().position(|patch| patch.applies && !patch.is_empty())?;
        u32::try_from(usable).ok()
    }
}

export_on_choose_patch!(Plugin);
