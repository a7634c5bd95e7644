//! Which of the expected tests pass, and is the instance resolved?

use serde::{Deserialize, Serialize};

use super::status::{Status, StatusMap};

/// What the parser of an instance can see.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EvalType {
    /// Passed and failed tests; one that the log does not name has failed.
    #[default]
    PassAndFail,
    /// Failed tests alone; one that the log does not name has passed.
    FailOnly,
}

/// The tests that decide.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Expected {
    /// Fail before the reference patch and pass after it.
    pub fail_to_pass: Vec<String>,
    /// Pass before and after it.
    pub pass_to_pass: Vec<String>,
}

/// The official word for how an instance ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Resolution {
    #[serde(rename = "RESOLVED_FULL")]
    Full,
    /// Some of the first list, all of the second.
    #[serde(rename = "RESOLVED_PARTIAL")]
    Partial,
    #[serde(rename = "RESOLVED_NO")]
    No,
}

/// The expected tests, divided. A test with a status that is neither, such as
/// `ERROR:`, stands in no list, as in the official report.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    pub fail_to_pass_success: Vec<String>,
    pub fail_to_pass_failure: Vec<String>,
    pub pass_to_pass_success: Vec<String>,
    pub pass_to_pass_failure: Vec<String>,
}

impl Report {
    /// Divides the expected tests by what the log says.
    pub fn of(map: &StatusMap, expected: &Expected, eval_type: EvalType) -> Self {
        let mut report = Self::default();
        for test in &expected.fail_to_pass {
            match judge(map, test, eval_type, Status::is_pass) {
                Some(true) => report.fail_to_pass_success.push(test.clone()),
                Some(false) => report.fail_to_pass_failure.push(test.clone()),
                None => {}
            }
        }
        // A skipped test is no regression, but no repair either.
        let maintained = |status: &Status| status.is_pass() || *status == Status::Skipped;
        for test in &expected.pass_to_pass {
            match judge(map, test, eval_type, maintained) {
                Some(true) => report.pass_to_pass_success.push(test.clone()),
                Some(false) => report.pass_to_pass_failure.push(test.clone()),
                None => {}
            }
        }
        report
    }

    /// Whether the instance is resolved. A list with nothing in it is all passed.
    pub fn resolution(&self) -> Resolution {
        let (repaired, broken) = (self.fail_to_pass_success.len(), self.fail_to_pass_failure.len());
        match (broken == 0, repaired > 0, self.pass_to_pass_failure.is_empty()) {
            (true, _, true) => Resolution::Full,
            (false, true, true) => Resolution::Partial,
            _ => Resolution::No,
        }
    }
}

/// Whether an expected test succeeded; none if its status is neither.
fn judge(map: &StatusMap, test: &str, eval_type: EvalType, good: fn(&Status) -> bool) -> Option<bool> {
    if eval_type == EvalType::FailOnly {
        return Some(map.get(test) != Some(&Status::Failed));
    }
    match find(map, test) {
        Some(status) if good(status) => Some(true),
        Some(Status::Failed | Status::Error | Status::Skipped) | None => Some(false),
        Some(_) => None,
    }
}

/// The status of a test. 676 expected names of Verified are cut inside a parameter:
/// a name with more `[` than `]` is answered by the first test that it begins, if
/// all such tests agree on passed or not.
fn find<'a>(map: &'a StatusMap, test: &str) -> Option<&'a Status> {
    if let Some(status) = map.get(test) {
        return Some(status);
    }
    let count = |bracket: char| test.chars().filter(|c| *c == bracket).count();
    if count('[') <= count(']') {
        return None;
    }
    let mut found = map.iter().filter(|(name, _)| name.starts_with(test)).map(|(_, status)| status);
    let first = found.next()?;
    found.all(|other| other.is_pass() == first.is_pass()).then_some(first)
}
