//! The tool `outline`: which classes, functions and types a file or folder defines, and where.
//!
//! Answers when the policy calls it. Symbols of Python, JavaScript, TypeScript, Rust and Go are
//! found by simple rules on single lines, so that the answer is quick and the same everywhere; text
//! in Python's long strings is passed over. Past the caps it says what was left out. For a path
//! without such files, and for one that does not exist, it says what to do instead.
//!
//! Interface: `tools`. Grants: `workspace-read`.

use tandem_plugin::*;

/// Files of one answer.
const MAX_FILES: usize = 40; // parameter
/// Symbols of one answer.
const MAX_SYMBOLS: usize = 150; // parameter
/// Folders that are looked into.
const MAX_FOLDERS: usize = 200; // parameter
/// Characters of a symbol's line.
const LINE_CHARS: usize = 110; // parameter
const DESCRIPTION: &str = "List classes, functions and types with their line numbers. \
    path: a file or a folder of Python, JavaScript, TypeScript, Rust or Go; without it the whole repository."; // parameter

const SCHEMA: &str = r#"{"type":"object","properties":{
"path":{"type":"string","description":"relative to the repository"}}}"#;

pub struct Plugin;

impl Tools for Plugin {
    fn definitions() -> Vec<ToolDefinition> {
        vec![ToolDefinition {
            name: "outline".into(),
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
    let value = json::parse(arguments).map_err(|error| format!("The arguments are {error}."))?;
    let path = value.get("path").and_then(json::Value::as_str).unwrap_or_default();
    let path = path.strip_prefix("/workspace").unwrap_or(path).trim_start_matches("./").trim_matches('/');
    let path = if path == "." { "" } else { path };
    let is_folder = path.is_empty()
        || workspace::stat(path)
            .map_err(|error| format!("{}. `ls` shows what is there.", workspace::explain(&error)))?
            .is_folder;
    let files = if is_folder { files(path) } else { vec![path.to_owned()] };
    if !is_folder && language(path).is_none() {
        return Err(format!(
            "{path} is not of a language that is known here (.py, .js, .ts, .rs, .go). Look into it with `grep -n`."
        ));
    }
    let mut text = String::new();
    let (mut symbols, mut left_out) = (0, 0);
    for file in files.iter().take(MAX_FILES) {
        let Some(kind) = language(file) else { continue };
        let found = outline(kind, &workspace::read_text(file).unwrap_or_default());
        let room = MAX_SYMBOLS.saturating_sub(symbols);
        left_out += found.len().saturating_sub(room);
        if found.is_empty() || room == 0 {
            continue;
        }
        text.push_str(&format!("{file}\n"));
        for (line, symbol) in found.iter().take(room) {
            text.push_str(&format!("{line:>5}  {symbol}\n"));
        }
        symbols += found.len().min(room);
    }
    if symbols == 0 {
        let place = if path.is_empty() { "The repository" } else { path };
        return Ok(format!("{place} defines nothing that is known here (.py, .js, .ts, .rs, .go)."));
    }
    if files.len() > MAX_FILES || left_out > 0 {
        let files = files.len().saturating_sub(MAX_FILES);
        text.push_str(&format!("[left out: {left_out} symbols, {files} more files; give a narrower `path`]"));
    }
    Ok(text.trim_end().to_owned())
}

/// Source files below a folder, in order, tests and all.
fn files(folder: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    let mut looked = 0;
    while let Some(folder) = folders.pop() {
        looked += 1;
        if looked > MAX_FOLDERS {
            break;
        }
        let mut inner = Vec::new();
        for entry in workspace::list(&folder).unwrap_or_default() {
            let name = entry.path.rsplit('/').next().unwrap_or(&entry.path);
            let generated = name.starts_with('.')
                || matches!(name, "node_modules" | "__pycache__" | "target" | "build" | "dist" | "vendor");
            if entry.is_folder && !generated {
                inner.push(entry.path);
            } else if !entry.is_folder && language(&entry.path).is_some() {
                found.push(entry.path);
            }
        }
        folders.extend(inner.into_iter().rev());
    }
    found
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Language {
    Python,
    JavaScript,
    Rust,
    Go,
}

fn language(path: &str) -> Option<Language> {
    match path.rsplit_once('.')?.1 {
        "py" | "pyi" => Some(Language::Python),
        "js" | "jsx" | "mjs" | "cjs" | "ts" | "tsx" | "mts" => Some(Language::JavaScript),
        "rs" => Some(Language::Rust),
        "go" => Some(Language::Go),
        _ => None,
    }
}

/// Line numbers, from 1, and the lines that define something, with their indentation.
fn outline(language: Language, text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut in_string: Option<&str> = None;
    for (index, line) in text.lines().enumerate() {
        if language == Language::Python {
            let inside = in_string.is_some();
            for mark in ["\"\"\"", "'''"] {
                let count = line.matches(mark).count();
                match in_string {
                    None if count % 2 == 1 => in_string = Some(mark),
                    Some(open) if open == mark && count % 2 == 1 => in_string = None,
                    _ => {}
                }
            }
            if inside {
                continue;
            }
        }
        if defines(language, line.trim()) {
            found.push((index + 1, signature(line)));
        }
    }
    found
}

fn defines(language: Language, line: &str) -> bool {
    match language {
        Language::Python => starts(line, &["def ", "class ", "async def "]),
        Language::Go => starts(line, &["func ", "type "]) && !line.starts_with("type ("),
        Language::Rust => {
            let line = line.strip_prefix("pub").map_or(line, |rest| match rest.strip_prefix('(') {
                Some(inside) => inside.split_once(") ").map_or("", |(_, rest)| rest),
                None => rest.trim_start(),
            });
            let line = ["default ", "async ", "const ", "unsafe ", "extern \"C\" "].iter().fold(
                line,
                |line, word| {
                    if line.contains(" fn ") { line.strip_prefix(word).unwrap_or(line) } else { line }
                },
            );
            starts(
                line,
                &[
                    "fn ",
                    "struct ",
                    "enum ",
                    "trait ",
                    "impl ",
                    "impl<",
                    "mod ",
                    "type ",
                    "macro_rules! ",
                    "union ",
                ],
            )
        }
        Language::JavaScript => {
            let line = line.strip_prefix("export ").unwrap_or(line);
            let line = line.strip_prefix("default ").unwrap_or(line);
            let line = line.strip_prefix("abstract ").unwrap_or(line);
            let arrow = starts(line, &["const ", "let "])
                && (line.contains("=> ")
                    || line.ends_with("=>")
                    || line.contains("= function")
                    || line.contains("= async function"));
            arrow
                || starts(
                    line,
                    &[
                        "function ",
                        "function* ",
                        "async function ",
                        "class ",
                        "interface ",
                        "enum ",
                        "namespace ",
                    ],
                )
                || (line.starts_with("type ") && line.contains('='))
                || is_method(line)
        }
    }
}

/// A method of a class: `name(...) {`, and no statement that looks like it.
fn is_method(line: &str) -> bool {
    let Some((head, _)) = line.split_once('(') else { return false };
    let name = head.rsplit(' ').next().unwrap_or(head).trim_start_matches(['#', '*']);
    let words = head.split(' ').all(|word| {
        word.chars().all(|c| !c.is_ascii() || c.is_ascii_alphanumeric() || matches!(c, '_' | '$' | '#' | '*'))
    });
    let statement = ["if", "for", "while", "switch", "catch", "return", "function", "new", "await", "super"];
    line.ends_with('{') && words && !name.is_empty() && !head.split(' ').any(|word| statement.contains(&word))
}

fn starts(line: &str, words: &[&str]) -> bool {
    words.iter().any(|word| line.starts_with(word))
}

/// The line without its body.
fn signature(line: &str) -> String {
    let line = line.trim_end().trim_end_matches(['{', ':']).trim_end().replace('\t', "    ");
    let short: String = line.chars().take(LINE_CHARS).collect();
    if short.len() < line.len() { format!("{short}…") } else { short }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(language: Language, text: &str, expected: &[(usize, &str)]) {
        let found = outline(language, text);
        let found: Vec<(usize, &str)> = found.iter().map(|(line, symbol)| (*line, symbol.as_str())).collect();
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn python() {
        check(
            Language::Python,
            "import a\nclass A(B):\n    def f(self, x):\n        return defer\n    async def g(self): pass\n",
            &[(2, "class A(B)"), (3, "    def f(self, x)"), (5, "    async def g(self): pass")],
        );
        check(Language::Python, "\"\"\"Text\ndef not_here():\n\"\"\"\ndef here():\n", &[(4, "def here()")]);
        check(
            Language::Python,
            "def f():\n    '''one line'''\n    x = 1\ndef g():\n",
            &[(1, "def f()"), (4, "def g()")],
        );
    }

    #[test]
    fn javascript_and_typescript() {
        check(
            Language::JavaScript,
            "export default class A {\n  get x() {\n  if (a) {\n}\nconst f = (a) => a\nfunction g() {\nexport interface I {\ntype T = string\nfoo(1);\nconst y = 1\n",
            &[
                (1, "export default class A"),
                (2, "  get x()"),
                (5, "const f = (a) => a"),
                (6, "function g()"),
                (7, "export interface I"),
                (8, "type T = string"),
            ],
        );
    }

    #[test]
    fn rust_and_go() {
        check(
            Language::Rust,
            "pub(crate) struct A;\nimpl A {\n    pub const fn f() {\n    let x = fn_call();\n}\nconst N: u8 = 1;\npub async unsafe fn g() {\n",
            &[
                (1, "pub(crate) struct A;"),
                (2, "impl A"),
                (3, "    pub const fn f()"),
                (7, "pub async unsafe fn g()"),
            ],
        );
        check(
            Language::Go,
            "package a\ntype T struct {\nfunc (t T) F() int {\nx := func() {}\n",
            &[(2, "type T struct"), (3, "func (t T) F() int")],
        );
    }
}
