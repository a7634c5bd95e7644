//! Says how many turns are left, while there is time to hand in.
//!
//! Point: `on-model-call`. Grants: none. It keeps nothing: each threshold is one
//! turn, so each warning is given once.

use tandem_plugin::*;

/// Warn when this many turns are left, the coming one included; 0 never.
const TURNS_LEFT: u64 = 3; // parameter
/// Warn when this share of the turns is used, in percent; 0 never.
const PERCENT_USED: u64 = 60; // parameter
const ADVICE_EARLY: &str = "Keep to the shortest way to a fix."; // parameter
const ADVICE_LATE: &str = "Finish the fix and hand in; work that is not handed in does not count."; // parameter

pub struct Plugin;

impl OnModelCall for Plugin {
    fn on_model_call(context: Context) -> Option<ModelCallEffect> {
        let limit = context.budget.turns.limit?;
        warning(u64::from(context.turn), limit).map(ModelCallEffect::Note)
    }
}

export_on_model_call!(Plugin);

/// The warning before `turn`, which counts from 1, of `limit`.
fn warning(turn: u64, limit: u64) -> Option<String> {
    let left = (limit + 1).checked_sub(turn)?;
    // Never in the first turn: nothing is known yet.
    if turn <= 1 || left == 0 {
        return None;
    }
    let used = |turns: u64| turns * 100 >= limit * PERCENT_USED;
    let advice = if left == TURNS_LEFT {
        ADVICE_LATE
    } else if PERCENT_USED > 0 && left > TURNS_LEFT && used(turn - 1) && !used(turn - 2) {
        ADVICE_EARLY
    } else {
        return None;
    };
    let turns = if left == 1 { "turn is" } else { "turns are" };
    Some(format!("{left} of {limit} {turns} left. {advice}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The turns of an episode in which a warning is given.
    fn check(limit: u64, expected: &[u64]) {
        let turns: Vec<u64> = (1..=limit + 2).filter(|turn| warning(*turn, limit).is_some()).collect();
        assert_eq!(turns, expected, "limit {limit}");
    }

    #[test]
    fn each_threshold_warns_once() {
        check(10, &[7, 8]);
        check(20, &[13, 18]);
        check(250, &[151, 248]);
    }

    #[test]
    fn short_episodes_are_not_flooded() {
        check(0, &[]);
        check(1, &[]);
        check(2, &[]);
        check(3, &[]);
        check(4, &[2]);
        check(6, &[4]);
    }

    #[test]
    fn the_number_counts_the_coming_turn() {
        let text = warning(8, 10).unwrap();
        assert!(text.starts_with("3 of 10 turns are left. Finish"), "{text}");
        let text = warning(7, 10).unwrap();
        assert!(text.starts_with("4 of 10 turns are left. Keep"), "{text}");
    }
}
