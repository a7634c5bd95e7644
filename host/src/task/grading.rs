//! How is the output of a task's tests judged, where no reward file says it?
//!
//! `tests/grading.json` beside `tests/test.sh`. Tasks made from a published data set
//! have one; whoever writes a task by hand leaves a reward instead.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use regex::Regex;
use serde::{Deserialize, Serialize};

use super::forgery;
use crate::swebench::{
    EvalType, Evaluation, Expected, NotGraded, ParseContext, ParserFault, Report, Resolution, StatusMap,
    Tier, decode_log, evaluate, parse,
};

/// The name of the file in a task's `tests`.
pub const GRADING_FILE: &str = "grading.json";

/// How the tests of a task are judged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Grading {
    /// The data set's own name of the task; predictions are made under it.
    pub instance_id: String,
    pub apply: Apply,
    pub rule: Rule,
}

/// By which commands a patch is applied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Apply {
    /// The four commands of SWE-bench, see [`crate::swebench::APPLY_COMMANDS`].
    #[default]
    Ladder,
    /// `git apply -v` alone, without the parts of the patch that are binary.
    TextOnly,
    /// `git apply` with a three-way merge that does not count lines or spaces.
    ThreeWay,
}

/// What decides.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind", deny_unknown_fields)]
pub enum Rule {
    /// SWE-bench: a named parser reads the log between two markers.
    SwebenchLog { version: String, log_parser: String, eval_type: EvalType, expected: Expected },
    /// SWE-bench Pro: the task's own parser leaves `output.json`, which names all tests.
    ProOutput { expected: Expected },
    /// SWE-rebench V2: a named parser reads the whole log; every expected test passed.
    AllPassed { log_parser: String, expected: Expected },
    /// R2E-Gym: the tests of pytest's summary are exactly these, with these statuses.
    ExactSummary { expected: BTreeMap<String, String> },
}

impl Rule {
    /// The tests that decide; none for a rule that needs no lists.
    pub fn expected(&self) -> Option<&Expected> {
        match self {
            Self::SwebenchLog { expected, .. }
            | Self::ProOutput { expected }
            | Self::AllPassed { expected, .. } => Some(expected),
            Self::ExactSummary { .. } => None,
        }
    }
}

/// What a rule says of one run of the tests.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Grade {
    pub(super) resolution: Resolution,
    /// Parts of the expected tests that succeeded, from 0 to 1.
    pub(super) parts: BTreeMap<String, f64>,
    /// A sentence for people.
    pub(super) why: String,
}

/// Why a run of the tests says nothing of the patch.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum NoGrade {
    Parser(ParserFault),
    /// A sign in the log that a patch cannot cause.
    Infrastructure(&'static str),
    /// The task's own parser left nothing that can be read.
    Output(String),
}

impl Grading {
    /// Judges the output of the tests; `output_json` is what the task's own parser left.
    pub(super) fn judge(&self, log: &[u8], output_json: Option<&str>) -> Result<Grade, NoGrade> {
        match &self.rule {
            Rule::SwebenchLog { version, log_parser, eval_type, expected } => {
                let context = ParseContext { instance_id: &self.instance_id, version };
                let log = decode_log(log);
                let evaluation =
                    evaluate(&log, log_parser, &context, expected, *eval_type).map_err(NoGrade::Parser)?;
                let sign = match &evaluation {
                    Evaluation::Graded { map, .. } => forgery::in_marked(&log, log_parser, map),
                    Evaluation::NotGraded { .. } => None,
                };
                Ok(swebench(evaluation)?.doubted(sign))
            }
            Rule::ProOutput { expected } => pro(expected, output_json),
            Rule::AllPassed { log_parser, expected } => {
                let context = ParseContext { instance_id: &self.instance_id, version: "" };
                let log = decode_log(log);
                let map = parse(log_parser, &log, &context).map_err(NoGrade::Parser)?;
                let passed = map.iter().filter(|(_, status)| status.is_pass()).map(|(name, _)| untimed(name));
                let sign = forgery::in_log(&log, log_parser, &map);
                Ok(all_in(expected, &passed.collect(), untimed).doubted(sign))
            }
            Rule::ExactSummary { expected } => Ok(exact_summary(expected, &decode_log(log))),
        }
    }
}

fn swebench(evaluation: Evaluation) -> Result<Grade, NoGrade> {
    match evaluation {
        Evaluation::Graded { report, .. } => Ok(Grade::of(&report)),
        Evaluation::NotGraded { infra: Some(infra), .. } if infra.tier == Tier::Environment => {
            Err(NoGrade::Infrastructure(infra.reason))
        }
        Evaluation::NotGraded { cause, .. } => Ok(Grade {
            resolution: Resolution::No,
            parts: BTreeMap::new(),
            why: format!("not graded: {}", not_graded(cause)),
        }),
    }
}

fn not_graded(cause: NotGraded) -> &'static str {
    match cause {
        NotGraded::PatchApplyFailed => "the patch does not apply",
        NotGraded::ResetFailed => "the work tree could not be reset",
        NotGraded::TestsErrored => "the tests could not be run",
        NotGraded::TestsTimedOut => "the tests took too long",
        NotGraded::NoMarkers => "the script of the tests did not come to its end",
        NotGraded::NothingRan => "the log names no test and no suite that ran",
        NotGraded::ExitCodeDisagrees => "the test command failed, and the log names no failure",
    }
}

impl Grade {
    /// A log that contradicts itself solves nothing.
    fn doubted(mut self, sign: Option<String>) -> Self {
        if let (Resolution::Full, Some(sign)) = (self.resolution, sign) {
            self.resolution = Resolution::No;
            self.why = format!("the log is not the test runner's own: {sign}");
        }
        self
    }

    fn of(report: &Report) -> Self {
        let part = |good: usize, bad: usize| match good + bad {
            0 => 1.0,
            all => good as f64 / all as f64,
        };
        let repaired = (report.fail_to_pass_success.len(), report.fail_to_pass_failure.len());
        let kept = (report.pass_to_pass_success.len(), report.pass_to_pass_failure.len());
        let shown = |(good, bad): (usize, usize)| format!("{good} of {}", good + bad);
        let mut why = format!("{} to be repaired and {} to be kept succeed", shown(repaired), shown(kept));
        if let Some(test) = report.fail_to_pass_failure.first().or(report.pass_to_pass_failure.first()) {
            why.push_str(&format!("; the first that does not is `{test}`"));
        }
        Self {
            resolution: report.resolution(),
            parts: BTreeMap::from([
                ("fail_to_pass".into(), part(repaired.0, repaired.1)),
                ("pass_to_pass".into(), part(kept.0, kept.1)),
            ]),
            why,
        }
    }
}

/// Every expected test is among those that passed.
fn all_in(expected: &Expected, passed: &BTreeSet<String>, tidy: fn(&str) -> String) -> Grade {
    let mut report = Report::default();
    let split = |tests: &[String]| {
        let (good, bad): (Vec<&String>, Vec<&String>) =
            tests.iter().partition(|test| passed.contains(&tidy(test)));
        (good.into_iter().cloned().collect(), bad.into_iter().cloned().collect())
    };
    (report.fail_to_pass_success, report.fail_to_pass_failure) = split(&expected.fail_to_pass);
    (report.pass_to_pass_success, report.pass_to_pass_failure) = split(&expected.pass_to_pass);
    Grade::of(&report)
}

/// A name without the time that some runners print after it.
fn untimed(name: &str) -> String {
    static TIME: LazyLock<Option<Regex>> = LazyLock::new(|| {
        Regex::new(r"\s*(?:\(\s*\d+(?:\.\d+)?\s*(?:ms|s|sec|seconds)\s*\)|\[\s*\d+(?:\.\d+)?\s*(?:ms|s)\s*\]|\sin\s\d+(?:\.\d+)?\s*(?:ms|s|msec))\s*$").ok()
    });
    match &*TIME {
        Some(time) => time.replace(name, "").trim().to_owned(),
        None => name.trim().to_owned(),
    }
}

/// What the parser script of SWE-bench Pro leaves.
#[derive(Deserialize)]
struct ProOutput {
    tests: Vec<ProTest>,
}

#[derive(Deserialize)]
struct ProTest {
    name: String,
    status: String,
}

fn pro(expected: &Expected, output: Option<&str>) -> Result<Grade, NoGrade> {
    let text = output.ok_or_else(|| NoGrade::Output("the parser left no `output.json`".into()))?;
    let output: ProOutput = serde_json::from_str(text)
        .map_err(|error| NoGrade::Output(format!("`output.json` is not a list of tests: {error}")))?;
    let passed = output.tests.into_iter().filter(|test| test.status == "PASSED").map(|test| test.name);
    Ok(all_in(expected, &passed.collect(), str::to_owned))
}

/// The tests below pytest's summary line, by the part of their names after the file.
fn summary(log: &str) -> StatusMap {
    let mut map = StatusMap::default();
    let Some((_, rest)) = log.split_once("short test summary info") else { return map };
    let rest = rest.split("short test summary info").next().unwrap_or(rest);
    for line in rest.trim().split('\n') {
        let name = line.split("::").skip(1).collect::<Vec<_>>().join(".");
        let found = [("PASSED", false), ("FAILED", true), ("ERROR", true)]
            .into_iter()
            .find(|(word, _)| line.contains(word));
        if let Some((word, cut)) = found {
            let name = if cut { name.split(" - ").next().unwrap_or_default() } else { &name };
            map.set(name, crate::swebench::Status::of(word));
        }
    }
    map
}

fn exact_summary(expected: &BTreeMap<String, String>, log: &str) -> Grade {
    static COLOUR: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new("\x1b\\[[0-9;]*m|\r").ok());
    let plain = |text: &str| match &*COLOUR {
        Some(colour) => colour.replace_all(text, "").into_owned(),
        None => text.to_owned(),
    };
    let short = |name: &str| plain(name).split(" - ").next().unwrap_or_default().to_owned();
    let found: BTreeMap<String, String> =
        summary(&plain(log)).iter().map(|(name, status)| (short(name), status.word().to_owned())).collect();
    let expected: BTreeMap<String, String> =
        expected.iter().map(|(name, status)| (short(name), status.clone())).collect();
    let alike = expected.iter().filter(|(name, status)| found.get(*name) == Some(status)).count();
    let same = found == expected && !expected.is_empty();
    Grade {
        resolution: if same { Resolution::Full } else { Resolution::No },
        parts: BTreeMap::from([("alike".into(), alike as f64 / expected.len().max(1) as f64)]),
        why: format!("{alike} of {} expected statuses; the run has {} tests", expected.len(), found.len()),
    }
}

/// A patch without its binary parts.
pub(super) fn text_parts(patch: &[u8]) -> Vec<u8> {
    let mut kept = Vec::new();
    let mut section: Vec<u8> = Vec::new();
    let mut binary = false;
    for line in patch.split_inclusive(|byte| *byte == b'\n') {
        if line.starts_with(b"diff --git ") {
            if !binary {
                kept.append(&mut section);
            }
            section.clear();
            binary = false;
        }
        let bare = line.strip_suffix(b"\n").unwrap_or(line);
        binary |=
            bare == b"GIT binary patch" || (bare.starts_with(b"Binary files ") && bare.ends_with(b" differ"));
        section.extend_from_slice(line);
    }
    if !binary {
        kept.append(&mut section);
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expected(fail_to_pass: &[&str], pass_to_pass: &[&str]) -> Expected {
        let owned = |tests: &[&str]| tests.iter().map(|test| (*test).to_owned()).collect();
        Expected { fail_to_pass: owned(fail_to_pass), pass_to_pass: owned(pass_to_pass) }
    }

    fn check(rule: Rule, log: &str, output: Option<&str>, expected: &str) {
        let grading = Grading { instance_id: "x".into(), apply: Apply::Ladder, rule };
        let shown = match grading.judge(log.as_bytes(), output) {
            Ok(grade) => format!("{:?}: {}", grade.resolution, grade.why),
            Err(NoGrade::Parser(fault)) => fault.to_string(),
            Err(NoGrade::Infrastructure(reason)) => format!("infrastructure: {reason}"),
            Err(NoGrade::Output(reason)) => reason,
        };
        assert_eq!(shown, expected);
    }

    #[test]
    fn the_output_of_pro_names_every_expected_test_as_passed() {
        let rule = || Rule::ProOutput { expected: expected(&["a"], &["b"]) };
        let tests = |b: &str| {
            format!(r#"{{"tests":[{{"name":"a","status":"PASSED"}},{{"name":"b","status":"{b}"}}]}}"#)
        };
        check(
            rule(),
            "",
            Some(&tests("PASSED")),
            "Full: 1 of 1 to be repaired and 1 of 1 to be kept succeed",
        );
        check(
            rule(),
            "",
            Some(&tests("SKIPPED")),
            "No: 1 of 1 to be repaired and 0 of 1 to be kept succeed; the first that does not is `b`",
        );
        check(rule(), "", None, "the parser left no `output.json`");
        check(
            rule(),
            "",
            Some("{}"),
            "`output.json` is not a list of tests: missing field `tests` at line 1 column 2",
        );
    }

    #[test]
    fn times_after_a_name_do_not_count() {
        let rule = Rule::AllPassed {
            log_parser: "parse_log_jest".into(),
            expected: expected(&["adds (3 ms)"], &["x [2s]"]),
        };
        check(
            rule,
            "✓ adds (17 ms)\n✓ x [9s]",
            None,
            "Full: 1 of 1 to be repaired and 1 of 1 to be kept succeed",
        );
    }

    #[test]
    fn a_summary_is_exactly_the_expected_one() {
        let rule = |statuses: &[(&str, &str)]| Rule::ExactSummary {
            expected: statuses.iter().map(|(name, status)| ((*name).into(), (*status).into())).collect(),
        };
        let log = "== short test summary info ==\nPASSED r2e_tests/t.py::A::one\n\u{1b}[31mFAILED\u{1b}[0m r2e_tests/t.py::two - x::y\n";
        check(
            rule(&[("A.one", "PASSED"), ("two", "FAILED")]),
            log,
            None,
            "Full: 2 of 2 expected statuses; the run has 2 tests",
        );
        check(rule(&[("A.one", "PASSED")]), log, None, "No: 1 of 1 expected statuses; the run has 2 tests");
        check(rule(&[]), "", None, "No: 0 of 0 expected statuses; the run has 0 tests");
    }

    #[test]
    fn binary_parts_are_cut_and_text_parts_kept() {
        let text = "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n";
        let binary = "diff --git a/y b/y\nindex 1..2\nGIT binary patch\nliteral 3\nxyz\n\n";
        let differ = "diff --git a/z b/z\nBinary files a/z and b/z differ\n";
        let patch = format!("{binary}{text}{differ}");
        assert_eq!(text_parts(patch.as_bytes()), text.as_bytes());
        assert_eq!(text_parts(text.as_bytes()), text.as_bytes());
        assert_eq!(text_parts(b""), b"");
    }
}
