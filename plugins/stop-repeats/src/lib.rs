//! Says when the policy goes in circles, and ends the episode when it goes on.
//!
//! Watches what the host's loop detector tells. Fires at the first repetitions with a note that
//! fits their kind, and after `NOTES` notes, if the policy still repeats itself and `STOP` is
//! set, with a stop, which saves the turns that would have changed nothing. Silent when the
//! repetition is output without an action, which the corrective text answers, and in the last
//! turn, where nobody would read a note.
//!
//! Point: `on-loop`. Grants: `state`, to count.

use tandem_plugin::*;

/// Notes in one episode before it is stopped.
const NOTES: u64 = 3; // parameter
/// Whether the episode is stopped at all. A stop hands in nothing.
const STOP: bool = true; // parameter
/// Speak also about two calls in turn.
const ALTERNATING: bool = true; // parameter
const ADVICE: &str = "Do something else: read another file, change the code, or hand in what you have."; // parameter

pub struct Plugin;

impl OnLoop for Plugin {
    fn on_loop(context: Context, repetition: Repetition) -> Option<LoopEffect> {
        let what = what(repetition)?;
        if context.budget.turns.limit.is_some_and(|limit| u64::from(context.turn) >= limit) {
            return None;
        }
        let noted = state::number("notes");
        if noted >= NOTES {
            return STOP.then(|| LoopEffect::Stop(format!("{what}; {noted} notes changed nothing")));
        }
        state::set_number("notes", noted + 1);
        Some(LoopEffect::Note(format!("{what}. {ADVICE}")))
    }
}

export_on_loop!(Plugin);

fn what(repetition: Repetition) -> Option<&'static str> {
    match repetition {
        Repetition::SameCall => Some("The same command gave the same result 4 times; it will do so again"),
        Repetition::SameError => Some("The same error came 3 times in a row; trying it again will not help"),
        Repetition::Alternating if ALTERNATING => {
            Some("The same two commands took turns 6 times and nothing changed")
        }
        Repetition::Alternating | Repetition::NoAction => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_repetition_of_commands_has_its_sentence() {
        assert!(what(Repetition::SameCall).unwrap().contains("4 times"));
        assert!(what(Repetition::SameError).unwrap().contains("3 times"));
        assert!(what(Repetition::Alternating).unwrap().contains("6 times"));
        assert_eq!(what(Repetition::NoAction), None);
    }
}
