//! What did rustc say? Its JSON becomes the forge's diagnostics.

use serde::Deserialize;

use crate::forge::diagnostics::{Diagnostic, Level, first};
use crate::forge::source::ROOT;

/// The first errors in the order of file and line, and how many there are.
pub(super) fn parse(stderr: &str, root_name: &str) -> (Vec<Diagnostic>, usize) {
    let all: Vec<Diagnostic> = stderr
        .lines()
        .filter_map(|line| serde_json::from_str::<Message>(line).ok())
        .filter(|message| message.level.starts_with("error") && !message.is_summary())
        .map(|message| message.into_diagnostic(root_name))
        .collect();
    first(all)
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
