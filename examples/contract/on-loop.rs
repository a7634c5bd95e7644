//! A word at the first repetition of an episode; the end at the second.

use tandem_plugin::*;

pub struct Plugin;

impl OnLoop for Plugin {
    fn on_loop(_context: Context, repetition: Repetition) -> Option<LoopEffect> {
        if state::get("told").is_some() {
            return Some(LoopEffect::Stop("it repeats itself a second time".into()));
        }
        state::set("told", &[1]).ok()?;
        let text = match repetition {
            Repetition::NoAction => "Talk less and run a command.",
            _ => "This was tried already. Try something else.",
        };
        Some(LoopEffect::Note(text.into()))
    }
}

export_on_loop!(Plugin);
