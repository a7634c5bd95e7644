//! The tool `editor`: view, create, str_replace and insert, with the arguments that models know from
//! other agents' editors.
//!
//! Answers when the policy calls it; whatever it refuses leaves the file as it was, and the answer
//! says what to write instead. Paths may be relative to the repository or begin with `/workspace`.
//! `edit` is the same for small models, with shorter names and hints at the nearest line.
//!
//! Interface: `tools`. Grants: `workspace-read`, `workspace-write`.

use tandem_plugin::json::Value;
use tandem_plugin::*;

/// Lines that one `view` shows.
const VIEW_LINES: usize = 400; // parameter
/// Entries that the view of a folder shows.
const ENTRIES: usize = 200; // parameter
/// Lines shown around a change.
const AROUND: usize = 4; // parameter
const DESCRIPTION: &str = "View, create and change files. \
    view: a file with line numbers, or a folder two levels deep; optional view_range [first, last], last -1 for the end. \
    create: path, file_text; the path must not exist. \
    str_replace: path, old_str (exact text that occurs once), new_str (left out: delete). \
    insert: path, insert_line (new_str goes after it; 0 is the start), new_str."; // parameter

const SCHEMA: &str = r#"{"type":"object","properties":{
"command":{"type":"string","enum":["view","create","str_replace","insert"]},
"path":{"type":"string","description":"relative to the repository"},
"view_range":{"type":"array","items":{"type":"integer"},"minItems":2,"maxItems":2},
"file_text":{"type":"string"},
"old_str":{"type":"string"},"new_str":{"type":"string"},
"insert_line":{"type":"integer","minimum":0}},
"required":["command","path"]}"#;

pub struct Plugin;

impl Tools for Plugin {
    fn definitions() -> Vec<ToolDefinition> {
        vec![ToolDefinition {
            name: "editor".into(),
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

fn answer(arguments: &str) -> Result<String, String> {
    let request = Request::parse(arguments)?;
    let path = request.path.as_str();
    let told = |error| format!("{}.", workspace::explain(&error));
    let found = if path.is_empty() { None } else { workspace::stat(path).ok() };
    let is_folder = path.is_empty() || found.as_ref().is_some_and(|entry| entry.is_folder);
    match &request.action {
        Action::View { range: None } if is_folder => return folder(path).map_err(told),
        _ if is_folder => {
            return Err(format!("{path} is a folder; only `view` without `view_range` works on one."));
        }
        Action::Create { .. } if found.is_some() => {
            return Err(format!("{path} exists already. Change it with str_replace or insert."));
        }
        Action::Create { text } => {
            workspace::write(path, text.as_bytes()).map_err(told)?;
            return Ok(format!("{path} is there now, with {} lines.", text.lines().count()));
        }
        _ => {}
    }
    let bytes = workspace::read(path).map_err(told)?;
    let content = String::from_utf8(bytes).map_err(|_| format!("{path} is not a UTF-8 text file."))?;
    let (text, changed) = apply(path, &content, &request.action)?;
    if let Some(changed) = changed {
        workspace::write(path, changed.as_bytes()).map_err(told)?;
    }
    Ok(text)
}

/// A folder and the folders in it; hidden entries are left out.
fn folder(path: &str) -> Result<String, workspace::WorkspaceError> {
    let (mut lines, mut left_out) = (Vec::new(), 0);
    let mut add = |entry: &workspace::Entry| {
        if lines.len() < ENTRIES {
            lines.push(format!("{}{}", entry.path, if entry.is_folder { "/" } else { "" }));
        } else {
            left_out += 1;
        }
    };
    for entry in workspace::list(path)?.iter().filter(|entry| !hidden(&entry.path)) {
        add(entry);
        if entry.is_folder {
            let inner = workspace::list(&entry.path).unwrap_or_default();
            inner.iter().filter(|entry| !hidden(&entry.path)).for_each(&mut add);
        }
    }
    if left_out > 0 {
        lines.push(format!("[{left_out} more; view a folder of these]"));
    }
    if lines.is_empty() {
        return Ok("The folder is empty.".into());
    }
    Ok(lines.join("\n"))
}

fn hidden(path: &str) -> bool {
    path.rsplit('/').next().unwrap_or(path).starts_with('.')
}

#[derive(Debug, PartialEq)]
struct Request {
    path: String,
    action: Action,
}

#[derive(Debug, PartialEq)]
enum Action {
    /// First and last line, from 1; a last of -1 is the end.
    View {
        range: Option<(i64, i64)>,
    },
    Create {
        text: String,
    },
    Replace {
        old: String,
        new: String,
    },
    Insert {
        line: usize,
        text: String,
    },
}

impl Request {
    fn parse(arguments: &str) -> Result<Self, String> {
        let value = json::parse(arguments).map_err(|error| format!("The arguments are {error}."))?;
        let text = |key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
        let need = |key: &str, hint: &str| text(key).ok_or_else(|| format!("`{key}` is missing: {hint}."));
        let path = need("path", "the file, relative to the repository")?;
        let path = path.strip_prefix("/workspace").unwrap_or(&path);
        let path = path.trim_start_matches("./").trim_matches('/');
        let action = match need("command", "view, create, str_replace or insert")?.as_str() {
            "view" => Action::View { range: range(value.get("view_range"))? },
            "create" => Action::Create { text: need("file_text", "the content of the new file")? },
            "str_replace" => Action::Replace {
                old: need("old_str", "the exact text to replace")?,
                new: text("new_str").unwrap_or_default(),
            },
            "insert" => {
                let line = value.get("insert_line").and_then(Value::as_u64);
                let line = line.and_then(|line| usize::try_from(line).ok());
                let missing = "`insert_line` is missing: `new_str` goes after that line; 0 is the start.";
                Action::Insert { line: line.ok_or(missing)?, text: need("new_str", "the lines to insert")? }
            }
            other => {
                return Err(format!(
                    "There is no command `{other}`. Use view, create, str_replace or insert."
                ));
            }
        };
        Ok(Self { path: if path == "." { String::new() } else { path.to_owned() }, action })
    }
}

fn range(value: Option<&Value>) -> Result<Option<(i64, i64)>, String> {
    let wrong =
        || "`view_range` must be two whole numbers: [first, last]; -1 as the last is the end.".to_owned();
    match value {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Array(items)) => match items.as_slice() {
            [Value::Number(first), Value::Number(last)] if first.fract() == 0.0 && last.fract() == 0.0 => {
                Ok(Some((*first as i64, *last as i64)))
            }
            _ => Err(wrong()),
        },
        Some(_) => Err(wrong()),
    }
}

/// What the policy reads, and the new content if there is one.
fn apply(path: &str, content: &str, action: &Action) -> Result<(String, Option<String>), String> {
    let total = content.lines().count();
    match action {
        Action::View { range } => {
            let (first, last) = match range {
                None => (1, total),
                Some((first, last)) => {
                    let end = if *last == -1 { total as i64 } else { *last };
                    if *first < 1 || end < *first || end > total as i64 {
                        return Err(format!(
                            "{path} has {total} lines; [{first}, {last}] is no range of them."
                        ));
                    }
                    (*first as usize, end as usize)
                }
            };
            Ok((view(path, content, first, last), None))
        }
        Action::Replace { old, new } => {
            let changed = replace(path, content, old, new)?;
            let at = content.find(old.as_str()).unwrap_or(0);
            Ok((show_change(path, &changed, at, new.lines().count()), Some(changed)))
        }
        Action::Insert { line, .. } if *line > total => Err(format!(
            "{path} has {total} lines; `insert_line` is {line}. Use {total} to insert at the end."
        )),
        Action::Insert { line, text } => {
            let end = if content.contains("\r\n") { "\r\n" } else { "\n" };
            let at = content.split_inclusive('\n').take(*line).map(str::len).sum();
            let (before, after) = content.split_at(at);
            let gap = if before.is_empty() || before.ends_with('\n') { "" } else { end };
            let text = text.strip_suffix('\n').unwrap_or(text).replace("\r\n", "\n").replace('\n', end);
            let changed = format!("{before}{gap}{text}{end}{after}");
            let shown = show_change(path, &changed, at + gap.len(), text.lines().count());
            Ok((shown, Some(changed)))
        }
        // It never comes here: a new file has no content to apply it to.
        Action::Create { text } => Ok((String::new(), Some(text.clone()))),
    }
}

/// The content with the one occurrence of `old` replaced.
fn replace(path: &str, content: &str, old: &str, new: &str) -> Result<String, String> {
    if old.is_empty() {
        return Err("`old_str` is empty. Give the text to replace, or use insert.".into());
    }
    if old == new {
        return Err("`old_str` and `new_str` are the same; nothing would change.".into());
    }
    let places: Vec<usize> = content.match_indices(old).map(|(at, _)| line_of(content, at)).collect();
    match places.as_slice() {
        [_] => Ok(content.replacen(old, new, 1)),
        [] => Err(format!(
            "`old_str` is not in {path}, letter for letter. View the lines and copy them exactly."
        )),
        several => {
            let lines = several.iter().take(5).map(usize::to_string).collect::<Vec<_>>().join(", ");
            Err(format!(
                "`old_str` occurs {} times in {path}, at lines {lines}. Add lines around it so that it occurs once.",
                several.len()
            ))
        }
    }
}

/// The line, counted from 1, in which a byte stands.
fn line_of(content: &str, at: usize) -> usize {
    content[..at].matches('\n').count() + 1
}

/// Lines `first` to `last`, with their numbers.
fn view(path: &str, content: &str, first: usize, last: usize) -> String {
    let total = content.lines().count();
    if total == 0 {
        return format!("{path} is empty.");
    }
    let shown = last.min(first + VIEW_LINES - 1);
    let mut text = format!("{path}, lines {first} to {shown} of {total}:\n");
    for (index, line) in content.lines().enumerate().skip(first - 1).take(shown + 1 - first) {
        text.push_str(&format!("{:>6}\t{line}\n", index + 1));
    }
    if shown < last {
        text.push_str(&format!("[cut after {VIEW_LINES} lines; view_range shows others]"));
    }
    text.truncate(text.trim_end().len());
    text
}

/// The change in its surroundings.
fn show_change(path: &str, content: &str, at: usize, lines: usize) -> String {
    let total = content.lines().count();
    let line = line_of(content, at).min(total.max(1));
    let (first, last) = (line.saturating_sub(AROUND).max(1), (line + lines.max(1) - 1 + AROUND).min(total));
    format!("Changed. {}", view(path, content, first, last))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "def area(w, h):\n    return w + h\n\n\ndef twice(x):\n    return x + x\n";

    /// The new content or the text, or the error.
    fn check(arguments: &str, content: &str, expected: Result<&str, &str>) {
        let result = Request::parse(arguments).and_then(|request| apply("a.py", content, &request.action));
        let result = result.map(|(text, changed)| changed.unwrap_or(text));
        assert_eq!(result.as_deref().map_err(String::as_str), expected, "{arguments}");
    }

    #[test]
    fn view_shows_numbers_and_the_range() {
        let range = r#"{"command":"view","path":"a.py","view_range":[5,-1]}"#;
        check(range, FILE, Ok("a.py, lines 5 to 6 of 6:\n     5\tdef twice(x):\n     6\t    return x + x"));
        let range = |range: &str| format!(r#"{{"command":"view","path":"a.py","view_range":{range}}}"#);
        check(&range("[2,2]"), FILE, Ok("a.py, lines 2 to 2 of 6:\n     2\t    return w + h"));
        check(&range("[0,2]"), FILE, Err("a.py has 6 lines; [0, 2] is no range of them."));
        check(&range("[3,9]"), FILE, Err("a.py has 6 lines; [3, 9] is no range of them."));
        let wrong = "`view_range` must be two whole numbers: [first, last]; -1 as the last is the end.";
        check(&range("[1]"), FILE, Err(wrong));
        check(&range("\"1-2\""), FILE, Err(wrong));
        check(r#"{"command":"view","path":"a.py"}"#, "", Ok("a.py is empty."));
    }

    #[test]
    fn a_long_file_is_cut_and_says_so() {
        let long = "x\n".repeat(500);
        let (text, _) = apply("a.py", &long, &Action::View { range: None }).unwrap();
        assert!(text.starts_with("a.py, lines 1 to 400 of 500:\n"));
        assert!(text.ends_with("[cut after 400 lines; view_range shows others]"));
    }

    #[test]
    fn str_replace_changes_the_one_occurrence() {
        let replace = |old: &str, new: &str| {
            format!(
                r#"{{"command":"str_replace","path":"a.py","old_str":{},"new_str":{}}}"#,
                json::quote(old),
                json::quote(new)
            )
        };
        check(&replace("w + h", "w * h"), FILE, Ok(&FILE.replace("w + h", "w * h")));
        check(r#"{"command":"str_replace","path":"a.py","old_str":"b\r\n"}"#, "a\r\nb\r\nc", Ok("a\r\nc"));
        check(
            &replace("return", "yield"),
            FILE,
            Err(
                "`old_str` occurs 2 times in a.py, at lines 2, 6. Add lines around it so that it occurs once.",
            ),
        );
        check(
            &replace("w  + h", "x"),
            FILE,
            Err("`old_str` is not in a.py, letter for letter. View the lines and copy them exactly."),
        );
        check(&replace("w", "w"), FILE, Err("`old_str` and `new_str` are the same; nothing would change."));
        check(&replace("", "w"), FILE, Err("`old_str` is empty. Give the text to replace, or use insert."));
    }

    #[test]
    fn insert_goes_after_the_line_with_the_line_ends_of_the_file() {
        let insert = |line: usize, text: &str| {
            format!(
                r#"{{"command":"insert","path":"a.py","insert_line":{line},"new_str":{}}}"#,
                json::quote(text)
            )
        };
        check(&insert(1, "b"), "a\nc\n", Ok("a\nb\nc\n"));
        check(&insert(0, "b\n"), "a\n", Ok("b\na\n"));
        check(&insert(1, "b"), "a", Ok("a\nb\n"));
        check(&insert(1, "b\nc"), "a\r\nd\r\n", Ok("a\r\nb\r\nc\r\nd\r\n"));
        check(
            &insert(7, "b"),
            "a\n",
            Err("a.py has 1 lines; `insert_line` is 7. Use 1 to insert at the end."),
        );
    }

    #[test]
    fn paths_may_begin_with_the_workspace() {
        let check = |path: &str, expected: &str| {
            let arguments = format!(r#"{{"command":"view","path":{}}}"#, json::quote(path));
            assert_eq!(Request::parse(&arguments).unwrap().path, expected);
        };
        check("/workspace/src/a.py", "src/a.py");
        check("./a.py", "a.py");
        check("/workspace", "");
        check(".", "");
        check("../a.py", "../a.py");
    }

    #[test]
    fn wrong_arguments_say_what_is_missing() {
        check("{}", "", Err("`path` is missing: the file, relative to the repository."));
        check(r#"{"path":"a"}"#, "", Err("`command` is missing: view, create, str_replace or insert."));
        check(
            r#"{"path":"a","command":"undo_edit"}"#,
            "",
            Err("There is no command `undo_edit`. Use view, create, str_replace or insert."),
        );
        check(
            r#"{"path":"a","command":"insert","new_str":"x"}"#,
            "",
            Err("`insert_line` is missing: `new_str` goes after that line; 0 is the start."),
        );
    }
}
