//! Is the policy going round in circles?
//!
//! The thresholds are those of the contract: the same call with the same result
//! 4 times, the same error 3 times, two calls in turn 6 times, output without an
//! action 3 times. A repetition that was told is told again only after as many more.

use std::collections::VecDeque;

use crate::harness::{Repetition, ToolResult, ToolStatus};
use crate::policy::ToolCall;

const SAME_CALL: usize = 4;
const SAME_ERROR: usize = 3;
const ALTERNATING: usize = 6;
const NO_ACTION: usize = 3;

/// What is remembered of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Step {
    call: String,
    result: String,
    error: bool,
}

/// Watches the calls of one episode.
#[derive(Debug, Default)]
pub struct Detector {
    steps: VecDeque<Step>,
    /// Calls since the last repetition that was told.
    fresh: usize,
    without_action: usize,
}

impl Detector {
    /// Notes a reply without an action.
    pub fn no_action(&mut self) {
        self.without_action += 1;
    }

    /// Notes a call and what came of it. `text` is the raw result.
    pub fn call(&mut self, call: &ToolCall, result: &ToolResult) {
        self.without_action = 0;
        let error = result.status != ToolStatus::Finished || result.exit_code.is_some_and(|code| code != 0);
        let call = format!("{} {}", call.name, call.arguments);
        self.steps.push_back(Step { call, result: result.text.clone(), error });
        self.fresh += 1;
        if self.steps.len() > ALTERNATING {
            self.steps.pop_front();
        }
    }

    /// The repetition that the newest turn completed.
    pub fn seen(&mut self) -> Option<Repetition> {
        let found = self.find()?;
        self.fresh = 0;
        self.without_action = 0;
        Some(found)
    }

    fn find(&self) -> Option<Repetition> {
        if self.without_action >= NO_ACTION {
            return Some(Repetition::NoAction);
        }
        let last = |count: usize| -> Option<Vec<&Step>> {
            let enough = self.fresh >= count && self.steps.len() >= count;
            enough.then(|| self.steps.iter().skip(self.steps.len() - count).collect())
        };
        if last(SAME_CALL).is_some_and(|steps| steps.iter().all(|step| *step == steps[0])) {
            return Some(Repetition::SameCall);
        }
        let same_error = |steps: Vec<&Step>| steps.iter().all(|s| s.error && s.result == steps[0].result);
        if last(SAME_ERROR).is_some_and(same_error) {
            return Some(Repetition::SameError);
        }
        let in_turn =
            |steps: Vec<&Step>| steps[0] != steps[1] && (2..steps.len()).all(|at| steps[at] == steps[at - 2]);
        last(ALTERNATING).is_some_and(in_turn).then_some(Repetition::Alternating)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Each letter is a call with its own result; `!` after it makes it an error, `-` is no action.
    fn check(steps: &str, expected: &[(usize, Repetition)]) {
        let mut detector = Detector::default();
        let mut told = Vec::new();
        for (at, step) in steps.split(' ').enumerate() {
            if step == "-" {
                detector.no_action();
            } else {
                let (name, result) = step.split_at(1);
                let code = if result.contains('!') { 1 } else { 0 };
                let call = ToolCall { id: String::new(), name: name.into(), arguments: json!({}) };
                let text = if code == 1 { result.to_owned() } else { step.to_owned() };
                let raw_bytes = text.len() as u64;
                let status = ToolStatus::Finished;
                detector.call(&call, &ToolResult { status, exit_code: Some(code), text, raw_bytes });
            }
            told.extend(detector.seen().map(|repetition| (at + 1, repetition)));
        }
        assert_eq!(told, expected, "{steps}");
    }

    #[test]
    fn repetitions_are_told_at_their_thresholds() {
        check("a a a", &[]);
        check("a a a a", &[(4, Repetition::SameCall)]);
        check("a a a1 a a a", &[]);
        check("a a a a a a a a", &[(4, Repetition::SameCall), (8, Repetition::SameCall)]);
        check("a! b! c!", &[(3, Repetition::SameError)]);
        check("a! b c! d!", &[]);
        check("a b a b a b", &[(6, Repetition::Alternating)]);
        check("a b a b a c", &[]);
        check("- - -", &[(3, Repetition::NoAction)]);
        check("- - a -", &[]);
    }
}
