//! Which limits may a candidate change, and how far?
//!
//! Only those that shape the interaction. Turns, tokens, seconds and money are what an episode may cost: a
//! candidate that raised them would buy its gain with a larger budget, and the two arms of its gate would not
//! be the same contest. Protocol, shell and hand-in decide how policy and host understand each other: what
//! the policy was trained on, and what the trainer and other agents read, hangs on them.

use std::fmt;
use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};
use tandem_host::harness::{Condense, Limits};

/// What each limit may be set to. The upper ends keep a candidate from buying with longer commands or fuller
/// prompts what it may not buy with turns.
const OBSERVATION_CHARS: RangeInclusive<u64> = 500..=40_000;
const COMMAND_SECONDS: RangeInclusive<u64> = 1..=300;
const FORMAT_ERRORS: RangeInclusive<u64> = 1..=10;
const DEFERRALS: RangeInclusive<u64> = 0..=4;
/// Turns after which a history is shortened; 0 is never.
const CONDENSE_AFTER: RangeInclusive<u64> = 4..=1_000;

/// New values of some limits; the others stay.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LimitsEdit {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observation_chars: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command_seconds: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format_errors: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deferrals: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub condense: Option<Condense>,
}

impl LimitsEdit {
    /// The limits that a candidate may change, as they are now.
    pub fn current(limits: &Limits) -> Self {
        Self {
            observation_chars: Some(limits.observation_chars),
            command_seconds: Some(limits.command_seconds),
            format_errors: Some(limits.format_errors),
            deferrals: Some(limits.deferrals),
            condense: Some(limits.condense),
        }
    }

    /// What each may be set to, for whoever proposes.
    pub fn ranges() -> String {
        let range = |name: &str, range: &RangeInclusive<u64>| {
            format!("`{name}` {} to {}", range.start(), range.end())
        };
        [
            range("observation_chars", &OBSERVATION_CHARS),
            format!(
                "{}, and no higher than now where `seconds` is 0",
                range("command_seconds", &COMMAND_SECONDS)
            ),
            format!("{}, but stays where it is 0, which is no limit", range("format_errors", &FORMAT_ERRORS)),
            range("deferrals", &DEFERRALS),
            format!("{}, or 0 for never", range("condense.after", &CONDENSE_AFTER)),
        ]
        .join(", ")
    }

    pub(super) fn apply(&self, limits: &mut Limits) -> Result<(), String> {
        if *self == Self::default() {
            let help = format!("help: these can be set: {}", Self::ranges());
            return Err(format!("the edit names no limit\n{help}"));
        }
        let Self { observation_chars, command_seconds, format_errors, deferrals, condense } = self;
        if let Some(chars) = observation_chars {
            within("observation_chars", *chars as u64, &OBSERVATION_CHARS)?;
            limits.observation_chars = *chars;
        }
        if let Some(seconds) = command_seconds {
            within("command_seconds", *seconds, &COMMAND_SECONDS)?;
            // An episode that may take any time would let a candidate buy its gain with longer commands.
            if limits.seconds == 0 && *seconds > limits.command_seconds {
                return Err(format!(
                    "`command_seconds` is {} now and would be {seconds}, while `seconds` sets no limit for a whole episode\nhelp: lower it, or leave it",
                    limits.command_seconds
                ));
            }
            limits.command_seconds = *seconds;
        }
        if let Some(errors) = format_errors {
            within("format_errors", (*errors).into(), &FORMAT_ERRORS)?;
            if limits.format_errors == 0 {
                return Err(format!(
                    "`format_errors` is 0, which is no limit, and would be {errors}\nhelp: leave it"
                ));
            }
            limits.format_errors = *errors;
        }
        if let Some(count) = deferrals {
            within("deferrals", (*count).into(), &DEFERRALS)?;
            limits.deferrals = *count;
        }
        if let Some(condense) = condense {
            if condense.after > 0 {
                within("condense.after", condense.after as u64, &CONDENSE_AFTER)?;
            }
            limits.condense = *condense;
        }
        Ok(())
    }

    /// Whether a limit that it sets is as it would have it: a later edit may have changed others of them.
    pub(super) fn holds(&self, limits: &Limits) -> bool {
        fn stands<T: PartialEq>(set: &Option<T>, now: &Option<T>) -> bool {
            set.is_some() && set == now
        }
        let Self { observation_chars, command_seconds, format_errors, deferrals, condense } = self;
        let now = Self::current(limits);
        stands(observation_chars, &now.observation_chars)
            || stands(command_seconds, &now.command_seconds)
            || stands(format_errors, &now.format_errors)
            || stands(deferrals, &now.deferrals)
            || stands(condense, &now.condense)
    }
}

fn within(name: &str, value: u64, range: &RangeInclusive<u64>) -> Result<(), String> {
    match range.contains(&value) {
        true => Ok(()),
        false => Err(format!(
            "`{name}` is {value}, and a candidate may set {} to {}\nhelp: choose a value in between",
            range.start(),
            range.end()
        )),
    }
}

impl fmt::Display for LimitsEdit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { observation_chars, command_seconds, format_errors, deferrals, condense } = self;
        let condense = condense.map(|Condense { after, first, last }| {
            format!("condense after {after}, keeping {first} and {last}")
        });
        let words: Vec<String> = [
            observation_chars.map(|value| format!("observation_chars {value}")),
            command_seconds.map(|value| format!("command_seconds {value}")),
            format_errors.map(|value| format!("format_errors {value}")),
            deferrals.map(|value| format!("deferrals {value}")),
            condense,
        ]
        .into_iter()
        .flatten()
        .collect();
        f.write_str(&words.join(", "))
    }
}
