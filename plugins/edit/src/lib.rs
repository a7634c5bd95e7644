//! The tool `edit`: view a file with line numbers, replace a text, insert lines.
//!
//! Interface: `tools`. Grants: `workspace-read`, `workspace-write`. Every failure
//! says what to write instead, since small models repeat what failed.

use tandem_plugin::json::Value;
use tandem_plugin::*;

/// Most lines that one `view` shows.
const VIEW_LINES: usize = 100; // parameter
/// Lines shown around a change.
const AROUND: usize = 3; // parameter
const DESCRIPTION: &str = "View and change a text file. \
    view: path, optional line and lines. \
    replace: path, old (exact text that occurs once), new. \
    insert: path, line (text goes after it; 0 is the start), text."; // parameter

const SCHEMA: &str = r#"{"type":"object","properties":{
"command":{"type":"string","enum":["view","replace","insert"]},
"path":{"type":"string","description":"relative to the repository"},
"line":{"type":"integer","minimum":0},
"lines":{"type":"integer","minimum":1},
"old":{"type":"string"},"new":{"type":"string"},"text":{"type":"string"}},
"required":["command","path"]}"#;

pub struct Plugin;

impl Tools for Plugin {
    fn definitions() -> Vec<ToolDefinition> {
        vec![ToolDefinition {
            name: "edit".into(),
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

/// Reads the file, changes it, writes it back.
fn answer(arguments: &str) -> Result<String, String> {
    let request = Request::parse(arguments)?;
    let path = request.path.as_str();
    let content = match workspace::read(path) {
        Ok(bytes) => String::from_utf8(bytes).map_err(|_| format!("{path} is not a UTF-8 text file."))?,
        // An insertion at the start makes a new file.
        Err(workspace::WorkspaceError::NotFound(_))
            if matches!(request.action, Action::Insert { line: 0, .. }) =>
        {
            String::new()
        }
        Err(error) => return Err(format!("{}. `ls` shows what is there.", workspace::explain(&error))),
    };
    let (text, changed) = apply(path, &content, &request.action)?;
    if let Some(changed) = changed {
        workspace::write(path, changed.as_bytes())
            .map_err(|error| format!("{path} was not changed: {}.", workspace::explain(&error)))?;
    }
    Ok(text)
}

#[derive(Debug, PartialEq)]
struct Request {
    path: String,
    action: Action,
}

#[derive(Debug, PartialEq)]
enum Action {
    View { line: usize, lines: usize },
    Replace { old: String, new: String },
    Insert { line: usize, text: String },
}

impl Request {
    fn parse(arguments: &str) -> Result<Self, String> {
        let value = json::parse(arguments).map_err(|error| format!("The arguments are {error}."))?;
        let text = |key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
        let number = |key: &str| match value.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(found) => match found.as_u64().and_then(|number| usize::try_from(number).ok()) {
                Some(number) => Ok(Some(number)),
                None => Err(format!("`{key}` must be a whole number, not {found}.")),
            },
        };
        let need = |key: &str, hint: &str| text(key).ok_or_else(|| format!("`{key}` is missing: {hint}."));

        let path = need("path", "the file, relative to the repository")?;
        let action = match need("command", "view, replace or insert")?.as_str() {
            "view" => Action::View {
                line: number("line")?.unwrap_or(1).max(1),
                lines: number("lines")?.unwrap_or(VIEW_LINES).clamp(1, VIEW_LINES),
            },
            "replace" => Action::Replace {
                old: need("old", "the exact text to replace")?,
                new: need("new", "the text instead of it; \"\" deletes")?,
            },
            "insert" => Action::Insert {
                line: number("line")?
                    .ok_or("`line` is missing: the text goes after that line; 0 is the start.")?,
                text: need("text", "the lines to insert")?,
            },
            other => return Err(format!("There is no command `{other}`. Use view, replace or insert.")),
        };
        Ok(Self { path, action })
    }
}

/// What the policy reads, and the new content if there is one.
fn apply(path: &str, content: &str, action: &Action) -> Result<(String, Option<String>), String> {
    let total = content.lines().count();
    match action {
        Action::View { line, .. } if *line > total.max(1) => {
            Err(format!("{path} has {total} lines; there is no line {line}."))
        }
        Action::View { line, lines } => Ok((view(path, content, *line, *lines), None)),
        Action::Replace { old, new } => {
            let changed = replace(path, content, old, new)?;
            let at = content.find(old.as_str()).unwrap_or(0);
            Ok((show_change(path, &changed, at, new.lines().count()), Some(changed)))
        }
        Action::Insert { line, .. } if *line > total => {
            Err(format!("{path} has {total} lines; `line` is {line}. Use {total} to insert at the end."))
        }
        Action::Insert { line, text } => {
            let end = if content.contains("\r\n") { "\r\n" } else { "\n" };
            let at = content.split_inclusive('\n').take(*line).map(str::len).sum();
            let (before, after) = content.split_at(at);
            let gap = if before.is_empty() || before.ends_with('\n') { "" } else { end };
            let text = text.strip_suffix('\n').unwrap_or(text);
            let text =
                if end == "\r\n" { text.replace("\r\n", "\n").replace('\n', end) } else { text.to_owned() };
            let changed = format!("{before}{gap}{text}{end}{after}");
            let shown = show_change(path, &changed, at + gap.len(), text.lines().count());
            Ok((shown, Some(changed)))
        }
    }
}

/// The content with the one occurrence of `old` replaced.
fn replace(path: &str, content: &str, old: &str, new: &str) -> Result<String, String> {
    if old.is_empty() {
        return Err("`old` is empty. Give the text to replace, or use insert.".into());
    }
    if old == new {
        return Err("`old` and `new` are the same; nothing would change.".into());
    }
    let places: Vec<usize> = content.match_indices(old).map(|(at, _)| line_of(content, at)).collect();
    match places.as_slice() {
        [_] => Ok(content.replacen(old, new, 1)),
        [] => Err(not_found(path, content, old)),
        several => {
            let lines = several.iter().take(5).map(usize::to_string).collect::<Vec<_>>().join(", ");
            let count = several.len();
            Err(format!(
                "`old` occurs {count} times in {path}, at lines {lines}. Add lines around it so that it occurs once."
            ))
        }
    }
}

/// What to write instead of a text that does not occur.
fn not_found(path: &str, content: &str, old: &str) -> String {
    let trimmed: Vec<&str> = old.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let lines: Vec<&str> = content.lines().collect();
    // The same lines with other white space.
    for start in 0..lines.len() {
        let here = lines[start..].iter().map(|line| line.trim()).filter(|line| !line.is_empty());
        if !trimmed.is_empty()
            && here.take(trimmed.len()).eq(trimmed.iter().copied())
            && !lines[start].trim().is_empty()
        {
            let end = (start + old.lines().count()).min(lines.len());
            return format!(
                "`old` is not in {path}, but these lines differ from it only in white space. Copy them exactly:\n{}",
                lines[start..end].join("\n")
            );
        }
    }
    let wanted = trimmed.iter().max_by_key(|line| line.len()).copied().unwrap_or_default();
    let alike = |line: &str| likeness(wanted, line.trim());
    let nearest =
        lines.iter().enumerate().max_by_key(|(index, line)| (alike(line), std::cmp::Reverse(*index)));
    match nearest {
        Some((index, line)) if alike(line).0 >= 50 => format!(
            "`old` is not in {path}. The nearest line is {}:\n{line}\nCopy the text exactly as it is in the file.",
            index + 1
        ),
        _ => format!("`old` is not in {path}, and nothing like it. View the file first."),
    }
}

/// How much of `wanted` is in a line, and how alike the two are, both in percent of
/// pairs of neighbouring characters (the second is the Dice coefficient).
fn likeness(wanted: &str, line: &str) -> (usize, usize) {
    let pairs = |text: &str| -> Vec<(char, char)> { text.chars().zip(text.chars().skip(1)).collect() };
    let (wanted, mut line) = (pairs(wanted), pairs(line));
    let total = wanted.len() + line.len();
    if wanted.is_empty() {
        return (0, 0);
    }
    let mut shared = 0;
    for pair in &wanted {
        if let Some(found) = line.iter().position(|other| other == pair) {
            line.swap_remove(found);
            shared += 1;
        }
    }
    (100 * shared / wanted.len(), 200 * shared / total)
}

/// The line, counted from 1, in which a byte stands.
fn line_of(content: &str, at: usize) -> usize {
    content[..at].matches('\n').count() + 1
}

fn view(path: &str, content: &str, first: usize, count: usize) -> String {
    let total = content.lines().count();
    let last = (first + count - 1).min(total);
    let mut text = format!("{path}, lines {first} to {last} of {total}:\n");
    if total == 0 {
        return format!("{path} is empty.");
    }
    for (index, line) in content.lines().enumerate().skip(first - 1).take(count) {
        text.push_str(&format!("{:>4}  {line}\n", index + 1));
    }
    text.truncate(text.trim_end().len());
    text
}

/// The change in its surroundings.
fn show_change(path: &str, content: &str, at: usize, lines: usize) -> String {
    let line = line_of(content, at);
    let first = line.saturating_sub(AROUND).max(1);
    let count = (line - first + lines + AROUND).clamp(1, VIEW_LINES);
    format!("Changed. {}", view(path, content, first, count))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "def area(w, h):\n    return w + h\n\n\ndef twice(x):\n    return x + x\n";

    /// The new content, or the error.
    fn check(arguments: &str, content: &str, expected: Result<&str, &str>) {
        let result = Request::parse(arguments).and_then(|request| apply("a.py", content, &request.action));
        match (result, expected) {
            (Ok((text, changed)), Ok(expected)) => assert_eq!(changed.unwrap_or(text), expected),
            (Err(error), Err(expected)) => assert_eq!(error, expected),
            (result, _) => panic!("{arguments}: {result:?}"),
        }
    }

    #[test]
    fn view_shows_numbers_and_the_range() {
        check(
            r#"{"command":"view","path":"a.py","line":1,"lines":2}"#,
            FILE,
            Ok("a.py, lines 1 to 2 of 6:\n   1  def area(w, h):\n   2      return w + h"),
        );
        check(
            r#"{"command":"view","path":"a.py","line":"6"}"#,
            FILE,
            Ok("a.py, lines 6 to 6 of 6:\n   6      return x + x"),
        );
        check(
            r#"{"command":"view","path":"a.py","line":9}"#,
            FILE,
            Err("a.py has 6 lines; there is no line 9."),
        );
        check(r#"{"command":"view","path":"a.py"}"#, "", Ok("a.py is empty."));
    }

    #[test]
    fn replace_changes_the_one_occurrence() {
        check(
            r#"{"command":"replace","path":"a.py","old":"w + h","new":"w * h"}"#,
            FILE,
            Ok("def area(w, h):\n    return w * h\n\n\ndef twice(x):\n    return x + x\n"),
        );
        check(r#"{"command":"replace","path":"a.py","old":"\n\n\n","new":"\n"}"#, "a\n\n\nb", Ok("a\nb"));
        check(r#"{"command":"replace","path":"a.py","old":"b\r\n","new":""}"#, "a\r\nb\r\nc", Ok("a\r\nc"));
    }

    #[test]
    fn a_text_that_occurs_twice_is_named_with_its_lines() {
        check(
            r#"{"command":"replace","path":"a.py","old":"return","new":"yield"}"#,
            FILE,
            Err("`old` occurs 2 times in a.py, at lines 2, 6. Add lines around it so that it occurs once."),
        );
    }

    #[test]
    fn a_text_that_does_not_occur_is_answered_with_the_nearest() {
        check(
            r#"{"command":"replace","path":"a.py","old":"return w - h","new":"x"}"#,
            FILE,
            Err(
                "`old` is not in a.py. The nearest line is 2:\n    return w + h\nCopy the text exactly as it is in the file.",
            ),
        );
        check(
            r#"{"command":"replace","path":"a.py","old":"def twice(x):\n  return x + x","new":"x"}"#,
            FILE,
            Err(
                "`old` is not in a.py, but these lines differ from it only in white space. Copy them exactly:\ndef twice(x):\n    return x + x",
            ),
        );
        check(
            r#"{"command":"replace","path":"a.py","old":"x * x","new":"x"}"#,
            FILE,
            Err(
                "`old` is not in a.py. The nearest line is 6:\n    return x + x\nCopy the text exactly as it is in the file.",
            ),
        );
        check(
            r#"{"command":"replace","path":"a.py","old":"import zzz","new":"x"}"#,
            FILE,
            Err("`old` is not in a.py, and nothing like it. View the file first."),
        );
    }

    #[test]
    fn insert_goes_after_the_line() {
        check(r#"{"command":"insert","path":"a.py","line":1,"text":"b"}"#, "a\nc\n", Ok("a\nb\nc\n"));
        check(r#"{"command":"insert","path":"a.py","line":0,"text":"b\n"}"#, "a\n", Ok("b\na\n"));
        check(r#"{"command":"insert","path":"a.py","line":1,"text":"b"}"#, "a", Ok("a\nb\n"));
        check(
            r#"{"command":"insert","path":"a.py","line":1,"text":"b\nc"}"#,
            "a\r\nd\r\n",
            Ok("a\r\nb\r\nc\r\nd\r\n"),
        );
        check(r#"{"command":"insert","path":"new.py","line":0,"text":"x = 1"}"#, "", Ok("x = 1\n"));
        check(
            r#"{"command":"insert","path":"a.py","line":7,"text":"b"}"#,
            "a\n",
            Err("a.py has 1 lines; `line` is 7. Use 1 to insert at the end."),
        );
    }

    #[test]
    fn wrong_arguments_say_what_is_missing() {
        check("{", "", Err("The arguments are not JSON at byte 1: expected a text in quotation marks."));
        check("{}", "", Err("`path` is missing: the file, relative to the repository."));
        check(r#"{"path":"a"}"#, "", Err("`command` is missing: view, replace or insert."));
        check(
            r#"{"path":"a","command":"delete"}"#,
            "",
            Err("There is no command `delete`. Use view, replace or insert."),
        );
        check(
            r#"{"path":"a","command":"replace","old":"x"}"#,
            "",
            Err("`new` is missing: the text instead of it; \"\" deletes."),
        );
        check(
            r#"{"path":"a","command":"view","line":"two"}"#,
            "",
            Err("`line` must be a whole number, not \"two\"."),
        );
        check(
            r#"{"path":"a","command":"insert","text":"x"}"#,
            "",
            Err("`line` is missing: the text goes after that line; 0 is the start."),
        );
        check(
            r#"{"path":"a","command":"replace","old":"x","new":"x"}"#,
            "x",
            Err("`old` and `new` are the same; nothing would change."),
        );
    }

    #[test]
    fn a_change_is_shown_in_its_surroundings() {
        let (text, _) =
            apply("a.py", FILE, &Action::Replace { old: "w + h".into(), new: "w * h".into() }).unwrap();
        assert_eq!(
            text,
            "Changed. a.py, lines 1 to 5 of 6:\n   1  def area(w, h):\n   2      return w * h\n   3  \n   4  \n   5  def twice(x):"
        );
    }

    #[test]
    fn the_schema_is_json() {
        let schema = json::parse(SCHEMA).unwrap();
        assert_eq!(schema.get("type").and_then(Value::as_str), Some("object"));
    }
}
