//! What did the compiler say, in a form that a model can act on?

use std::fmt;

use serde::{Deserialize, Serialize};

use super::source::ROOT;

/// How many diagnostics are kept.
const MAX_DIAGNOSTICS: usize = 10;

/// Errors; warnings are not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    Error,
}

/// One message of the compiler.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Diagnostic {
    /// Relative to the source; empty when the message has no place.
    pub file: String,
    /// Counts from 1; 0 when the message has no place.
    pub line: u32,
    /// Counts from 1; 0 when the message has no place.
    pub column: u32,
    pub level: Level,
    /// Such as `E0308`, or the name of a lint.
    pub code: Option<String>,
    pub message: String,
    /// The compiler's advice, one piece of advice a line.
    pub help: Option<String>,
    /// The line of source.
    pub snippet: Option<String>,
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.file.is_empty() {
            write!(f, "{}:{}:{}: ", self.file, self.line, self.column)?;
        }
        f.write_str("error")?;
        if let Some(code) = &self.code {
            write!(f, "[{code}]")?;
        }
        write!(f, ": {}", self.message)?;
        if let Some(snippet) = &self.snippet {
            write!(f, "\n  | {}", snippet.trim())?;
        }
        for line in self.help.iter().flat_map(|help| help.lines()) {
            write!(f, "\n  help: {line}")?;
        }
        Ok(())
    }
}

/// All of them, and how many were left out.
pub(super) fn list(diagnostics: &[Diagnostic], total: usize) -> String {
    let mut text = diagnostics.iter().map(Diagnostic::to_string).collect::<Vec<_>>().join("\n");
    if total > diagnostics.len() {
        text.push_str(&format!("\n… and {} more", total - diagnostics.len()));
    }
    text
}

/// The first errors in the order of file and line, and how many there are.
pub(super) fn parse(stderr: &str, root_name: &str) -> (Vec<Diagnostic>, usize) {
    let mut all: Vec<Diagnostic> = stderr
        .lines()
        .filter_map(|line| serde_json::from_str::<Message>(line).ok())
        .filter(|message| message.level.starts_with("error") && !message.is_summary())
        .map(|message| message.into_diagnostic(root_name))
        .collect();
    all.sort_by(|a, b| (&a.file, a.line, a.column).cmp(&(&b.file, b.line, b.column)));
    all.dedup_by(|a, b| (a.line, &a.file, &a.message) == (b.line, &b.file, &b.message));
    let total = all.len();
    all.truncate(MAX_DIAGNOSTICS);
    (all, total)
}

/// The part that is used of rustc's JSON (the rustc book, "JSON output").
#[derive(Deserialize)]
struct Message {
    message: String,
    code: Option<Code>,
    level: String,
    #[serde(default)]
    spans: Vec<Span>,
    #[serde(default)]
    children: Vec<Message>,
}

#[derive(Deserialize)]
struct Code {
    code: String,
}

#[derive(Deserialize)]
struct Span {
    file_name: String,
    line_start: u32,
    column_start: u32,
    is_primary: bool,
    label: Option<String>,
    #[serde(default)]
    text: Vec<SpanText>,
    suggested_replacement: Option<String>,
    expansion: Option<Box<Expansion>>,
}

#[derive(Deserialize)]
struct Expansion {
    span: Span,
}

#[derive(Deserialize)]
struct SpanText {
    text: String,
}

impl Message {
    /// "aborting due to 2 previous errors" says nothing new.
    fn is_summary(&self) -> bool {
        self.spans.is_empty() && self.code.is_none() && self.message.starts_with("aborting due to")
    }

    fn into_diagnostic(self, root_name: &str) -> Diagnostic {
        let span = self.spans.iter().find(|span| span.is_primary).map(Span::in_source);
        let label =
            span.and_then(|span| span.label.as_deref()).filter(|label| says_more(label, &self.message));
        let message = match label {
            Some(label) => format!("{} ({label})", first_lines(&self.message)),
            None => first_lines(&self.message),
        };
        let help: Vec<String> = self.children.iter().filter_map(Message::advice).take(3).collect();
        Diagnostic {
            file: span.map(|span| span.relative(root_name)).unwrap_or_default(),
            line: span.map_or(0, |span| span.line_start),
            column: span.map_or(0, |span| span.column_start),
            level: Level::Error,
            code: self.code.map(|code| code.code),
            message,
            help: (!help.is_empty()).then(|| help.join("\n")),
            snippet: span.and_then(|span| span.text.first()).map(|text| text.text.clone()),
        }
    }

    /// A note or help, with the replacement that it suggests.
    fn advice(&self) -> Option<String> {
        // Where something is defined and what a lint's default is: nothing to act on.
        let noise = ["`#[deny(", "`#[warn(", "required by", "being evaluated", "for more information"];
        if self.level != "help" && self.level != "note" || noise.iter().any(|n| self.message.contains(n)) {
            return None;
        }
        let replacement = self.spans.iter().find_map(|span| span.suggested_replacement.as_deref());
        let message = first_lines(&self.message);
        Some(match replacement.map(str::trim) {
            Some(text) if !text.is_empty() && !text.contains('\n') && !message.contains(text) => {
                format!("{message}: `{text}`")
            }
            _ => message,
        })
    }
}

impl Span {
    /// The place in the plugin's own text that expanded to this one.
    fn in_source(&self) -> &Span {
        match &self.expansion {
            Some(expansion) if self.file_name.starts_with('/') => expansion.span.in_source(),
            _ => self,
        }
    }

    fn relative(&self, root_name: &str) -> String {
        let name = self.file_name.strip_prefix("/plugin/").unwrap_or(&self.file_name);
        if name == ROOT { root_name.to_owned() } else { name.to_owned() }
    }
}

/// Whether a label has words that the message lacks; often it repeats it.
fn says_more(label: &str, message: &str) -> bool {
    let words: Vec<&str> = label.split(' ').collect();
    let repeated = words.iter().filter(|word| message.contains(**word)).count();
    repeated * 2 < words.len()
}

/// A message in one line, and short: linker messages are pages long.
fn first_lines(message: &str) -> String {
    const MAX_CHARS: usize = 400;
    let line =
        message.lines().map(str::trim).filter(|line| !line.is_empty()).take(4).collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(MAX_CHARS) {
        Some((cut, _)) => format!("{}…", &line[..cut]),
        None => line,
    }
}
