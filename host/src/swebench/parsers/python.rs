//! What do pytest, Django's runner and SymPy's runner print?

use std::sync::LazyLock;

use regex::Regex;

use super::{ParseContext, Parsed};
use crate::swebench::status::{Status, StatusMap};
use crate::swebench::text::{before, lstrip, python, strip, words};

fn begins_with_a_status(line: &str) -> bool {
    Status::WORDS.iter().any(|word| line.starts_with(word))
}

/// pytest's `SKIPPED [2] path:line: reason`, where `[2]` is a count and no test.
fn is_skip_summary(status: &str, name: &str) -> bool {
    static COUNT: LazyLock<Regex> = LazyLock::new(|| python(r"^\[\d+\]$"));
    status == "SKIPPED" && COUNT.is_match(name)
}

/// The first two words of a line that begins with a status.
fn status_line(line: &str) -> Option<(String, String)> {
    if !begins_with_a_status(line) {
        return None;
    }
    let line = if line.starts_with("FAILED") { line.replace(" - ", " ") } else { line.to_owned() };
    let words = words(&line);
    let (status, name) = (*words.first()?, *words.get(1)?);
    (!is_skip_summary(status, name)).then(|| (status.to_owned(), name.to_owned()))
}

pub(super) fn pytest(log: &str, _: &ParseContext<'_>) -> Parsed {
    let mut map = StatusMap::default();
    for (status, name) in log.split('\n').filter_map(status_line) {
        map.set(name, Status::of(&status));
    }
    Ok(map)
}

pub(super) fn matplotlib(log: &str, _: &ParseContext<'_>) -> Parsed {
    let mut map = StatusMap::default();
    for line in log.split('\n') {
        let line = line.replace("MouseButton.LEFT", "1").replace("MouseButton.RIGHT", "3");
        if let Some((status, name)) = status_line(&line) {
            map.set(name, Status::of(&status));
        }
    }
    Ok(map)
}

/// A parameter that is an absolute path is cut to its last part.
pub(super) fn pytest_options(log: &str, _: &ParseContext<'_>) -> Parsed {
    static OPTION: LazyLock<Regex> = LazyLock::new(|| python(r"(.*?)\[(.*)\]"));
    let mut map = StatusMap::default();
    for (status, name) in log.split('\n').filter_map(status_line) {
        let name = match OPTION.captures(&name) {
            Some(found) => {
                let option = &found[2];
                let is_path = option.starts_with('/') && !option.starts_with("//") && !option.contains('*');
                let last = option.rsplit('/').next().unwrap_or(option);
                if is_path { format!("{}[/{last}]", &found[1]) } else { format!("{}[{option}]", &found[1]) }
            }
            None => name,
        };
        map.set(name, Status::of(&status));
    }
    Ok(map)
}

/// Names with spaces; older versions print the status last.
pub(super) fn pytest_v2(log: &str, _: &ParseContext<'_>) -> Parsed {
    static COLOUR: LazyLock<Regex> = LazyLock::new(|| python(r"\[(\d+)m"));
    let mut map = StatusMap::default();
    for line in log.split('\n') {
        let line = COLOUR.replace_all(line, "");
        let line: String = line.chars().filter(|c| !('\u{1}'..='\u{1f}').contains(c)).collect();
        if begins_with_a_status(&line) {
            let kept = if line.starts_with("FAILED") { before(&line, " - ") } else { &line };
            let words = words(kept);
            if words.len() >= 2 && !is_skip_summary(words[0], words[1]) {
                map.set(words[1..].join(" "), Status::of(words[0]));
            }
        } else if Status::WORDS.iter().any(|word| line.ends_with(word)) {
            let words = words(&line);
            if let [name @ .., status] = words.as_slice()
                && !name.is_empty()
            {
                map.set(name.join(" "), Status::of(status));
            }
        }
    }
    Ok(map)
}

pub(super) fn seaborn(log: &str, _: &ParseContext<'_>) -> Parsed {
    let mut map = StatusMap::default();
    for line in log.split('\n') {
        let words = words(line);
        if words.len() < 2 {
            continue;
        }
        if line.starts_with("FAILED") {
            map.set(words[1], Status::Failed);
        } else if line.contains(" PASSED ") {
            if words[1] == "PASSED" {
                map.set(words[0], Status::Passed);
            }
        } else if line.starts_with("PASSED") {
            map.set(words[1], Status::Passed);
        }
    }
    Ok(map)
}

pub(super) fn sympy(log: &str, _: &ParseContext<'_>) -> Parsed {
    static FAILURE: LazyLock<Regex> = LazyLock::new(|| python(r"(_*) (.*)\.py:(.*) (_*)"));
    let mut map = StatusMap::default();
    for found in FAILURE.captures_iter(log) {
        map.set(format!("{}.py:{}", &found[2], &found[3]), Status::Failed);
    }
    for line in log.split('\n') {
        let line = strip(line);
        if !line.starts_with("test_") {
            continue;
        }
        let ends = [(" E", Status::Error), (" F", Status::Failed), (" ok", Status::Passed)];
        for (end, status) in ends {
            if line.ends_with(end) {
                map.set(words(line)[0], status);
            }
        }
    }
    Ok(map)
}

/// Test outputs that a long message cuts in two, each with the lines it spans.
static DJANGO_SPANS: LazyLock<[Regex; 3]> = LazyLock::new(|| {
    [
        r"(?m)^(.*?)\s\.\.\.\sTesting\ against\ Django\ installed\ in\ ((?s:.*?))\ silenced\)\.\nok$",
        r"(?m)^(.*?)\s\.\.\.\sInternal\ Server\ Error:\ \/(.*)\/\nok$",
        r"(?m)^(.*?)\s\.\.\.\sSystem check identified no issues \(0 silenced\)\nok$",
    ]
    .map(python)
});

pub(super) fn django(log: &str, _: &ParseContext<'_>) -> Parsed {
    const VERSION: &str = "--version is equivalent to version";
    const NO_MIGRATIONS: &str = "Applying sites.0002_alter_domain_unique...test_no_migrations";
    let mut map = StatusMap::default();
    let mut previous: Option<String> = None;
    for line in log.split('\n') {
        let mut line = strip(line);
        if line.contains(VERSION) {
            map.set(VERSION, Status::Passed);
        }
        if line.contains(" ... ") {
            previous = Some(before(line, " ... ").to_owned());
        }
        for suffix in [" ... ok", " ... OK", " ...  OK"] {
            if line.ends_with(suffix) {
                if line.starts_with(NO_MIGRATIONS) {
                    line = strip(line.split_once("...").map_or(line, |(_, rest)| rest));
                }
                map.set(line.rsplit_once(suffix).map_or(line, |(name, _)| name), Status::Passed);
                break;
            }
        }
        if line.contains(" ... skipped") {
            map.set(before(line, " ... skipped"), Status::Skipped);
        }
        for (suffix, heading, status) in
            [(" ... FAIL", "FAIL:", Status::Failed), (" ... ERROR", "ERROR:", Status::Error)]
        {
            if line.ends_with(suffix) {
                map.set(before(line, suffix), status.clone());
            }
            if line.starts_with(heading) {
                let words = words(line);
                let name = words.get(1).ok_or_else(|| format!("`{heading}` without a test"))?;
                map.set(*name, status);
            }
        }
        if lstrip(line).starts_with("ok")
            && let Some(name) = &previous
        {
            map.set(name.as_str(), Status::Passed);
        }
    }
    for span in DJANGO_SPANS.iter() {
        for found in span.captures_iter(log) {
            map.set(&found[1], Status::Passed);
        }
    }
    Ok(map)
}

/// SWE-smith's Python repositories: pytest with `--verbose`, the status after the name.
pub(super) fn swesmith(log: &str, _: &ParseContext<'_>) -> Parsed {
    static LINE: LazyLock<Regex> = LazyLock::new(|| python(r"^(\S+)\s+(FAILED|PASSED|SKIPPED|ERROR|XFAIL)"));
    let mut map = StatusMap::default();
    for found in log.split('\n').filter_map(|line| LINE.captures(line)) {
        map.set(&found[1], Status::of(&found[2]));
    }
    Ok(map)
}
