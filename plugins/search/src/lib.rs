//! The tool `search`: lines that contain a text, with the lines around them.
//!
//! Answers when the policy calls it. It gives matches by file with line numbers, marks them among
//! the lines around them, and says how many there are beyond those shown; when nothing matches it
//! says so, and whether another case or the name alone would match. Arguments that make no sense
//! are answered with what to write instead.
//!
//! Interface: `tools`. Grants: `workspace-read`.

use tandem_plugin::json::Value;
use tandem_plugin::*;

/// Matches that are shown.
const MAX_HITS: usize = 20; // parameter
/// Lines around each match, unless the call says how many.
const CONTEXT: usize = 2; // parameter
/// Most lines around a match that a call may ask for.
const MAX_CONTEXT: usize = 10; // parameter
/// Characters of a line.
const LINE_CHARS: usize = 160; // parameter
const DESCRIPTION: &str = "Find lines that contain a text (no pattern, case matters). \
    path: only in this folder or file. suffix: only in files that end so, like .py. context: lines around each match."; // parameter

const SCHEMA: &str = r#"{"type":"object","properties":{
"text":{"type":"string"},
"path":{"type":"string","description":"relative to the repository"},
"suffix":{"type":"string"},
"context":{"type":"integer","minimum":0}},
"required":["text"]}"#;

/// Matches that the host is asked for: those in other folders are left out afterwards.
const ASKED: u32 = 1_000;

pub struct Plugin;

impl Tools for Plugin {
    fn definitions() -> Vec<ToolDefinition> {
        vec![ToolDefinition {
            name: "search".into(),
            description: DESCRIPTION.into(),
            input_schema: SCHEMA.into(),
        }]
    }

    fn call(_context: Context, _name: String, arguments: String) -> ToolOutput {
        match answer(&arguments) {
            Ok(text) => ToolOutput::text(text),
            Err(text) => ToolOutput::error(text),
        }
    }
}

export_tools!(Plugin);

#[derive(Debug, PartialEq)]
struct Request {
    text: String,
    path: String,
    suffix: String,
    context: usize,
}

impl Request {
    fn parse(arguments: &str) -> Result<Self, String> {
        let value = json::parse(arguments).map_err(|error| format!("The arguments are {error}."))?;
        let text = |key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let wanted = text("text");
        if wanted.trim().is_empty() {
            return Err("`text` is missing: what the lines must contain.".into());
        }
        if wanted.contains('\n') {
            return Err("`text` has more than one line; search for one line of it.".into());
        }
        let path = text("path");
        let path =
            path.strip_prefix("/workspace").unwrap_or(&path).trim_start_matches("./").trim_matches('/');
        let path = if path == "." { "" } else { path };
        let context = match value.get("context") {
            None | Some(Value::Null) => CONTEXT,
            Some(found) => {
                let number = found
                    .as_u64()
                    .ok_or_else(|| format!("`context` must be a whole number, not {found}."))?;
                usize::try_from(number).unwrap_or(MAX_CONTEXT).min(MAX_CONTEXT)
            }
        };
        let suffix = text("suffix").trim_start_matches('*').to_owned();
        Ok(Self { text: wanted, path: path.to_owned(), suffix, context })
    }

    fn covers(&self, path: &str) -> bool {
        self.path.is_empty()
            || path == self.path
            || path.strip_prefix(&self.path).is_some_and(|rest| rest.starts_with('/'))
    }

    fn place(&self) -> String {
        let place = if self.path.is_empty() { "the repository" } else { &self.path };
        if self.suffix.is_empty() {
            place.to_owned()
        } else {
            format!("files of {place} that end in {}", self.suffix)
        }
    }
}

fn answer(arguments: &str) -> Result<String, String> {
    let request = Request::parse(arguments)?;
    if !request.path.is_empty() {
        workspace::stat(&request.path).map_err(|error| {
            format!("`path`: {}. Leave it out to search everything.", workspace::explain(&error))
        })?;
    }
    let hits = find(&request, &request.text)?;
    if hits.is_empty() {
        return Ok(nothing(&request));
    }
    let full = hits.len() >= ASKED as usize;
    let mut files: Vec<(String, Vec<u32>)> = Vec::new();
    for hit in hits.iter().filter(|hit| request.covers(&hit.path)) {
        match files.last_mut() {
            Some((path, lines)) if *path == hit.path => lines.push(hit.line),
            _ => files.push((hit.path.clone(), vec![hit.line])),
        }
    }
    let total: usize = files.iter().map(|(_, lines)| lines.len()).sum();
    if total == 0 {
        return Ok(nothing(&request));
    }
    let more = if full { " or more" } else { "" };
    let mut text = format!("{} in {}", count(total, "match"), count(files.len(), "file"));
    text.push_str(more);
    if total > MAX_HITS {
        text.push_str(&format!("; the first {MAX_HITS} are shown, give `path` or `suffix` for fewer"));
    }
    let mut left = MAX_HITS;
    for (path, lines) in files {
        if left == 0 {
            break;
        }
        let lines = &lines[..lines.len().min(left)];
        left -= lines.len();
        let content = workspace::read_text(&path).unwrap_or_default();
        text.push_str(&format!("\n{path}\n{}", excerpt(&content, lines, request.context)));
    }
    Ok(text)
}

fn find(request: &Request, text: &str) -> Result<Vec<workspace::SearchHit>, String> {
    workspace::search(text, &request.suffix, ASKED)
        .map_err(|error| format!("The search failed: {}.", workspace::explain(&error)))
}

/// What to try where nothing matches.
fn nothing(request: &Request) -> String {
    let text = &request.text;
    let elsewhere = |other: &str| {
        other != text
            && find(request, other).is_ok_and(|hits| hits.iter().any(|hit| request.covers(&hit.path)))
    };
    let name = text
        .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .max_by_key(|part| part.len())
        .unwrap_or_default();
    let mut others = vec![text.to_ascii_lowercase(), text.to_ascii_uppercase()];
    if name.len() >= 3 {
        others.push(name.to_owned());
    }
    let hint = others.into_iter().find(|other| elsewhere(other));
    let hint = hint.map(|other| format!(" `{other}` is there.")).unwrap_or_default();
    format!("No line of {} contains `{text}`.{hint}", request.place())
}

fn count(number: usize, thing: &str) -> String {
    match (number, thing) {
        (1, _) => format!("1 {thing}"),
        (_, "match") => format!("{number} matches"),
        _ => format!("{number} {thing}s"),
    }
}

/// The lines with those around them; `>` marks the matches, `...` stands for a gap.
fn excerpt(content: &str, hits: &[u32], around: usize) -> String {
    let lines: Vec<&str> = content.lines().collect();
    let mut text = String::new();
    let mut shown = 0;
    for (index, line) in lines.iter().enumerate() {
        let number = index + 1;
        let distance = hits.iter().map(|hit| number.abs_diff(*hit as usize)).min().unwrap_or(usize::MAX);
        if distance > around {
            continue;
        }
        if shown != 0 && shown + 1 != number {
            text.push_str("  ...\n");
        }
        shown = number;
        let mark = if distance == 0 { '>' } else { ' ' };
        let line: String = line.chars().take(LINE_CHARS).collect();
        text.push_str(&format!("{mark}{number:>5}  {line}\n"));
    }
    text.truncate(text.trim_end().len());
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_are_marked_among_the_lines_around_them() {
        let content = "a\nb\nc\nd\ne\nf\ng\n";
        assert_eq!(excerpt(content, &[2], 1), "     1  a\n>    2  b\n     3  c");
        assert_eq!(excerpt(content, &[1, 2], 0), ">    1  a\n>    2  b");
        assert_eq!(excerpt(content, &[1, 7], 1), ">    1  a\n     2  b\n  ...\n     6  f\n>    7  g");
        assert_eq!(excerpt("", &[1], 1), "");
    }

    #[test]
    fn wrong_arguments_say_what_is_missing() {
        let check =
            |arguments: &str, expected: &str| assert_eq!(Request::parse(arguments).unwrap_err(), expected);
        check("{}", "`text` is missing: what the lines must contain.");
        check(r#"{"text":" "}"#, "`text` is missing: what the lines must contain.");
        check(r#"{"text":"a\nb"}"#, "`text` has more than one line; search for one line of it.");
        check(r#"{"text":"a","context":"x"}"#, "`context` must be a whole number, not \"x\".");
    }

    #[test]
    fn paths_cover_folders_and_files() {
        let request = |path: &str| Request::parse(&format!(r#"{{"text":"x","path":"{path}"}}"#)).unwrap();
        assert!(request("src/").covers("src/a.py"));
        assert!(request("./src/a.py").covers("src/a.py"));
        assert!(request("/workspace/src").covers("src/a.py"));
        assert!(request(".").covers("src/a.py"));
        assert!(!request("src").covers("srcs/a.py"));
    }
}
