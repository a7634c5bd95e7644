//! Sums a failing test run up: which tests failed, the last line of each error, the first in full.
//!
//! Watches commands that run tests and failed with a long output, of pytest, unittest, `cargo
//! test`, `go test` or jest. Fires when failed tests can be read from it; the policy then reads
//! their names with the last line of each error, the whole report of the first, the closing line
//! of the runner, and how much was left out. Silent when the tests passed, when the output is
//! short enough to read, and when no failed test is found in it.
//!
//! Point: `on-tool-result`. Grants: none.

use tandem_plugin::*;

/// Lines of output from which on it is summed up.
const MIN_LINES: usize = 40; // parameter
/// Failed tests that are named.
const MAX_TESTS: usize = 12; // parameter
/// Lines of the first failure's report that are shown, its last ones.
const FIRST_LINES: usize = 15; // parameter
/// Characters of a line.
const LINE_CHARS: usize = 200; // parameter

pub struct Plugin;

impl OnToolResult for Plugin {
    fn on_tool_result(_context: Context, call: ToolCall, outcome: ToolResult) -> Option<ToolResultEffect> {
        let command = call.command()?;
        if outcome.exit_code.is_none_or(|code| code == 0)
            || !shell::commands(&command).iter().any(shell::runs_tests)
        {
            return None;
        }
        summary(&outcome.text).map(ToolResultEffect::Replace)
    }
}

export_on_tool_result!(Plugin);

/// A failed test with its report.
#[derive(Debug, Default, PartialEq)]
struct Failure {
    name: String,
    error: String,
    /// Lines of the report: first and one past the last.
    report: (usize, usize),
}

fn summary(text: &str) -> Option<String> {
    let lines: Vec<&str> = text.lines().collect();
    if lines.len() < MIN_LINES {
        return None;
    }
    let readers: [fn(&[&str]) -> Vec<Failure>; 5] = [pytest, unittest, cargo, go, jest];
    let failures = readers.iter().map(|read| read(&lines)).find(|failures| !failures.is_empty())?;
    let mut shown: Vec<String> = Vec::new();
    shown.extend(lines.first().filter(|line| line.starts_with("exit code ")).map(|line| (*line).to_owned()));
    let tests = if failures.len() == 1 { "test" } else { "tests" };
    shown.push(format!("[summed up: {} failed {tests}, {} lines of output]", failures.len(), lines.len()));
    for failure in failures.iter().take(MAX_TESTS) {
        let error =
            if failure.error.is_empty() { String::new() } else { format!(": {}", short(&failure.error)) };
        shown.push(format!("- {}{error}", failure.name));
    }
    if failures.len() > MAX_TESTS {
        shown.push(format!("[and {} more]", failures.len() - MAX_TESTS));
    }
    if let Some(first) = failures.iter().find(|failure| failure.report.1 > failure.report.0) {
        let (start, end) = first.report;
        let from = end.saturating_sub(FIRST_LINES).max(start);
        shown.push(format!("[report of {}{}:]", first.name, if from > start { ", its end" } else { "" }));
        shown.extend(lines[from..end].iter().map(|line| short(line)));
    }
    if let Some(last) = lines.iter().rev().find(|line| closes(line)) {
        shown.push(format!("[the runner says: {}]", short(last.trim_matches(['=', ' ']))));
    }
    shown.push("[to see another report, run that test alone]".into());
    Some(shown.join("\n"))
}

/// Whether a line is the one in which a runner counts.
fn closes(line: &str) -> bool {
    let counts = line.contains(" failed") || line.contains(" passed") || line.contains(" error");
    (counts
        && (line.starts_with('=')
            || line.starts_with("test result:")
            || line.starts_with("Tests:")
            || line.contains(" in ")))
        || line.starts_with("FAILED (")
        || line.starts_with("FAIL\t")
}

fn short(line: &str) -> String {
    let line = line.trim_end();
    let cut: String = line.chars().take(LINE_CHARS).collect();
    if cut.len() < line.len() { format!("{cut}…") } else { cut }
}

/// `____ test_name ____` heads a report, lines of its error begin with `E`; a short summary names
/// the tests in full.
fn pytest(lines: &[&str]) -> Vec<Failure> {
    let title = |line: &str| {
        let inside = line
            .strip_prefix("___")?
            .trim_start_matches('_')
            .strip_suffix("___")?
            .trim_end_matches('_')
            .trim();
        (!inside.is_empty()).then(|| inside.to_owned())
    };
    let mut found: Vec<Failure> = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        if let Some(name) = title(line) {
            let end =
                lines[at + 1..].iter().position(|line| title(line).is_some() || line.starts_with("==="));
            let end = end.map_or(lines.len(), |end| at + 1 + end);
            // The first line of the last error; its message may go on.
            let is_error = |line: &&str| line.starts_with("E  ");
            let last = lines[at..end].iter().rposition(|line| is_error(&line)).map_or(at, |last| at + last);
            let above = lines[at..=last].iter().rev().take_while(|line| is_error(line)).count();
            let error = lines
                .get(last + 1 - above.max(1))
                .filter(|line| is_error(line))
                .map_or("", |line| line[1..].trim());
            found.push(Failure { name, error: error.to_owned(), report: (at + 1, end) });
        } else if let Some(rest) = line.strip_prefix("FAILED ").or_else(|| line.strip_prefix("ERROR ")) {
            let (name, error) = rest.split_once(" - ").unwrap_or((rest, ""));
            if !name.contains("::") && !name.ends_with(".py") {
                continue;
            }
            let own = name.split("::").skip(1).collect::<Vec<_>>().join(".");
            let same = |failure: &&mut Failure| failure.name == own || failure.name.ends_with(name);
            match found.iter_mut().find(same) {
                Some(known) => {
                    known.name = name.to_owned();
                    if !error.is_empty() {
                        known.error = error.to_owned();
                    }
                }
                None => {
                    found.push(Failure { name: name.to_owned(), error: error.to_owned(), report: (0, 0) })
                }
            }
        }
    }
    found
}

/// `FAIL: test_name (module.Class)` heads a report, which ends at the next ruled line.
fn unittest(lines: &[&str]) -> Vec<Failure> {
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let Some(name) = line.strip_prefix("FAIL: ").or_else(|| line.strip_prefix("ERROR: ")) else {
            continue;
        };
        if at == 0 || !lines[at - 1].starts_with("=====") {
            continue;
        }
        let is_end = |line: &&str| line.starts_with("=====") || line.starts_with("Ran ");
        let end = lines[at + 1..].iter().position(is_end).map_or(lines.len(), |end| at + 1 + end);
        // The first line at the margin after the last place names the error; its message may go on.
        let place = lines[at..end].iter().rposition(|line| line.starts_with("  File ")).unwrap_or(1);
        let error = lines[at + place + 1..end].iter().find(|line| !line.is_empty() && !line.starts_with(' '));
        let error = error.map_or("", |line| line);
        found.push(Failure { name: (*name).to_owned(), error: error.to_owned(), report: (at + 1, end) });
    }
    found
}

/// `---- name stdout ----` heads a report with `panicked at PLACE:` and the message after it.
fn cargo(lines: &[&str]) -> Vec<Failure> {
    let title = |line: &str| Some(line.strip_prefix("---- ")?.strip_suffix(" stdout ----")?.to_owned());
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let Some(name) = title(line) else { continue };
        let is_end =
            |line: &&str| title(line).is_some() || *line == "failures:" || line.starts_with("test result:");
        let end = lines[at + 1..].iter().position(is_end).map_or(lines.len(), |end| at + 1 + end);
        let panic = lines[at + 1..end].iter().position(|line| line.contains("panicked at"));
        let error = panic.map(|panic| {
            lines[at + 1 + panic..end].iter().take(2).map(|line| line.trim()).collect::<Vec<_>>().join(" ")
        });
        found.push(Failure { name, error: error.unwrap_or_default(), report: (at + 1, end) });
    }
    found
}

/// `--- FAIL: TestName (0.00s)`, then indented lines with file and message.
fn go(lines: &[&str]) -> Vec<Failure> {
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let Some(rest) = line.trim_start().strip_prefix("--- FAIL: ") else { continue };
        let name = rest.split(' ').next().unwrap_or(rest).to_owned();
        let is_inside = |line: &&str| line.starts_with("    ") && !line.trim_start().starts_with("--- ");
        let end = at + 1 + lines[at + 1..].iter().take_while(|line| is_inside(line)).count();
        let error = lines[at + 1..end].first().map_or("", |line| line.trim());
        found.push(Failure { name, error: error.to_owned(), report: (at + 1, end) });
    }
    found
}

/// `● suite › name` heads a report; the message is the first line after it.
fn jest(lines: &[&str]) -> Vec<Failure> {
    let title = |line: &str| line.trim_start().strip_prefix("● ").map(|name| name.trim().to_owned());
    let mut found: Vec<Failure> = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let Some(name) = title(line).filter(|name| !found.iter().any(|known| known.name == *name)) else {
            continue;
        };
        let is_end = |line: &&str| {
            title(line).is_some() || line.starts_with("Test Suites:") || line.starts_with("Tests:")
        };
        let end = lines[at + 1..].iter().position(is_end).map_or(lines.len(), |end| at + 1 + end);
        let error =
            lines[at + 1..end].iter().find(|line| !line.trim().is_empty()).map_or("", |line| line.trim());
        found.push(Failure { name, error: error.to_owned(), report: (at + 1, end) });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names and errors that a reader finds, after lines that say nothing.
    fn check(text: &str, expected: &[(&str, &str)]) {
        let readers: [fn(&[&str]) -> Vec<Failure>; 5] = [pytest, unittest, cargo, go, jest];
        let lines: Vec<&str> = text.lines().collect();
        let found =
            readers.iter().map(|read| read(&lines)).find(|failures| !failures.is_empty()).unwrap_or_default();
        let found: Vec<(&str, &str)> =
            found.iter().map(|failure| (failure.name.as_str(), failure.error.as_str())).collect();
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn each_runner_is_read() {
        check(
            "=== FAILURES ===\n____ TestA.test_x ____\n    def test_x():\n>       assert 1 == 2\nE       AssertionError: no\nE       more: text\n\na.py:3: AssertionError\n____ test_y ____\nE   ValueError: no\n=== short test summary info ===\nFAILED tests/a.py::TestA::test_x\nFAILED tests/a.py::test_y - ValueError: no\n== 2 failed, 1 passed in 0.1s ==\n",
            &[("tests/a.py::TestA::test_x", "AssertionError: no"), ("tests/a.py::test_y", "ValueError: no")],
        );
        check("ERROR tests/b.py - ImportError: x\n", &[("tests/b.py", "ImportError: x")]);
        check(
            "F.\n======\nFAIL: test_x (t.A.test_x)\n------\nTraceback (most recent call last):\n  File \"t.py\", line 3\n    self.assertEqual(1, 2)\nAssertionError: 1 != 2\n- a\n+ b\n : see: x\n\n------\nRan 2 tests in 0.0s\n\nFAILED (failures=1)\n",
            &[("test_x (t.A.test_x)", "AssertionError: 1 != 2")],
        );
        check(
            "test a::b ... FAILED\n\nfailures:\n\n---- a::b stdout ----\nthread 'a::b' panicked at src/a.rs:4:5:\nassertion `left == right` failed\n  left: 1\n\nfailures:\n    a::b\n\ntest result: FAILED. 0 passed; 1 failed\n",
            &[("a::b", "thread 'a::b' panicked at src/a.rs:4:5: assertion `left == right` failed")],
        );
        check(
            "--- FAIL: TestX (0.00s)\n    x_test.go:9: got 1\nFAIL\nFAIL\tm/x\t0.1s\n",
            &[("TestX", "x_test.go:9: got 1")],
        );
        check(
            "  ● sum › adds\n\n    expect(received).toBe(expected)\n\n    Expected: 3\n\nTests: 1 failed, 1 total\n",
            &[("sum › adds", "expect(received).toBe(expected)")],
        );
        check("all fine\n", &[]);
    }

    #[test]
    fn the_first_report_and_the_last_line_are_shown() {
        let noise = "collecting\n".repeat(MIN_LINES);
        let report = "    line\n".repeat(30);
        let text = format!(
            "exit code 1\n{noise}____ test_x ____\n{report}E   ValueError: no\n==== 1 failed in 0.1s ====\n"
        );
        let summary = summary(&text).unwrap();
        assert!(summary.starts_with("exit code 1\n[summed up: 1 failed test, 74 lines of output]\n- test_x: ValueError: no\n[report of test_x, its end:]\n    line\n"), "{summary}");
        assert!(summary.ends_with("E   ValueError: no\n[the runner says: 1 failed in 0.1s]\n[to see another report, run that test alone]"), "{summary}");
        assert_eq!(summary.lines().count(), 4 + FIRST_LINES + 2);
    }

    #[test]
    fn short_or_unknown_output_is_left_alone() {
        assert_eq!(summary("____ test_x ____\nE   no\n"), None);
        assert_eq!(summary(&"x\n".repeat(MIN_LINES + 1)), None);
    }
}
