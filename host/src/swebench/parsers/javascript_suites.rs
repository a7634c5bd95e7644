//! What do the JavaScript runners print whose tests are named by the lines above them?

use std::sync::LazyLock;

use regex::Regex;

use super::javascript::pass_fail_lines;
use super::{ParseContext, Parsed};
use crate::swebench::status::{Status, StatusMap};
use crate::swebench::text::{indent, python, rstrip, strip, without_ansi};

/// Suites by indentation; the innermost is last.
#[derive(Default)]
struct Suites(Vec<(String, usize)>);

impl Suites {
    /// Takes a line as a suite's name, below those that are indented less.
    fn enter(&mut self, line: &str) {
        let indent = indent(line);
        while self.0.last().is_some_and(|(_, outer)| *outer >= indent) {
            self.0.pop();
        }
        self.0.push((strip(line).to_owned(), indent));
    }

    /// The suites' names and the test's, with ` - ` between them.
    fn name(&self, test: &str) -> String {
        let mut names: Vec<&str> = self.0.iter().map(|(name, _)| name.as_str()).collect();
        names.push(test);
        names.join(" - ")
    }
}

/// Jest with `--verbose`; times are cut off names only where they end the line.
pub(super) fn calypso(log: &str, _: &ParseContext<'_>) -> Parsed {
    static TIME: LazyLock<Regex> = LazyLock::new(|| python(r"\(\d+ms\)"));
    static LINES: LazyLock<[[Regex; 2]; 2]> = LazyLock::new(|| {
        ["✓", "✕"].map(|mark| {
            [python(&format!(r"^\s+{mark}\s(.*)\(\d+ms\)$")), python(&format!(r"^\s+{mark}\s(.*)"))]
        })
    });
    let mut map = StatusMap::default();
    let mut suites = Suites::default();
    for part in log.split(" ./node_modules/.bin/jest ").skip(1) {
        for line in part.split('\n') {
            if line.starts_with("Test Suites") || line.starts_with("  ● ") {
                break;
            }
            let marked = [("✓", Status::Passed), ("✕", Status::Failed)]
                .into_iter()
                .zip(LINES.iter())
                .find(|((mark, _), _)| strip(line).starts_with(mark));
            if let Some(((_, status), [timed, plain])) = marked {
                let pattern = if TIME.is_match(line) { timed } else { plain };
                let found = pattern.captures(line).ok_or_else(|| format!("a test has no name: `{line}`"))?;
                // With no suite the name begins with the separator.
                let name =
                    if suites.0.is_empty() { format!(" - {}", &found[1]) } else { suites.name(&found[1]) };
                map.set(strip(&name), status);
            } else if indent(line) > 0 {
                suites.enter(line);
            }
        }
    }
    Ok(map)
}

/// Mocha's `spec` reporter, with the innermost suite alone as a prefix.
pub(super) fn highlightjs(log: &str, _: &ParseContext<'_>) -> Parsed {
    static SUMMARY: LazyLock<Regex> = LazyLock::new(|| python(r"\n[ \t]*\d+ passing"));
    static NUMBER: LazyLock<Regex> = LazyLock::new(|| python(r"^\d+\)"));
    static TIME: LazyLock<Regex> = LazyLock::new(|| python(r"\(\d+ms\)"));
    let log = SUMMARY.find(log).map_or(log, |found| &log[..found.start()]);
    let mut map = StatusMap::default();
    let mut suite: Option<&str> = None;
    let full = |suite: Option<&str>, name: &str| {
        let name = TIME.replace_all(name, "");
        let name = strip(&name);
        suite.map_or(name.to_owned(), |suite| format!("{suite}.{name}"))
    };
    let after = |line: &'_ str, mark: &str| line.split_once(mark).map_or("", |(_, rest)| rest).to_owned();
    for line in log.split('\n') {
        let bare = strip(line);
        if let Some(mark) = ["✓", "✔"].into_iter().find(|mark| bare.starts_with(mark)) {
            map.set(full(suite, &after(line, mark)), Status::Passed);
        } else if NUMBER.is_match(bare) {
            map.set(full(suite, &after(line, ")")), Status::Failed);
        } else if line.starts_with("  ") {
            suite = Some(bare);
        }
    }
    Ok(map)
}

/// Three runners, by the version of the repository.
pub(super) fn lighthouse(log: &str, context: &ParseContext<'_>) -> Parsed {
    if ["9.5", "10.0", "10.2"].contains(&context.version) {
        return Ok(lighthouse_mocha(log));
    }
    let version: f64 = strip(context.version)
        .parse()
        .map_err(|_| format!("the version `{}` is no number", context.version))?;
    if version >= 3.0 {
        return pass_fail_lines(log, context);
    }
    static TITLE: LazyLock<Regex> = LazyLock::new(|| python(r#"(?m)"fullTitle":\s"(.*)",\n"#));
    let mut map = StatusMap::default();
    for part in log.split("./node_modules/.bin/mocha --reporter json").skip(1) {
        for (list, end, status) in
            [("\"passes\": [", "]", Status::Passed), ("\"failures\": [", "],", Status::Failed)]
        {
            let body = part.rsplit(list).next().unwrap_or(part);
            let body = body.rsplit_once(end).map_or(body, |(before, _)| before);
            for found in TITLE.captures_iter(body) {
                map.set(&found[1], status.clone());
            }
        }
    }
    Ok(map)
}

fn lighthouse_mocha(log: &str) -> StatusMap {
    static RUN: LazyLock<Regex> = LazyLock::new(|| python(r"running\s\d+\stest\sfiles"));
    static END: LazyLock<Regex> = LazyLock::new(|| python(r"\d+\spassing"));
    static LINES: LazyLock<[(Regex, Status); 4]> = LazyLock::new(|| {
        [
            (python(r"^✔\s(.*)\s\(\d+m+s\)"), Status::Passed),
            (python(r"^✔\s(.*)"), Status::Passed),
            (python(r"^\d+\)\s(.*)\s\(\d+m+s\)"), Status::Failed),
            (python(r"^\d+\)\s(.*)"), Status::Failed),
        ]
    });
    let mut map = StatusMap::default();
    for run in RUN.split(log).skip(1) {
        let run = strip(END.find(run).map_or(run, |found| &run[..found.start()]));
        let mut suites = Suites::default();
        for line in run.split('\n') {
            let bare = strip(line);
            let found = LINES.iter().find_map(|(pattern, status)| Some((pattern.captures(bare)?, status)));
            if let Some((found, status)) = found {
                map.set(suites.name(&found[1]), status.clone());
            } else if indent(line) > 0 {
                suites.enter(line);
            }
        }
    }
    map
}

/// Two runners, by the version of the repository.
pub(super) fn next(log: &str, context: &ParseContext<'_>) -> Parsed {
    Ok(if context.version == "1.27" { next_cypress(log) } else { next_karma(log) })
}

fn next_karma(log: &str) -> StatusMap {
    static ASSERTION: LazyLock<Regex> = LazyLock::new(|| python(r"AssertionError:\s+#([\s\S]*?)\n\n"));
    static FAIL: LazyLock<Regex> = LazyLock::new(|| python(r"^.*?✗\s*(.*)"));
    static PASS: LazyLock<Regex> = LazyLock::new(|| python(r"^.*?✓\s*(.*)"));
    const NOISE: [&str; 5] = ["ERROR", "LOG", "WARN", "Check", "in"];
    let log = without_ansi(log);
    let log = ASSERTION.replace_all(&log, "");
    let mut map = StatusMap::default();
    let mut suites = Suites::default();
    for part in log.split(" xvfb-run ").skip(1) {
        let part = part.rsplit("Starting browser Chrome").next().unwrap_or(part);
        for line in part.split('\n') {
            if line.starts_with("TOTAL") {
                break;
            } else if NOISE.iter().any(|word| strip(line).starts_with(word)) {
                continue;
            } else if let Some(found) = FAIL.captures(line) {
                map.set(suites.name(&found[1]), Status::Failed);
            } else if let Some(found) = PASS.captures(line) {
                map.set(suites.name(&found[1]), Status::Passed);
            } else if indent(line) > 0 {
                suites.enter(line);
            }
        }
    }
    map
}

fn next_cypress(log: &str) -> StatusMap {
    static SUITE: LazyLock<Regex> = LazyLock::new(|| python(r"Running\:(.*)\)\n{3}\s{2}(.*)\n"));
    static FAIL: LazyLock<Regex> = LazyLock::new(|| python(r"(?m)^\s{4}\d+\)\s(.*)"));
    static PASS: LazyLock<Regex> = LazyLock::new(|| python(r"(?m)^\s{4}✓\s(.*)\("));
    let mut map = StatusMap::default();
    let suites: Vec<_> = SUITE.captures_iter(log).collect();
    for (suite, body) in suites.iter().zip(SUITE.split(log).skip(1)) {
        for (pattern, status) in [(&FAIL, Status::Failed), (&PASS, Status::Passed)] {
            for found in pattern.captures_iter(body) {
                map.set(format!("{}: {}", &suite[2], strip(&found[1])), status.clone());
            }
        }
    }
    map
}

/// Karma's `mocha` reporter, up to its summary.
pub(super) fn karma(log: &str, _: &ParseContext<'_>) -> Parsed {
    static LINE: LazyLock<Regex> = LazyLock::new(|| python(r"^(\s*)?([✔✖])?\s(.*)$"));
    let mut map = StatusMap::default();
    let mut suites: Vec<String> = Vec::new();
    let mut depth: Option<usize> = None;
    let mut started = false;
    for line in log.split('\n') {
        if line.starts_with("SUMMARY:") {
            break;
        }
        if line.contains("Starting browser") {
            started = true;
            continue;
        }
        if !started {
            continue;
        }
        let Some(found) = LINE.captures(line) else { continue };
        let name = &found[3];
        match found.get(2).map(|mark| mark.as_str()) {
            Some(mark) => {
                let mut names: Vec<&str> = suites.iter().map(String::as_str).collect();
                names.push(name);
                map.set(names.join(" > "), if mark == "✔" { Status::Passed } else { Status::Failed });
            }
            None => {
                let indent = found.get(1).map_or(0, |space| space.as_str().chars().count());
                if indent == 0 || depth == Some(indent) {
                    continue;
                }
                if depth.is_none_or(|depth| indent > depth) {
                    suites.push(name.to_owned());
                } else {
                    suites.pop().ok_or("a suite ends that never began")?;
                }
                depth = Some(indent);
            }
        }
    }
    Ok(map)
}

/// Mocha's list of failures, without the JSON and XML that tests print.
pub(super) fn p5js(log: &str, _: &ParseContext<'_>) -> Parsed {
    // Python allows 1000 characters between the number and the colon.
    const MOST: usize = 1000;
    static NUMBER: LazyLock<Regex> = LazyLock::new(|| python(r"(?m)^\s*(\d+)\)"));
    let log = without_xml_blocks(without_json_blocks(&without_ansi(log)));
    let mut map = StatusMap::default();
    let mut from = 0;
    while let Some(found) = NUMBER.find_at(&log, from) {
        let rest = &log[found.end()..];
        let colon = rest.char_indices().take(MOST + 1).find(|(_, c)| *c == ':').map(|(at, _)| at);
        let Some(colon) = colon else {
            from = found.end();
            continue;
        };
        let names = &rest[..colon];
        if deepens(names) {
            let names: Vec<&str> = names.split('\n').map(strip).collect();
            map.set(names.join(":"), Status::Failed);
        }
        from = found.end() + colon + 1;
    }
    Ok(map)
}

/// Whether each line is indented more than the one before it.
fn deepens(text: &str) -> bool {
    let mut last = 0;
    text.split('\n').all(|line| {
        let deeper = indent(line) > last;
        last = indent(line);
        deeper
    })
}

fn without_json_blocks(log: &str) -> String {
    let mut kept = Vec::new();
    let (mut in_object, mut in_list) = (false, false);
    for line in log.split('\n') {
        let bare = rstrip(line);
        if bare.ends_with('{') {
            in_object = true;
        } else if bare.ends_with('[') {
            in_list = true;
        } else if bare == "}" && in_object {
            in_object = false;
        } else if bare == "]" && in_list {
            in_list = false;
        } else if in_object
            || in_list
            || (bare.starts_with('{') && bare.ends_with('}'))
            || (bare.starts_with('[') && bare.ends_with(']'))
        {
            continue;
        } else {
            kept.push(line);
        }
    }
    kept.join("\n")
}

/// Cuts the first `<tag>…</tag>` out until there is none; tags that were opened
/// more than once are put back.
fn without_xml_blocks(mut log: String) -> String {
    static OPEN: LazyLock<Regex> = LazyLock::new(|| python(r"<(\w+)>"));
    loop {
        let block = OPEN.captures_iter(&log).find_map(|found| {
            let (start, open) = (found.get(0)?.start(), found[0].to_owned());
            let after = start + open.len();
            let close = format!("</{}>", &found[1]);
            let end = after + log[after..].find(&close)? + close.len();
            let opened = log[start..end].matches(&open).count();
            Some((start, end, open.repeat(opened.saturating_sub(1))))
        });
        let Some((start, end, again)) = block else { return log };
        log.replace_range(start..end, &again);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_cut_until_none_is_left() {
        let check = |text: &str, expected: &str| assert_eq!(without_xml_blocks(text.into()), expected);
        check("a<b>x</b>c", "ac");
        check("<b><b>x</b>y</b>z", "z");
        check("<b>x</c>", "<b>x</c>");
        check("<fo<x>1</x>o>y</foo>", "");
    }
}
