//! What did Go's compiler and linker say, in a form that a model can act on?

use super::points::{Function, POINTS};
use super::sdk::PACKAGES;
use crate::forge::diagnostics::{Diagnostic, Level, first};
use crate::forge::error::ForgeError;
use crate::forge::sandbox::{Ended, Limits};

/// The one source, as its author knows it.
pub(super) struct Plugin<'a> {
    pub root_name: &'a str,
    pub text: &'a str,
    pub functions: &'a [Function<'a>],
}

/// Why the compiler or the linker failed.
pub(super) fn failure(ended: &Ended, limits: Limits, plugin: &Plugin<'_>) -> ForgeError {
    if ended.timed_out {
        return ForgeError::TimedOut { seconds: ended.seconds, limit_s: limits.time.as_secs_f64() };
    }
    let text = said(ended);
    let memory = ["out of memory", "cannot allocate memory", "failed to reserve"];
    if memory.iter().any(|sign| text.contains(sign)) {
        return ForgeError::OutOfMemory { asked: None, limit: limits.memory };
    }
    let (diagnostics, total) = first(parse(&text, plugin));
    if total > 0 {
        return ForgeError::Rejected { diagnostics, total };
    }
    let status = match ended.status.code() {
        _ if text.contains("stack exceeds") => "it crashed; the source is nested too deep".into(),
        Some(code) => format!("exit code {code}"),
        None => "stopped by a signal".into(),
    };
    let lines: Vec<&str> = text.lines().filter(|line| !line.is_empty()).take(5).collect();
    ForgeError::Compiler {
        status,
        stderr: lines.join("\n"),
        help: "simplify the source; if a trivial plugin fails too, install the tools again: \
               tandem plugin tools go"
            .into(),
    }
}

/// The compiler speaks on standard output, the linker and a crash on standard error.
pub(super) fn said(ended: &Ended) -> String {
    let [out, error] = [&ended.stdout, &ended.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    format!("{out}\n{error}")
}

/// `file:line:column: message`, whose further lines begin with a tab; and the linker's messages,
/// which have no place.
fn parse(text: &str, plugin: &Plugin<'_>) -> Vec<Diagnostic> {
    let mut found: Vec<Diagnostic> = Vec::new();
    for line in text.lines() {
        if let Some(more) = line.strip_prefix('\t') {
            if let Some(last) = found.last_mut() {
                last.message += &format!(" {}", more.trim());
            }
        } else if let Some((file, place, column, message)) = placed(line) {
            found.push(diagnostic(file, place, column, message, plugin));
        } else if let Some(message) = line.strip_prefix("link: ").or_else(|| line.strip_prefix("plugin.")) {
            found.push(Diagnostic { message: message.to_owned(), ..nowhere() });
        }
    }
    found
}

fn nowhere() -> Diagnostic {
    Diagnostic {
        file: String::new(),
        line: 0,
        column: 0,
        level: Level::Error,
        code: None,
        message: String::new(),
        help: None,
        snippet: None,
    }
}

/// The parts of a line that names its place: `file:line:column: message`, or without a column.
fn placed(line: &str) -> Option<(&str, u32, u32, &str)> {
    let (place, message) = line.split_once(": ")?;
    let (rest, last) = place.rsplit_once(':')?;
    let last = last.parse().ok()?;
    match rest.rsplit_once(':').map(|(file, line)| (file, line.parse())) {
        Some((file, Ok(line))) => Some((file, line, last, message)),
        _ => Some((rest, last, 0, message)),
    }
}

fn diagnostic(file: &str, line: u32, column: u32, message: &str, plugin: &Plugin<'_>) -> Diagnostic {
    // In the SDK's call of a point only the point's own type can be wrong.
    let name = file.rsplit('/').next().unwrap_or(file);
    let called = |name: &str| POINTS.iter().find(|point| name.strip_suffix(".go") == Some(point.file));
    if let Some(point) = called(name) {
        let line = plugin.functions.iter().find(|found| found.name == point.function).map_or(0, |f| f.line);
        let given = message.split_once("value of type ").and_then(|(_, rest)| rest.split_once(") as "));
        let message = match given {
            Some((ty, _)) => format!("`{}` has the type `{ty}`, not that of its point", point.function),
            None => message.to_owned(),
        };
        return Diagnostic {
            file: plugin.root_name.to_owned(),
            line,
            column: 1,
            message,
            help: Some(format!("write `{}`", point.head())),
            snippet: snippet(plugin, line),
            ..nowhere()
        };
    }
    let (message, help) = worded(message);
    // A `//line` comment may name any file; only the plugin's own text is shown.
    let own = file == "plugin.go";
    Diagnostic {
        file: if own { plugin.root_name.to_owned() } else { file.to_owned() },
        line,
        column,
        message,
        help,
        snippet: own.then(|| snippet(plugin, line)).flatten(),
        ..nowhere()
    }
}

fn snippet(plugin: &Plugin<'_>, line: u32) -> Option<String> {
    let text = plugin.text.lines().nth(usize::try_from(line).ok()?.checked_sub(1)?)?;
    Some(text.chars().take(200).collect())
}

/// The compiler's words, and advice where they do not say what to do.
fn worded(message: &str) -> (String, Option<String>) {
    if let Some(package) =
        message.strip_prefix("could not import ").and_then(|rest| rest.split_whitespace().next())
    {
        let help = match package {
            "C" => "a plugin has no C; write it in Go, or write the plugin in C".to_owned(),
            _ if package.starts_with("net/") || package == "net" => "a plugin has no network".to_owned(),
            "os/exec" => "use `tandem/exec`".to_owned(),
            _ => {
                format!("there are the packages of `tandem/` and of the standard library: {PACKAGES}")
            }
        };
        return (format!("a plugin cannot import `{package}`"), Some(help));
    }
    let help = match message {
        m if m.starts_with("missing function body") => Some("a plugin is Go alone; give it a body"),
        m if m.contains("go:embed") => Some("write the text into the source"),
        m if m.contains("declared and not used") => Some("use it, or assign to `_`"),
        _ => None,
    };
    (message.to_owned(), help.map(str::to_owned))
}
