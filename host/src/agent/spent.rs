//! What did an episode use up, and of how much?

use serde::{Deserialize, Serialize};

use crate::harness::{LimitKind, Usage};
use crate::policy::Price;

/// Money that was spent, and its limit if it has one, in the currency of the price.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Money {
    pub used: f64,
    pub limit: Option<f64>,
}

/// What an episode used up of each resource, beside its limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Spent {
    /// Model calls that were answered.
    pub turns: Usage,
    /// Sampled tokens.
    pub tokens: Usage,
    /// Tokens of all prompts: those of a conversation count again in each of its turns.
    pub prompt_tokens: u64,
    /// Virtual seconds of commands.
    pub seconds: Usage,
    /// Replies in a row that could not be acted on, at the end.
    pub format_errors: Usage,
    pub money: Money,
    /// What `money` was counted by.
    pub price: Price,
    /// Tokens of the conversation at the end, with a prompt that no longer fitted; and what a
    /// context holds.
    pub context: Usage,
    /// How often the history was shortened.
    pub condensations: u32,
}

impl Spent {
    /// A sentence with both numbers: which limit was reached.
    pub fn told(&self, limit: LimitKind) -> String {
        let whole = |usage: Usage| (usage.used.to_string(), usage.limit.map(|limit| limit.to_string()));
        let (used, of) = match limit {
            LimitKind::Turns => whole(self.turns),
            LimitKind::Tokens => whole(self.tokens),
            LimitKind::Seconds => whole(self.seconds),
            LimitKind::FormatErrors => whole(self.format_errors),
            LimitKind::Context => whole(self.context),
            LimitKind::Money => (money(self.money.used), self.money.limit.map(money)),
        };
        // A full context is told by the policy; every other limit is known.
        let of = of.unwrap_or_else(|| "an unknown number".into());
        let what = match limit {
            LimitKind::Turns => "turns were taken",
            LimitKind::Tokens => "tokens were sampled",
            LimitKind::Seconds => "seconds of commands were used",
            LimitKind::FormatErrors => "replies in a row could not be acted on",
            LimitKind::Context => "tokens of context were needed",
            LimitKind::Money => "of money was spent",
        };
        format!("the limit of {} was reached: {used} of {of} {what}", limit.name())
    }
}

/// An amount of money for people: to six places, which is a token at one for a million, without zeros at the end.
pub fn money(money: f64) -> String {
    let text = format!("{money:.6}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    #[test]
    fn a_limit_is_told_with_both_numbers() {
        let usage = |used, limit| Usage { used, limit: Some(limit) };
        let spent = Spent {
            turns: usage(4, 4),
            tokens: usage(90, 80),
            seconds: usage(61, 60),
            format_errors: usage(3, 3),
            money: Money { used: 0.020_000_4, limit: Some(0.02) },
            context: usage(4097, 4096),
            ..Spent::default()
        };
        let check = |limit, expected: Expect| expected.assert_eq(&spent.told(limit));
        check(LimitKind::Turns, expect!["the limit of turns was reached: 4 of 4 turns were taken"]);
        check(LimitKind::Tokens, expect!["the limit of tokens was reached: 90 of 80 tokens were sampled"]);
        check(
            LimitKind::Seconds,
            expect!["the limit of seconds was reached: 61 of 60 seconds of commands were used"],
        );
        check(
            LimitKind::FormatErrors,
            expect!["the limit of format errors was reached: 3 of 3 replies in a row could not be acted on"],
        );
        check(LimitKind::Money, expect!["the limit of money was reached: 0.02 of 0.02 of money was spent"]);
        check(
            LimitKind::Context,
            expect!["the limit of context was reached: 4097 of 4096 tokens of context were needed"],
        );
    }

    #[test]
    fn money_has_no_more_digits_than_it_needs() {
        let check = |money: f64, expected: &str| assert_eq!(super::money(money), expected);
        check(0.0, "0");
        check(3.0, "3");
        check(0.25, "0.25");
        check(0.000_001, "0.000001");
        check(100.0, "100");
    }
}
