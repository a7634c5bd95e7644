//! What did a compiler say, in a form that a model can act on?

use std::fmt;

use serde::{Deserialize, Serialize};

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

/// The first of them in the order of file and line, and how many there are.
pub(super) fn first(mut all: Vec<Diagnostic>) -> (Vec<Diagnostic>, usize) {
    all.sort_by(|a, b| (&a.file, a.line, a.column).cmp(&(&b.file, b.line, b.column)));
    all.dedup_by(|a, b| (a.line, &a.file, &a.message) == (b.line, &b.file, &b.message));
    let total = all.len();
    all.truncate(MAX_DIAGNOSTICS);
    (all, total)
}

/// All of them, and how many were left out.
pub(super) fn list(diagnostics: &[Diagnostic], total: usize) -> String {
    let mut text = diagnostics.iter().map(Diagnostic::to_string).collect::<Vec<_>>().join("\n");
    if total > diagnostics.len() {
        text.push_str(&format!("\n… and {} more", total - diagnostics.len()));
    }
    text
}
