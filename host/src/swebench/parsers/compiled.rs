//! What do the runners of C, C++, Go and Rust print?

use std::sync::LazyLock;

use regex::Regex;

use super::{ParseContext, Parsed};
use crate::swebench::status::{Status, StatusMap};
use crate::swebench::text::{python, strip};

/// Lines that match `pattern`, whose first two groups are a status word and a name.
pub(super) fn status_and_name(log: &str, pattern: &Regex, status: fn(&str) -> Option<Status>) -> StatusMap {
    let mut map = StatusMap::default();
    for line in log.split('\n') {
        if let Some(found) = pattern.captures(strip(line))
            && let Some(status) = status(&found[1])
        {
            map.set(&found[2], status);
        }
    }
    map
}

pub(super) fn redis(log: &str, _: &ParseContext<'_>) -> Parsed {
    static LINE: LazyLock<Regex> =
        LazyLock::new(|| python(r"^\[(ok|err|skip|ignore)\]:\s(.+?)(?:\s\((\d+\s*m?s)\))?$"));
    static PLACE: LazyLock<Regex> = LazyLock::new(|| python(r"\s+in\s+\S+$"));
    let mut map = StatusMap::default();
    for line in log.split('\n') {
        let Some(found) = LINE.captures(strip(line)) else { continue };
        match &found[1] {
            "ok" => map.set(&found[2], Status::Passed),
            // A failed test is named with its place in the file.
            "err" => map.set(PLACE.replace_all(&found[2], ""), Status::Failed),
            _ => map.set(&found[2], Status::Skipped),
        }
    }
    Ok(map)
}

pub(super) fn jq(log: &str, _: &ParseContext<'_>) -> Parsed {
    static LINE: LazyLock<Regex> = LazyLock::new(|| python(r"^\s*(PASS|FAIL):\s(.+)$"));
    Ok(status_and_name(log, &LINE, |word| Some(if word == "PASS" { Status::Passed } else { Status::Failed })))
}

pub(super) fn micropython(log: &str, _: &ParseContext<'_>) -> Parsed {
    static LINE: LazyLock<Regex> = LazyLock::new(|| python(r"^(pass|FAIL|skip)\s+(.+)$"));
    Ok(status_and_name(log, &LINE, |word| {
        Some(match word {
            "pass" => Status::Passed,
            "FAIL" => Status::Failed,
            _ => Status::Skipped,
        })
    }))
}

pub(super) fn googletest(log: &str, _: &ParseContext<'_>) -> Parsed {
    static LINE: LazyLock<Regex> = LazyLock::new(|| python(r"^.*\[\s*(OK|FAILED)\s*\]\s(.*)\s\(.*\)$"));
    Ok(status_and_name(log, &LINE, |word| Some(if word == "OK" { Status::Passed } else { Status::Failed })))
}

pub(super) fn gotest(log: &str, _: &ParseContext<'_>) -> Parsed {
    static LINE: LazyLock<Regex> = LazyLock::new(|| python(r"^--- (PASS|FAIL|SKIP): (.+) \((.+)\)$"));
    Ok(status_and_name(log, &LINE, |word| {
        Some(match word {
            "PASS" => Status::Passed,
            "FAIL" => Status::Failed,
            _ => Status::Skipped,
        })
    }))
}

pub(super) fn cargo(log: &str, _: &ParseContext<'_>) -> Parsed {
    static LINE: LazyLock<Regex> = LazyLock::new(|| python(r"^test\s+(\S+)\s+\.\.\.\s+(\w+)$"));
    let mut map = StatusMap::default();
    for line in log.split('\n') {
        let Some(found) = LINE.captures(strip(line)) else { continue };
        match &found[2] {
            "ok" => map.set(&found[1], Status::Passed),
            "FAILED" => map.set(&found[1], Status::Failed),
            _ => {}
        }
    }
    Ok(map)
}

/// doctest's XML report (`-s -r=xml`): a sub-case passes when all its expressions do.
pub(super) fn doctest(log: &str, _: &ParseContext<'_>) -> Parsed {
    const END: &str = "</doctest>";
    let mut map = StatusMap::default();
    let Some(start) = log.find("<doctest") else { return Ok(map) };
    let Some(length) = log[start..].find(END) else {
        return Err("the XML report does not end".into());
    };
    let xml = &log[start..start + length + END.len()];
    let document = roxmltree::Document::parse(xml).map_err(|error| format!("the XML report: {error}"))?;
    // Python's reader has the names of XML 1.0's fourth edition, which end at U+D7A3.
    let is_known = |name: &str| name.chars().all(|c| c <= '\u{d7a3}');
    for node in document.root().descendants().filter(roxmltree::Node::is_element) {
        let mut names = node.attributes().map(|attribute| attribute.name()).chain([node.tag_name().name()]);
        if let Some(name) = names.find(|name| !is_known(name)) {
            return Err(format!("the XML report: `{name}` is no name"));
        }
    }
    let under = |node: roxmltree::Node<'_, '_>, tag: &'static str| {
        let found = node.descendants().filter(move |found| *found != node && found.has_tag_name(tag));
        found.map(|found| found.id()).collect::<Vec<_>>()
    };
    // Python formats a missing name as `None`.
    let name = |node: roxmltree::Node<'_, '_>| node.attribute("name").unwrap_or("None").to_owned();
    let node = |id| document.get_node(id).unwrap_or(document.root());
    for case in under(document.root_element(), "TestCase").into_iter().map(node) {
        for part in under(case, "SubCase").into_iter().map(node) {
            let passed = under(part, "Expression")
                .into_iter()
                .all(|expression| node(expression).attribute("success") == Some("true"));
            let status = if passed { Status::Passed } else { Status::Failed };
            map.set(format!("{} > {}", name(case), name(part)), status);
        }
    }
    Ok(map)
}
