//! How much of an episode is used up?

use std::time::Duration;

use crate::harness::{Budget, Context, LimitKind, Limits, Usage};

/// Counts turns, sampled tokens and virtual seconds.
///
/// A command counts its time rounded to whole seconds, so that quick commands
/// cost nothing on any machine and the same record gives the same budget.
#[derive(Clone, Debug)]
pub(super) struct Meter {
    budget: Budget,
}

impl Meter {
    /// `task_seconds` is the task's own limit; the tighter of it and the harness's holds.
    pub(super) fn new(limits: &Limits, task_seconds: Option<u64>) -> Self {
        let limited = |limit: u64| (limit > 0).then_some(limit);
        let seconds = [limited(limits.seconds), task_seconds].into_iter().flatten().min();
        let budget = Budget {
            turns: Usage { used: 0, limit: Some(limits.turns) },
            tokens: Usage { used: 0, limit: limited(limits.tokens) },
            seconds: Usage { used: 0, limit: seconds },
        };
        Self { budget }
    }

    /// What hooks are told in `turn`.
    pub(super) fn context(&self, turn: u32) -> Context {
        Context { turn, budget: self.budget, now_ms: self.budget.seconds.used.saturating_mul(1000) }
    }

    pub(super) fn add_turn(&mut self, tokens: u64) {
        self.budget.turns.used += 1;
        self.budget.tokens.used = self.budget.tokens.used.saturating_add(tokens);
    }

    /// Counts a command and gives back its virtual seconds.
    pub(super) fn add_command(&mut self, elapsed: Duration) -> u64 {
        let seconds = elapsed.as_secs_f64().round() as u64;
        self.budget.seconds.used = self.budget.seconds.used.saturating_add(seconds);
        seconds
    }

    /// The limit that is reached, if one is.
    pub(super) fn reached(&self) -> Option<LimitKind> {
        let over = |usage: Usage| usage.limit.is_some_and(|limit| usage.used >= limit);
        if over(self.budget.turns) {
            Some(LimitKind::Turns)
        } else if over(self.budget.tokens) {
            Some(LimitKind::Tokens)
        } else if over(self.budget.seconds) {
            Some(LimitKind::Seconds)
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tighter_limit_of_seconds_holds_and_zero_is_none() {
        let check = |harness: u64, task: Option<u64>, expected: Option<u64>| {
            let limits = Limits { seconds: harness, ..Limits::default() };
            assert_eq!(Meter::new(&limits, task).context(1).budget.seconds.limit, expected);
        };
        check(0, None, None);
        check(10, None, Some(10));
        check(0, Some(5), Some(5));
        check(10, Some(5), Some(5));
        check(3, Some(5), Some(3));
    }

    #[test]
    fn quick_commands_cost_nothing() {
        let mut meter = Meter::new(&Limits { seconds: 2, ..Limits::default() }, None);
        assert_eq!(meter.add_command(Duration::from_millis(499)), 0);
        assert_eq!(meter.add_command(Duration::from_millis(1400)), 1);
        assert_eq!(meter.context(2).now_ms, 1000);
        assert_eq!(meter.reached(), None);
        meter.add_command(Duration::from_millis(501));
        assert_eq!(meter.reached(), Some(LimitKind::Seconds));
    }
}
