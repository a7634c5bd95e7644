//! What do the runners of Ruby and PHP print?

use std::sync::LazyLock;

use regex::Regex;

use super::{ParseContext, Parsed};
use crate::swebench::status::{Status, StatusMap};
use crate::swebench::text::{python, strip};

/// Lines that match `pattern`, whose groups are a name and an outcome.
fn name_and_outcome(log: &str, pattern: &Regex, status: fn(&str) -> Status) -> StatusMap {
    let mut map = StatusMap::default();
    for line in log.split('\n') {
        if let Some(found) = pattern.captures(strip(line)) {
            map.set(&found[1], status(&found[2]));
        }
    }
    map
}

pub(super) fn minitest(log: &str, _: &ParseContext<'_>) -> Parsed {
    static LINE: LazyLock<Regex> = LazyLock::new(|| python(r"^(.+)\. .*=.*(\.|F|E).*$"));
    Ok(name_and_outcome(log, &LINE, |word| if word == "." { Status::Passed } else { Status::Failed }))
}

pub(super) fn cucumber(log: &str, _: &ParseContext<'_>) -> Parsed {
    static LINE: LazyLock<Regex> = LazyLock::new(|| python(r"^(.*) \.+(\.|F)"));
    Ok(name_and_outcome(log, &LINE, |word| if word == "." { Status::Passed } else { Status::Failed }))
}

pub(super) fn rspec(log: &str, _: &ParseContext<'_>) -> Parsed {
    static LINE: LazyLock<Regex> = LazyLock::new(|| python(r"^(.+) - (passed|failed)"));
    Ok(name_and_outcome(log, &LINE, |word| if word == "passed" { Status::Passed } else { Status::Failed }))
}

/// A letter counts only at the end of a word; the pattern reads one character more
/// to see that, since this engine looks ahead at nothing.
pub(super) fn ruby_unit(log: &str, _: &ParseContext<'_>) -> Parsed {
    static LINE: LazyLock<Regex> =
        LazyLock::new(|| python(r"^\s*(?:test: )?(.+):\s+(?:(\.)|([EFO])(?:[^\w]|$))"));
    let mut map = StatusMap::default();
    for line in log.split('\n') {
        let Some(found) = LINE.captures(strip(line)) else { continue };
        let status = match found.get(3).map(|letter| letter.as_str()) {
            None => Status::Passed,
            Some("O") => Status::Skipped,
            Some(_) => Status::Failed,
        };
        map.set(&found[1], status);
    }
    Ok(map)
}

/// Some instances of one repository use one runner, some another.
pub(super) fn jekyll(log: &str, context: &ParseContext<'_>) -> Parsed {
    match context.instance_id.split('-').nth(1) {
        Some("9141" | "8047" | "8167") => minitest(log, context),
        Some("8761" | "8771") => cucumber(log, context),
        _ => Err(format!("unknown instance `{}`", context.instance_id)),
    }
}

/// PHPUnit with `--testdox`.
pub(super) fn phpunit(log: &str, _: &ParseContext<'_>) -> Parsed {
    static SUITE: LazyLock<Regex> = LazyLock::new(|| python(r"^(\w.+) \(.+\)$"));
    static TEST: LazyLock<Regex> = LazyLock::new(|| python(r"^\s*([✔✘↩])\s*(.*)$"));
    let mut map = StatusMap::default();
    // Python formats a suite that was never named as `None`.
    let mut suite = "None".to_owned();
    for line in log.split('\n') {
        if let Some(found) = SUITE.captures(line) {
            suite = found[1].to_owned();
        } else if let Some(found) = TEST.captures(line) {
            let status = match &found[1] {
                "✔" => Status::Passed,
                "✘" => Status::Failed,
                _ => Status::Skipped,
            };
            map.set(format!("{suite} > {}", &found[2]), status);
        }
    }
    Ok(map)
}
