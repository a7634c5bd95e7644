//! What do Maven, Ant and Gradle print?

use std::collections::VecDeque;
use std::sync::LazyLock;

use regex::Regex;

use super::compiled::status_and_name;
use super::{ParseContext, Parsed};
use crate::swebench::status::{Status, StatusMap};
use crate::swebench::text::{python, strip};

fn outcome(passed: bool) -> Status {
    if passed { Status::Passed } else { Status::Failed }
}

/// Maven does not name what passed: each test is a run of its own, named by the
/// command that `set -x` prints and judged by the next `BUILD` line.
pub(super) fn maven(log: &str, _: &ParseContext<'_>) -> Parsed {
    static NAME: LazyLock<Regex> = LazyLock::new(|| python(r"^.*-Dtest=(\S+).*$"));
    static RESULT: LazyLock<Regex> = LazyLock::new(|| python(r"^.*BUILD (SUCCESS|FAILURE)$"));
    let mut map = StatusMap::default();
    let mut pending = VecDeque::new();
    let mut unmatched = VecDeque::new();
    for line in log.split('\n') {
        let line = strip(line);
        if let Some(found) = NAME.captures(line) {
            pending.push_back(found[1].to_owned());
        }
        if let Some(found) = RESULT.captures(line) {
            let passed = &found[1] == "SUCCESS";
            match pending.pop_front() {
                Some(name) => map.set(name, outcome(passed)),
                None => unmatched.push_back(passed),
            }
        }
    }
    for (name, passed) in pending.into_iter().zip(unmatched) {
        map.set(name, outcome(passed));
    }
    Ok(map)
}

pub(super) fn ant(log: &str, _: &ParseContext<'_>) -> Parsed {
    static LINE: LazyLock<Regex> = LazyLock::new(|| python(r"^\s*\[junit\]\s+\[(PASS|FAIL|ERR)\]\s+(.*)$"));
    Ok(status_and_name(log, &LINE, |word| Some(outcome(word == "PASS"))))
}

/// Name and status on one line, or the status on a later line when processes
/// write at the same time.
pub(super) fn gradle(log: &str, _: &ParseContext<'_>) -> Parsed {
    static FULL: LazyLock<Regex> = LazyLock::new(|| python(r"^([^>].+)\s+(PASSED|FAILED)$"));
    static NAME: LazyLock<Regex> = LazyLock::new(|| python(r"^([^>]\S*\s+>\s+\S+)$"));
    let mut map = StatusMap::default();
    let mut pending: Option<String> = None;
    for line in log.split('\n') {
        let line = strip(line);
        if let Some(found) = FULL.captures(line) {
            map.set(&found[1], outcome(&found[2] == "PASSED"));
            pending = None;
        } else if let Some(found) = NAME.captures(line) {
            pending = Some(found[1].to_owned());
        } else if (line == "PASSED" || line == "FAILED")
            && let Some(name) = pending.take()
        {
            map.set(name, outcome(line == "PASSED"));
        }
    }
    Ok(map)
}
