//! How does the whole log of an evaluation become a resolution? Markers, the codes
//! of failed phases, the test command's own exit code, then parser and report.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::Regex;
use serde::Serialize;

use super::infra::{Infra, classify};
use super::parsers::{ParseContext, ParserFault, parse};
use super::report::{EvalType, Expected, Report, Resolution};
use super::status::{Status, StatusMap};
use super::text::{python, universal_newlines};

/// Printed before the first line of the tests.
pub const START_TEST_OUTPUT: &str = ">>>>> Start Test Output";
/// Printed after the last line of the tests.
pub const END_TEST_OUTPUT: &str = ">>>>> End Test Output";
const TEST_EXIT_CODE: &str = ">>>>> Test Exit Code";
const EXIT_CODE_VARIABLE: &str = "SWEBENCH_TEST_EXIT_CODE";

/// Any of them anywhere in the log means that there is nothing to grade.
const BAD_CODES: [(&str, NotGraded); 4] = [
    (">>>>> Patch Apply Failed", NotGraded::PatchApplyFailed),
    (">>>>> Reset Failed", NotGraded::ResetFailed),
    (">>>>> Tests Errored", NotGraded::TestsErrored),
    (">>>>> Tests Timed Out", NotGraded::TestsTimedOut),
];

/// Why a log was not graded. The official report says unresolved for each of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NotGraded {
    PatchApplyFailed,
    ResetFailed,
    TestsErrored,
    TestsTimedOut,
    /// A marker is not there: the test patch did not apply, or the script died.
    NoMarkers,
    /// No test was parsed, and nothing says that a suite ran.
    NothingRan,
    /// The test command failed, and the log names no failure: it is not the log of
    /// the run that happened.
    ExitCodeDisagrees,
}

/// What the log of one evaluation says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Evaluation {
    Graded { map: StatusMap, report: Report },
    NotGraded { cause: NotGraded, infra: Option<Infra> },
}

impl Evaluation {
    /// Whether every expected test succeeded.
    pub fn resolution(&self) -> Resolution {
        match self {
            Self::Graded { report, .. } => report.resolution(),
            Self::NotGraded { .. } => Resolution::No,
        }
    }
}

/// The bytes of a log as the official evaluator sees them: UTF-8 with replacement
/// characters, and every kind of line end as `\n`.
pub fn decode_log(bytes: &[u8]) -> String {
    match String::from_utf8_lossy(bytes) {
        Cow::Borrowed(text) => universal_newlines(text).into_owned(),
        Cow::Owned(text) => universal_newlines(&text).into_owned(),
    }
}

/// Grades a log that [`decode_log`] made.
///
/// # Errors
/// What the official parser raises an exception for; there is no report then.
pub fn evaluate(
    log: &str,
    parser: &str,
    context: &ParseContext<'_>,
    expected: &Expected,
    eval_type: EvalType,
) -> Result<Evaluation, ParserFault> {
    Ok(match read(log, parser, context)? {
        Ok(map) => {
            let report = Report::of(&map, expected, eval_type);
            Evaluation::Graded { map, report }
        }
        Err(cause) => Evaluation::NotGraded { cause, infra: classify(log) },
    })
}

/// Statuses of the tests, or why there are none.
fn read(
    log: &str,
    parser: &str,
    context: &ParseContext<'_>,
) -> Result<Result<StatusMap, NotGraded>, ParserFault> {
    if let Some((_, cause)) = BAD_CODES.iter().find(|(code, _)| log.contains(code)) {
        return Ok(Err(*cause));
    }
    if !log.contains(END_TEST_OUTPUT) {
        return Ok(Err(NotGraded::NoMarkers));
    }
    let Some(tests) = log.split(START_TEST_OUTPUT).nth(1) else {
        return Ok(Err(NotGraded::NoMarkers));
    };
    let tests = tests.split(END_TEST_OUTPUT).next().unwrap_or(tests);
    let mut map = parse(parser, tests, context)?;
    if map.is_empty() {
        // Some runners print their results outside of the markers.
        map = parse(parser, log, context)?;
    }
    if map.is_empty() && !suite_ran(log) {
        return Ok(Err(NotGraded::NothingRan));
    }
    let names_a_failure = map.iter().any(|(_, status)| matches!(status, Status::Failed | Status::Error));
    if exit_code(log).is_some_and(|code| code != 0) && !map.is_empty() && !names_a_failure {
        return Ok(Err(NotGraded::ExitCodeDisagrees));
    }
    Ok(Ok(map))
}

/// Whether a runner printed a summary with a count that is not 0.
fn suite_ran(log: &str) -> bool {
    static RAN: LazyLock<Regex> = LazyLock::new(|| {
        python(concat!(
            r"(?m)Executed [1-9]\d* of \d+",
            r"|TOTAL: [1-9]\d* (?:SUCCESS|FAILED)",
            r"|[1-9]\d* passing",
            r"|Tests:\s+[1-9]\d*",
            r"|Test Suites:\s+(?:\d+ \w+, )*[1-9]\d* total",
            r"|^# tests [1-9]\d*",
            r"|[1-9]\d* specs?, \d+ failures?",
            r"|': ok$",
        ))
    });
    RAN.is_match(log)
}

/// The exit code of the test command, where the script recorded it. One that does
/// not fit is not 0.
fn exit_code(log: &str) -> Option<i64> {
    static CODE: LazyLock<Regex> = LazyLock::new(|| python(&format!(r"{TEST_EXIT_CODE}:\s*(-?\d+)")));
    CODE.captures(log).map(|found| found[1].parse().unwrap_or(i64::MAX))
}

/// The evaluation script that is run: with the two lines at its head that every one
/// has, and with the test command's exit code printed after the end marker.
pub fn record_exit_code(eval_script: &str) -> String {
    let mut lines = vec!["#!/bin/bash".to_owned(), "set -uxo pipefail".to_owned()];
    let mut recorded = false;
    for line in super::text::strip(eval_script).split('\n') {
        if line == "#!/bin/bash" || line == "set -uxo pipefail" {
            continue;
        }
        if !recorded && line.contains(END_TEST_OUTPUT) {
            recorded = true;
            lines.push(format!("{EXIT_CODE_VARIABLE}=$?"));
            lines.push(line.to_owned());
            lines.push(format!("echo \"{TEST_EXIT_CODE}: ${EXIT_CODE_VARIABLE}\""));
        } else {
            lines.push(line.to_owned());
        }
    }
    lines.join("\n") + "\n"
}
