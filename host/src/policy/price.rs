//! What do tokens cost?

use serde::{Deserialize, Serialize};

/// Tokens of one model call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenUsage {
    /// The whole conversation before the reply.
    pub prompt: u64,
    /// The reply, with what a model thinks and does not show.
    pub reply: u64,
}

/// Money for a million tokens, in any one currency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Price {
    pub prompt: f64,
    pub reply: f64,
}

impl Price {
    /// What a call costs. Tokens that an endpoint has kept of earlier calls count in full.
    pub fn of(&self, usage: TokenUsage) -> f64 {
        (usage.prompt as f64 * self.prompt + usage.reply as f64 * self.reply) / 1e6
    }

    /// Whether both numbers are amounts of money.
    pub fn is_an_amount(&self) -> bool {
        [self.prompt, self.reply].iter().all(|price| price.is_finite() && *price >= 0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompt_and_reply_have_their_own_price() {
        let check = |prompt: f64, reply: f64, expected: f64| {
            let usage = TokenUsage { prompt: 200_000, reply: 50_000 };
            assert_eq!(Price { prompt, reply }.of(usage), expected);
        };
        check(0.0, 0.0, 0.0);
        check(2.0, 0.0, 0.4);
        check(0.0, 8.0, 0.4);
        check(2.0, 8.0, 0.8);
    }

    #[test]
    fn a_price_is_a_number_from_0_on() {
        let check = |prompt: f64, expected: bool| {
            assert_eq!(Price { prompt, reply: 1.0 }.is_an_amount(), expected, "{prompt}");
        };
        check(0.0, true);
        check(-0.1, false);
        check(f64::NAN, false);
        check(f64::INFINITY, false);
    }
}
