//! What do the JavaScript runners print that name each test on one line?

use std::collections::HashMap;
use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

use super::{ParseContext, Parsed};
use crate::swebench::status::{Status, StatusMap};
use crate::swebench::text::{before, python, strip, without_ansi};

/// Lines that match `pattern`: a mark, then a name. Marks are those of passed,
/// failed and skipped tests.
fn marked_lines(log: &str, pattern: &Regex, marks: [&str; 3], tidy: fn(&str) -> &str) -> StatusMap {
    let mut map = StatusMap::default();
    for line in log.split('\n') {
        let Some(found) = pattern.captures(strip(line)) else { continue };
        let (mark, name) = (&found[1], &found[2]);
        let statuses = [Status::Passed, Status::Failed, Status::Skipped];
        if let Some((_, status)) = marks.into_iter().zip(statuses).find(|(known, _)| *known == mark) {
            map.set(tidy(name), status);
        }
    }
    map
}

/// Jest with `--verbose`.
pub(super) fn jest(log: &str, _: &ParseContext<'_>) -> Parsed {
    static LINE: LazyLock<Regex> = LazyLock::new(|| python(r"^\s*(✓|✕|○)\s(.+?)(?:\s\((\d+\s*m?s)\))?$"));
    Ok(marked_lines(log, &LINE, ["✓", "✕", "○"], strip))
}

/// Jest with `--json`, put through the data set's own filter.
pub(super) fn jest_json(log: &str, _: &ParseContext<'_>) -> Parsed {
    static LINE: LazyLock<Regex> = LazyLock::new(|| python(r"^\[(PASSED|FAILED)\]\s(.+)$"));
    Ok(marked_lines(log, &LINE, ["PASSED", "FAILED", ""], |name| name))
}

/// Vitest with `--reporter=verbose`.
pub(super) fn vitest(log: &str, _: &ParseContext<'_>) -> Parsed {
    static LINE: LazyLock<Regex> =
        LazyLock::new(|| python(r"^\s*(✓|×|↓)\s(.+?)(?:\s(\d+\s*m?s?|\[skipped\]))?$"));
    Ok(marked_lines(log, &LINE, ["✓", "×", "↓"], |name| name))
}

pub(super) fn tap(log: &str, _: &ParseContext<'_>) -> Parsed {
    static LINE: LazyLock<Regex> = LazyLock::new(|| python(r"^(ok|not ok) (?:\d+) (.+)$"));
    Ok(marked_lines(log, &LINE, ["ok", "not ok", ""], |name| name))
}

/// Some instances of one repository use one way to print, some another.
pub(super) fn immutable_js(log: &str, context: &ParseContext<'_>) -> Parsed {
    match context.instance_id.rsplit('-').next() {
        Some("2006") => jest(log, context),
        Some("2005") => jest_json(log, context),
        _ => Err(format!("unknown instance `{}`", context.instance_id)),
    }
}

/// Jest without `--verbose`: `PASS` or `FAIL`, a file, and its time.
pub(super) fn pass_fail_lines(log: &str, _: &ParseContext<'_>) -> Parsed {
    static LINES: LazyLock<Vec<(Regex, Status)>> = LazyLock::new(|| {
        let mut lines = Vec::new();
        for (word, status) in [("PASS", Status::Passed), ("FAIL", Status::Failed)] {
            for time in [r"\s\([\d\.]+ms\)", r"\s\([\d\.]+\ss\)", r"\s\([\d\.]+s\)", ""] {
                lines.push((python(&format!(r"^{word}\s(.*){time}")), status.clone()));
            }
        }
        lines
    });
    let mut map = StatusMap::default();
    for line in log.split('\n') {
        let found = LINES.iter().find_map(|(pattern, status)| Some((pattern.captures(line)?, status)));
        if let Some((found, status)) = found {
            map.set(&found[1], status.clone());
        }
    }
    Ok(map)
}

/// As [`pass_fail_lines`], read over the whole log: failures first.
pub(super) fn grommet(log: &str, _: &ParseContext<'_>) -> Parsed {
    static FAIL: LazyLock<Regex> = LazyLock::new(|| python(r"(?m)^FAIL\s(.*)"));
    static PASS: LazyLock<Regex> = LazyLock::new(|| python(r"(?m)^PASS\s(.*)"));
    static TIME: LazyLock<Regex> = LazyLock::new(|| python(r"\s\([\d\.]+\s?(?:ms|s)\)$"));
    let mut map = StatusMap::default();
    for (pattern, status) in [(&FAIL, Status::Failed), (&PASS, Status::Passed)] {
        for found in pattern.captures_iter(log) {
            map.set(TIME.replace_all(strip(&found[1]), ""), status.clone());
        }
    }
    Ok(map)
}

/// Mocha's list of failures.
pub(super) fn eslint(log: &str, _: &ParseContext<'_>) -> Parsed {
    static FAILURE: LazyLock<Regex> = LazyLock::new(|| python(r"(\s{2}\d+\))([\s\S]*?)\s+(?:(.*)Error)"));
    let mut map = StatusMap::default();
    for found in FAILURE.captures_iter(log) {
        map.set(one_line(&found[2]), Status::Failed);
    }
    Ok(map)
}

/// White space as single spaces, none at the ends.
fn one_line(text: &str) -> String {
    static SPACE: LazyLock<Regex> = LazyLock::new(|| python(r"\s+"));
    strip(&SPACE.replace_all(text, " ")).to_owned()
}

/// Karma's failures; the last group of a pattern is the name.
pub(super) fn bpmn_js(log: &str, _: &ParseContext<'_>) -> Parsed {
    static FAILURES: LazyLock<[Regex; 4]> = LazyLock::new(|| {
        [
            r"2KPhantomJS\s[\d\.]+\s\(Linux\s[\d\.]+\)\s(.*)FAILED\n",
            r"2KPhantomJS\s[\d\.]+\s\(Linux\sx86\_64\)\s(.*)FAILED\n",
            r"Chrome\sHeadless\s(?:.*)\s\(Linux\sx86\_64\)\s(.*)FAILED\n",
            r"HeadlessChrome\s[\d\.]+\s\(Linux\s[\d\.]+\)\s(.*)FAILED\n",
        ]
        .map(python)
    });
    let mut map = StatusMap::default();
    for found in FAILURES.iter().flat_map(|pattern| pattern.captures_iter(log)) {
        map.set(&found[1], Status::Failed);
    }
    Ok(map)
}

pub(super) fn openlayers(log: &str, _: &ParseContext<'_>) -> Parsed {
    static FAILURES: LazyLock<[Regex; 4]> = LazyLock::new(|| {
        [
            r"(?m)Chrome\sHeadless\s[\d\.]+\s\(Linux\s[\d\.\_\S]+\)\s(.*)\sFAILED\n",
            r"(?m)Chrome\s[\d\.]+\s\(Linux\s[\d\.\_\S]+\)\s(.*)FAILED\n",
            r"(?m)^\s{2}\d+\)([\s\S]*?)Error:",
            r"(?m)^case\s(.*):\smismatch",
        ]
        .map(python)
    });
    let mut map = StatusMap::default();
    for found in FAILURES.iter().flat_map(|pattern| pattern.captures_iter(log)) {
        map.set(one_line(&found[1]), Status::Failed);
    }
    Ok(map)
}

pub(super) fn chart_js(log: &str, _: &ParseContext<'_>) -> Parsed {
    static FAILURE: LazyLock<Regex> =
        LazyLock::new(|| python(r"(?m)Chrome\s[\d\.]+[^\S\r\n]\(.+?\)[^\S\r\n](.*)FAILED$"));
    let mut map = StatusMap::default();
    for found in FAILURE.captures_iter(&without_ansi(log)) {
        map.set(&found[1], Status::Failed);
    }
    Ok(map)
}

/// Jasmine's list of failures.
pub(super) fn marked(log: &str, _: &ParseContext<'_>) -> Parsed {
    static FAILURE: LazyLock<Regex> = LazyLock::new(|| python(r"^\d+\)\s(.*)"));
    let mut map = StatusMap::default();
    for found in log.split('\n').filter_map(|line| FAILURE.captures(line)) {
        map.set(strip(&found[1]), Status::Failed);
    }
    Ok(map)
}

/// Mocha's JSON reporter, once for each time that the command stands in the log.
pub(super) fn prismjs(log: &str, _: &ParseContext<'_>) -> Parsed {
    const COMMAND: &str = "./node_modules/.bin/mocha tests/run.js --reporter json";
    let mut map = StatusMap::default();
    for part in log.split(COMMAND).skip(1) {
        let body = part.split_once('{').map_or(part, |(_, after)| after);
        let body = body.rsplit_once('}').map_or(body, |(before, _)| before);
        let report: Value = serde_json::from_str(&format!("{{{body}}}"))
            .map_err(|error| format!("the JSON report: {error}"))?;
        for (list, status) in [("failures", Status::Failed), ("passes", Status::Passed)] {
            let tests = report.get(list).and_then(Value::as_array);
            for test in tests.ok_or_else(|| format!("the JSON report has no list `{list}`"))? {
                let title = test.get("fullTitle").and_then(Value::as_str);
                map.set(title.ok_or("a test of the JSON report has no `fullTitle`")?, status.clone());
            }
        }
    }
    Ok(map)
}

/// Quarto's runner on Deno. Names of temporary files are numbered.
pub(super) fn quarto_cli(log: &str, _: &ParseContext<'_>) -> Parsed {
    static TEMPORARY: LazyLock<[Regex; 2]> =
        LazyLock::new(|| [r"/tmp/(\w+)\.qmd", r"/tmp/(\w+)/"].map(python));
    let mut numbers: HashMap<String, usize> = HashMap::new();
    let mut map = StatusMap::default();
    for line in log.split('\n') {
        if line.contains("ERRORS") || line.contains("failures:") {
            break;
        }
        if !line.contains("[smoke]") && !line.contains("[unit]") {
            continue;
        }
        let mut line = line.to_owned();
        for pattern in TEMPORARY.iter() {
            let Some(found) = pattern.find(&line) else { continue };
            let next = numbers.len();
            let number = *numbers.entry(found.as_str().to_owned()).or_insert(next);
            line = pattern.replace_all(&line, format!("/tmp/{number}")).into_owned();
        }
        let name = strip(before(&line, "..."));
        let steps = ["passed", "failed", "steps"].iter().all(|word| line.contains(word));
        if line.starts_with("test result:") || steps || line.contains("34mINFO") {
            continue;
        }
        if line.contains("32mok") {
            map.set(name, Status::Passed);
        } else if line.contains("31mFAILED") || map.get(name).is_none() {
            map.set(name, Status::Failed);
        }
    }
    Ok(map)
}
