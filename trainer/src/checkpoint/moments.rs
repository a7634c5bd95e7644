//! Who is told of the moments around the writing of a folder? A program that wants to know; its tests end
//! it at each of them.

use std::sync::OnceLock;

static TOLD: OnceLock<fn(&'static str)> = OnceLock::new();

/// Has `told` called at each moment at which a folder becomes more durable than it was: `checkpoint-begun`
/// before anything is written, `checkpoint-written` when all of it is on the disk under another name,
/// `checkpoint-renamed` when it has its own. The first call of a process decides.
pub fn tell_moments(told: fn(&'static str)) {
    let _ = TOLD.set(told);
}

pub(super) fn moment(name: &'static str) {
    if let Some(told) = TOLD.get() {
        told(name);
    }
}
