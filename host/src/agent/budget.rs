//! How much of an episode is used up?

use std::time::Duration;

use super::spent::{Money, Spent};
use crate::harness::{Budget, Context, LimitKind, Limits, Usage};
use crate::policy::{Price, TokenUsage};

/// Shares of the context, in hundredths, at which observers hear that it fills up.
const PRESSURE: [u64; 2] = [75, 90];

/// Counts turns, tokens, virtual seconds, money and how full the context is.
///
/// A command counts its time rounded to whole seconds, so that quick commands
/// cost nothing on any machine and the same record gives the same budget.
#[derive(Clone, Debug)]
pub(super) struct Meter {
    spent: Spent,
    /// Steps of [`PRESSURE`] that were told.
    told: usize,
}

impl Meter {
    /// `task_seconds` is the task's own limit; the tighter of it and the harness's holds.
    /// `context` is what the policy's context holds, where that is known.
    pub(super) fn new(
        limits: &Limits,
        task_seconds: Option<u64>,
        price: Price,
        context: Option<u64>,
    ) -> Self {
        let limited = |limit: u64| (limit > 0).then_some(limit);
        let unused = |limit: Option<u64>| Usage { used: 0, limit };
        let spent = Spent {
            turns: unused(Some(limits.turns)),
            tokens: unused(limited(limits.tokens)),
            seconds: unused([limited(limits.seconds), task_seconds].into_iter().flatten().min()),
            format_errors: unused(limited(limits.format_errors.into())),
            money: Money { used: 0.0, limit: (limits.money > 0.0).then_some(limits.money) },
            price,
            context: unused(context),
            ..Spent::default()
        };
        Self { spent, told: 0 }
    }

    /// What hooks are told in `turn`. The limit of tokens is the most that may still be sampled:
    /// what the context has room for, where that is less than what the harness allows.
    pub(super) fn context(&self, turn: u32) -> Context {
        let Spent { turns, mut tokens, seconds, .. } = self.spent;
        let room = self.room().map(|left| tokens.used.saturating_add(left));
        tokens.limit = [tokens.limit, room].into_iter().flatten().min();
        let budget = Budget { turns, tokens, seconds };
        Context { turn, budget, now_ms: seconds.used.saturating_mul(1000) }
    }

    /// Tokens that the context has room for, behind the newest reply.
    pub(super) fn room(&self) -> Option<u64> {
        let Usage { used, limit } = self.spent.context;
        limit.map(|limit| limit.saturating_sub(used))
    }

    /// Tokens of the conversation up to the newest reply.
    pub(super) fn conversation(&self) -> u64 {
        self.spent.context.used
    }

    /// Counts a reply and gives back what it cost.
    pub(super) fn add_reply(&mut self, usage: TokenUsage) -> f64 {
        let spent = &mut self.spent;
        let cost = spent.price.of(usage);
        spent.turns.used += 1;
        spent.tokens.used = spent.tokens.used.saturating_add(usage.reply);
        spent.prompt_tokens = spent.prompt_tokens.saturating_add(usage.prompt);
        spent.money.used += cost;
        spent.context.used = usage.prompt.saturating_add(usage.reply);
        cost
    }

    /// Counts a command and gives back its virtual seconds.
    pub(super) fn add_command(&mut self, elapsed: Duration) -> u64 {
        let seconds = elapsed.as_secs_f64().round() as u64;
        self.spent.seconds.used = self.spent.seconds.used.saturating_add(seconds);
        seconds
    }

    /// Whether so many format errors in a row are the limit.
    pub(super) fn format_errors(&mut self, in_a_row: u32) -> bool {
        let errors = &mut self.spent.format_errors;
        errors.used = in_a_row.into();
        errors.limit.is_some_and(|limit| errors.used >= limit)
    }

    /// The policy said that a prompt of `used` tokens does not fit.
    pub(super) fn context_full(&mut self, used: usize, limit: usize) {
        self.spent.context = Usage { used: used as u64, limit: Some(limit as u64) };
    }

    /// The history was shortened; how long it is now is known with the next reply.
    pub(super) fn condensed(&mut self) {
        self.spent.condensations += 1;
        self.spent.context.used = 0;
        self.told = 0;
    }

    /// How full the context is, when it passed one of the shares that observers hear of.
    pub(super) fn pressure(&mut self) -> Option<Usage> {
        let Usage { used, limit: Some(limit) } = self.spent.context else { return None };
        let reached = |share: &&u64| used.saturating_mul(100) >= limit.saturating_mul(**share);
        let steps = PRESSURE.iter().take_while(reached).count();
        let is_new = steps > self.told;
        self.told = self.told.max(steps);
        is_new.then_some(self.spent.context)
    }

    /// The limit that is reached, if one is.
    pub(super) fn reached(&self) -> Option<LimitKind> {
        let over = |usage: Usage| usage.limit.is_some_and(|limit| usage.used >= limit);
        let Money { used, limit } = self.spent.money;
        if over(self.spent.turns) {
            Some(LimitKind::Turns)
        } else if over(self.spent.tokens) {
            Some(LimitKind::Tokens)
        } else if over(self.spent.seconds) {
            Some(LimitKind::Seconds)
        } else if limit.is_some_and(|limit| used >= limit) {
            Some(LimitKind::Money)
        } else {
            None
        }
    }

    pub(super) fn spent(&self) -> Spent {
        self.spent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meter(limits: Limits, context: Option<u64>) -> Meter {
        Meter::new(&limits, None, Price { prompt: 1.0, reply: 4.0 }, context)
    }

    #[test]
    fn the_tighter_limit_of_seconds_holds_and_zero_is_none() {
        let check = |harness: u64, task: Option<u64>, expected: Option<u64>| {
            let limits = Limits { seconds: harness, ..Limits::default() };
            let meter = Meter::new(&limits, task, Price::default(), None);
            assert_eq!(meter.context(1).budget.seconds.limit, expected);
        };
        check(0, None, None);
        check(10, None, Some(10));
        check(0, Some(5), Some(5));
        check(10, Some(5), Some(5));
        check(3, Some(5), Some(3));
    }

    #[test]
    fn quick_commands_cost_nothing() {
        let mut meter = meter(Limits { seconds: 2, ..Limits::default() }, None);
        assert_eq!(meter.add_command(Duration::from_millis(499)), 0);
        assert_eq!(meter.add_command(Duration::from_millis(1400)), 1);
        assert_eq!(meter.context(2).now_ms, 1000);
        assert_eq!(meter.reached(), None);
        meter.add_command(Duration::from_millis(501));
        assert_eq!(meter.reached(), Some(LimitKind::Seconds));
    }

    #[test]
    fn money_is_over_at_its_limit_and_not_a_token_before() {
        // 1000 of the prompt and 250 of the reply are 0.002.
        let check = |prompt: u64, reply: u64, expected: Option<LimitKind>| {
            let mut meter = meter(Limits { money: 0.002, ..Limits::default() }, None);
            meter.add_reply(TokenUsage { prompt, reply });
            assert_eq!(meter.reached(), expected, "{prompt} {reply}");
        };
        check(999, 250, None);
        check(1000, 250, Some(LimitKind::Money));
        check(1001, 250, Some(LimitKind::Money));
        check(0, 500, Some(LimitKind::Money));
    }

    #[test]
    fn hooks_are_told_what_may_still_be_sampled() {
        let check = |tokens: u64, context: Option<u64>, expected: Option<u64>| {
            let mut meter = meter(Limits { tokens, ..Limits::default() }, context);
            meter.add_reply(TokenUsage { prompt: 60, reply: 20 });
            assert_eq!(meter.context(2).budget.tokens, Usage { used: 20, limit: expected });
        };
        check(0, None, None);
        check(50, None, Some(50));
        // 20 are left of the context.
        check(0, Some(100), Some(40));
        check(30, Some(100), Some(30));
        check(50, Some(100), Some(40));
        check(50, Some(70), Some(20));
    }

    #[test]
    fn pressure_is_told_once_for_each_share() {
        let mut meter = meter(Limits::default(), Some(100));
        let mut check = |prompt: u64, expected: Option<u64>| {
            meter.add_reply(TokenUsage { prompt, reply: 0 });
            assert_eq!(meter.pressure().map(|usage| usage.used), expected, "{prompt}");
        };
        check(74, None);
        check(75, Some(75));
        check(89, None);
        check(90, Some(90));
        check(99, None);
        meter.condensed();
        let mut check = |prompt: u64, expected: Option<u64>| {
            meter.add_reply(TokenUsage { prompt, reply: 0 });
            assert_eq!(meter.pressure().map(|usage| usage.used), expected, "{prompt}");
        };
        check(30, None);
        check(95, Some(95));
        check(96, None);
    }
}
