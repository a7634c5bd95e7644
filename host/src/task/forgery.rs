//! Does a log contradict itself, as one does that the code under test wrote a part of?
//!
//! Test runners and the code that they run print to one stream, so a log cannot be
//! trusted where it is all that is read. A whole forged log cannot be told from a true one;
//! what is found here is what a log of the runner alone never shows. It is asked only of
//! logs that say that a task is solved.

use std::collections::HashSet;
use std::sync::LazyLock;

use regex::Regex;

use crate::swebench::{END_TEST_OUTPUT, START_TEST_OUTPUT, Status, StatusMap};

/// How a runner ends its log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Runner {
    Pytest,
    Unittest,
}

impl Runner {
    fn of(parser: &str) -> Option<Self> {
        match parser {
            "parse_log_django" => Some(Self::Unittest),
            // They read more than what pytest prints.
            "parse_log_sympy" | "parse_log_seaborn" | "parse_log_matplotlib" => None,
            "swesmith_python" => Some(Self::Pytest),
            other => {
                const PYTEST: [&str; 16] = [
                    "pytest",
                    "pytest_options",
                    "pytest_v2",
                    "astroid",
                    "flask",
                    "marshmallow",
                    "pvlib",
                    "pyvista",
                    "sqlfluff",
                    "xarray",
                    "pydicom",
                    "requests",
                    "pylint",
                    "astropy",
                    "scikit",
                    "sphinx",
                ];
                let name = other.strip_prefix("parse_log_")?;
                PYTEST.contains(&name).then_some(Self::Pytest)
            }
        }
    }
}

/// Why a log between two markers is not the runner's own, if it shows that.
pub(super) fn in_marked(log: &str, parser: &str, map: &StatusMap) -> Option<String> {
    for marker in [START_TEST_OUTPUT, END_TEST_OUTPUT] {
        let count = log.matches(marker).count();
        if count > 1 {
            return Some(format!("the marker `{marker}` is there {count} times"));
        }
    }
    static CODE: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r">>>>> Test Exit Code:\s*(-?\d+)").ok());
    let codes = CODE.as_ref().map(|code| code.captures_iter(log).map(|found| found[1].to_owned()));
    let mut codes: Vec<String> = codes.into_iter().flatten().collect();
    codes.dedup();
    if codes.len() > 1 {
        return Some(format!("it has the exit codes {}", codes.join(" and ")));
    }
    in_log(log, parser, map)
}

/// Why a log is not the runner's own, if its end shows that.
pub(super) fn in_log(log: &str, parser: &str, map: &StatusMap) -> Option<String> {
    let runner = Runner::of(parser)?;
    let passed = map.iter().filter(|(_, status)| **status == Status::Passed).count() as u64;
    let failed = map.iter().any(|(_, status)| matches!(status, Status::Failed | Status::Error));
    let Summary { lines, good, bad } = Summary::of(runner, log)?;
    if lines == 0 {
        return Some("the runner's last line is not there: it was ended before its end".into());
    }
    if passed > good {
        return Some(format!("{passed} tests are said to pass, and the runner counted {good}"));
    }
    if bad > 0 && !failed {
        return Some(format!("the runner counted {bad} failures, and none is named"));
    }
    let both = both_ways(runner, log, map)?;
    Some(format!("`{both}` is said to fail and to pass"))
}

/// A test that a log names as failed and as passed, which a runner does once.
fn both_ways(runner: Runner, log: &str, map: &StatusMap) -> Option<String> {
    let lines = || log.lines().map(str::trim_end);
    match runner {
        Runner::Unittest => {
            let headers = lines()
                .filter_map(|line| line.strip_prefix("FAIL: ").or_else(|| line.strip_prefix("ERROR: ")));
            let passed = |name: &&str| map.get(name) == Some(&Status::Passed);
            headers.into_iter().find(passed).map(str::to_owned)
        }
        Runner::Pytest => {
            // An error after a test that passed is told with the same name: only failures count.
            let passed: HashSet<&str> = lines().filter_map(|line| line.strip_prefix("PASSED ")).collect();
            let failed = lines().filter_map(|line| line.strip_prefix("FAILED "));
            let mut names = failed.map(|line| line.split(" - ").next().unwrap_or(line));
            names.find(|name| passed.contains(name)).map(str::to_owned)
        }
    }
}

/// What a runner counted, over all of its runs.
struct Summary {
    lines: usize,
    good: u64,
    bad: u64,
}

impl Summary {
    /// None only where an expression of this file is wrong.
    fn of(runner: Runner, log: &str) -> Option<Self> {
        static COLOUR: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new("\x1b\\[[0-9;]*m").ok());
        // With its frame of `=`, or bare with `-q`.
        static PYTEST: LazyLock<Option<Regex>> = LazyLock::new(|| {
            Regex::new(r"(?m)^(?:=+ )?((?:\d+ [a-z]+(?: [a-z]+)?(?:, )?)+) in \d+(?:\.\d+)?s?(?: seconds)?\b")
                .ok()
        });
        static COUNT: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"(\d+) ([a-z]+)").ok());
        static RAN: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"(?m)^Ran (\d+) tests? in ").ok());
        static FAILED: LazyLock<Option<Regex>> =
            LazyLock::new(|| Regex::new(r"(?m)^FAILED \(((?:[a-z ]+=\d+(?:, )?)+)\)").ok());
        static PAIR: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"([a-z ]+)=(\d+)").ok());
        let plain = COLOUR.as_ref()?.replace_all(log, "");
        let number = |text: &str| text.parse::<u64>().unwrap_or(0);
        let mut summary = Self { lines: 0, good: 0, bad: 0 };
        match runner {
            Runner::Pytest => {
                for line in PYTEST.as_ref()?.captures_iter(&plain) {
                    summary.lines += 1;
                    for count in COUNT.as_ref()?.captures_iter(&line[1]) {
                        match &count[2] {
                            "passed" | "xpassed" => summary.good += number(&count[1]),
                            "failed" | "error" | "errors" => summary.bad += number(&count[1]),
                            _ => {}
                        }
                    }
                }
            }
            Runner::Unittest => {
                for line in RAN.as_ref()?.captures_iter(&plain) {
                    summary.lines += 1;
                    summary.good += number(&line[1]);
                }
                for line in FAILED.as_ref()?.captures_iter(&plain) {
                    for pair in PAIR.as_ref()?.captures_iter(&line[1]) {
                        if matches!(pair[1].trim(), "failures" | "errors") {
                            summary.bad += number(&pair[2]);
                        }
                    }
                }
            }
        }
        Some(summary)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::swebench::{ParseContext, parse};

    fn check(parser: &str, log: &str, expected: Option<&str>) {
        let map = parse(parser, log, &ParseContext::default()).unwrap();
        assert_eq!(in_marked(log, parser, &map).as_deref(), expected, "{log}");
    }

    #[test]
    fn a_log_of_pytest_counts_what_it_names() {
        let end = "=== 1 failed, 1 passed in 0.02s ===\n";
        let ran = "the runner's last line is not there: it was ended before its end";
        check("parse_log_pytest", &format!("PASSED t.py::a\nFAILED t.py::b - x\n{end}"), None);
        check("parse_log_pytest", "PASSED t.py::a\nPASSED t.py::b\n", Some(ran));
        check(
            "parse_log_pytest",
            &format!("PASSED t.py::a\nFAILED t.py::b - x\n{end}PASSED t.py::b\n"),
            Some("2 tests are said to pass, and the runner counted 1"),
        );
        check(
            "parse_log_pytest_v2",
            &format!("PASSED t.py::a\nFAILED t.py::b - x\n{end}PASSED t.py::b\n2 passed in 0.01s\n"),
            Some("the runner counted 1 failures, and none is named"),
        );
        check("parse_log_pytest", "PASSED t.py::a\n1 passed, 2 warnings in 0.01s (0:00:00)\n", None);
        check("parse_log_pytest", "PASSED t.py::a\n=== 1 passed in 3.20 seconds ===\n", None);
        check("parse_log_sympy", "", None);
        let end = "=== 2 failed, 2 passed in 0.02s ===\n";
        let lines = "PASSED t.py::a\nFAILED t.py::b - x\nFAILED t.py::c\n";
        check(
            "parse_log_pytest",
            &format!("{lines}{end}PASSED t.py::b\n"),
            Some("`t.py::b` is said to fail and to pass"),
        );
        // An error at the end of a test that passed.
        check("parse_log_pytest", "PASSED t.py::a\nERROR t.py::a - x\n1 passed, 1 error in 0.1s\n", None);
    }

    #[test]
    fn a_log_of_unittest_counts_what_it_names() {
        let head = "test_a (x.T) ... ok\ntest_b (x.T) ... FAIL\n";
        let end = "Ran 2 tests in 0.01s\n\nFAILED (failures=1)\n";
        check("parse_log_django", &format!("{head}{end}"), None);
        check(
            "parse_log_django",
            &format!("{head}{end}test_b (x.T) ... ok\n"),
            Some("the runner counted 1 failures, and none is named"),
        );
        check(
            "parse_log_django",
            &format!("{head}FAIL: test_b (x.T)\n{end}test_b (x.T) ... ok\n"),
            Some("`test_b (x.T)` is said to fail and to pass"),
        );
    }

    #[test]
    fn markers_and_exit_codes_are_there_once() {
        check(
            "parse_log_jest",
            ">>>>> Start Test Output\n>>>>> End Test Output\nx\n>>>>> End Test Output\n",
            Some("the marker `>>>>> End Test Output` is there 2 times"),
        );
        check(
            "parse_log_jest",
            ">>>>> Test Exit Code: 0\n+ echo '>>>>> Test Exit Code: 1'\n>>>>> Test Exit Code: 1\n",
            Some("it has the exit codes 0 and 1"),
        );
    }

    /// Logs of real runs, by the beginning of their names.
    #[test]
    fn logs_of_real_runners_do_not_contradict_themselves() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/swebench/real");
        for (start, parser) in [
            ("pytest", "parse_log_pytest"),
            ("pytest", "parse_log_pytest_options"),
            ("pytest", "parse_log_pytest_v2"),
            ("django", "parse_log_django"),
            ("unittest", "parse_log_django"),
        ] {
            let mut found = 0;
            for entry in std::fs::read_dir(&folder).unwrap() {
                let path = entry.unwrap().path();
                let name = path.file_name().unwrap().to_string_lossy().into_owned();
                if name.starts_with(start) {
                    found += 1;
                    let log = crate::swebench::decode_log(&std::fs::read(&path).unwrap());
                    let map = parse(parser, &log, &ParseContext::default()).unwrap();
                    assert_eq!(in_log(&log, parser, &map), None, "{name} {parser}");
                }
            }
            assert!(found > 0, "{start}");
        }
    }
}
