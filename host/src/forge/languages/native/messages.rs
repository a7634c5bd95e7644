//! What did clang, lld or Zig say? All three write `FILE:LINE:COLUMN: error: TEXT`, or without a place.

use std::borrow::Cow;

use crate::forge::diagnostics::{Diagnostic, Level, first};
use crate::forge::error::ForgeError;
use crate::forge::sandbox::{Ended, Limits, ended_by};

use super::super::Job;
use super::sdk;

/// The one file of a plugin.
pub(super) struct Plugin<'a> {
    /// What the compiler calls it.
    file: String,
    /// What messages call it.
    pub name: &'a str,
    text: Cow<'a, str>,
}

impl Plugin<'_> {
    /// A line of the source; lines count from 1.
    pub fn line(&self, number: u32) -> Option<String> {
        let index = usize::try_from(number).ok()?.checked_sub(1)?;
        self.text.lines().nth(index).map(str::to_owned)
    }

    /// The first line with `part`, or 0.
    pub fn line_with(&self, part: &str) -> u32 {
        let found = self.text.lines().position(|line| line.contains(part));
        found.and_then(|index| u32::try_from(index + 1).ok()).unwrap_or(0)
    }
}

/// The file of a job, and its name in the sandbox.
pub(super) fn plugin<'a>(job: &Job<'a>) -> (String, Plugin<'a>) {
    let file = job.source.language.file_name("plugin");
    let text = job.source.files.get(&file).map(|bytes| String::from_utf8_lossy(bytes)).unwrap_or_default();
    (file.clone(), Plugin { file, name: &job.source.root_name, text })
}

/// Why a run failed. Without a plugin it was one of our own files.
pub(super) fn failure(ended: &Ended, limits: Limits, plugin: Option<&Plugin<'_>>) -> ForgeError {
    let text = String::from_utf8_lossy(&ended.stderr);
    if ended.timed_out {
        return ForgeError::TimedOut { seconds: ended.seconds, limit_s: limits.time.as_secs_f64() };
    }
    let crashed = [libc::SIGSEGV, libc::SIGABRT, libc::SIGILL, libc::SIGTRAP, libc::SIGBUS]
        .into_iter()
        .find(|signal| ended_by(&ended.status, *signal));
    let signs = ["out of memory", "OutOfMemory", "Cannot allocate memory", "bad_alloc"];
    let last_words = last_lines(&text, 5);
    if signs.iter().any(|sign| last_words.contains(sign)) {
        return ForgeError::OutOfMemory { asked: None, limit: limits.memory };
    }
    let (diagnostics, total) = match plugin {
        Some(plugin) => first(parse(&text, plugin)),
        None => (Vec::new(), 0),
    };
    if total > 0 && crashed.is_none() {
        return ForgeError::Rejected { diagnostics, total };
    }
    let (status, help) = match (crashed, ended.status.code()) {
        (Some(_), _) => (
            "it crashed; often the source is nested too deep".to_owned(),
            "simplify the source; if a trivial plugin fails too, install the tools again",
        ),
        (None, Some(code)) => {
            (format!("exit code {code}"), "install the tools again: tandem plugin tools zig")
        }
        (None, None) => ("stopped by a signal".into(), "install the tools again: tandem plugin tools zig"),
    };
    ForgeError::Compiler { status, stderr: last_words, help: help.into() }
}

fn last_lines(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}

/// A place in a message: file, line and column.
#[derive(Clone, Copy)]
struct Place<'a> {
    file: &'a str,
    line: u32,
    column: u32,
}

/// A place at the beginning of `text`, and what follows it after `: `.
fn place(text: &str) -> Option<(Place<'_>, &str)> {
    let mut parts = text.splitn(4, ':');
    let (file, line, column, rest) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let place = Place { file, line: line.parse().ok()?, column: column.parse().ok()? };
    Some((place, rest.trim_start()))
}

/// All errors.
fn parse(text: &str, plugin: &Plugin<'_>) -> Vec<Diagnostic> {
    let mut found: Vec<Diagnostic> = Vec::new();
    // The last error, while it is not known where in the plugin it comes from.
    let mut elsewhere = false;
    for line in text.lines() {
        if let Some(message) = line.strip_prefix("wasm-ld: error: ") {
            found.push(of_the_linker(message, plugin));
            elsewhere = false;
            continue;
        }
        let at = place(line);
        if let Some((at, message)) = at
            && let Some(message) =
                ["error: ", "fatal error: "].iter().find_map(|mark| message.strip_prefix(mark))
        {
            elsewhere = at.file != plugin.file;
            let mut diagnostic = of_the_compiler(at, message, plugin);
            // The SDK's own checks of Zig say which function they mean.
            let function = message.split('`').nth(1).filter(|_| at.file == "/sdk/root.zig");
            let line = function.map_or(0, |name| plugin.line_with(&format!("fn {name}(")));
            if line > 0 {
                (diagnostic.file, diagnostic.line, diagnostic.column) = (plugin.name.to_owned(), line, 1);
                diagnostic.snippet = plugin.line(line);
                elsewhere = false;
            }
            found.push(diagnostic);
            continue;
        }
        let Some(last) = found.last_mut() else { continue };
        // Where an error in a header, a template or the standard library comes from.
        if elsewhere && let Some(at) = place_within(line, &plugin.file) {
            let inner = format!("in `{}`, line {}", last.file, last.line);
            (last.file, last.line, last.column) = (plugin.name.to_owned(), at.line, at.column);
            last.snippet = plugin.line(at.line);
            add_help(last, &inner);
            elsewhere = false;
        }
        if let Some((at, message)) = at
            && let Some(note) = message.strip_prefix("note: ")
            && let Some(help) = advice(at, note)
        {
            add_help(last, &help);
        }
    }
    found
}

fn of_the_compiler(at: Place<'_>, message: &str, plugin: &Plugin<'_>) -> Diagnostic {
    let own = at.file == plugin.file;
    // `[-Wflag]` behind a message names the option, which an author cannot set.
    let message = message.rsplit_once(" [-W").map_or(message, |(text, _)| text);
    Diagnostic {
        file: if own { plugin.name.to_owned() } else { short(at.file) },
        line: at.line,
        column: at.column,
        level: Level::Error,
        code: None,
        message: cut(message),
        help: None,
        snippet: if own { plugin.line(at.line) } else { None },
    }
}

fn of_the_linker(message: &str, plugin: &Plugin<'_>) -> Diagnostic {
    let name = message.split_once("undefined symbol: ").map(|(_, name)| name);
    let (message, line, help) = match name {
        Some(name) => {
            let word = name.split(['(', '<']).next().unwrap_or(name);
            let word = word.rsplit([' ', ':']).next().unwrap_or(word);
            let help = "define it; the C library is that of WASI: no network, no processes, no threads";
            (format!("`{name}` is used and not defined"), plugin.line_with(word), Some(help.to_owned()))
        }
        None => (message.to_owned(), 0, None),
    };
    Diagnostic {
        file: if line > 0 { plugin.name.to_owned() } else { String::new() },
        line,
        column: u32::from(line > 0),
        level: Level::Error,
        code: None,
        message: cut(&message),
        help,
        snippet: plugin.line(line),
    }
}

/// A place in `file` anywhere in a line.
fn place_within<'a>(line: &'a str, file: &str) -> Option<Place<'a>> {
    let start = line.find(&format!("{file}:"))?;
    let rest = &line[start..];
    let mut parts = rest.splitn(4, ':');
    let (file, number, column) = (parts.next()?, parts.next()?, parts.next()?);
    let digits = column.find(|c: char| !c.is_ascii_digit()).unwrap_or(column.len());
    Some(Place { file, line: number.parse().ok()?, column: column[..digits].parse().ok()? })
}

/// What of a note an author can act on; a declaration of the SDK with its text.
fn advice(at: Place<'_>, note: &str) -> Option<String> {
    let declared = ["declaration is here", "declared here", "candidate function", "function return type"];
    if let Some(line) = at.file.strip_prefix("/sdk/").and_then(|file| sdk::line(file, at.line)) {
        let text = line.trim().trim_end_matches(['{', '\\']).trim_end();
        return declared.iter().any(|mark| note.contains(mark)).then(|| format!("the SDK has `{text}`"));
    }
    let noise =
        ["expanded from", "in instantiation of", "declared here", "is here", "candidate", "called at"];
    let useful = !noise.iter().any(|mark| note.contains(mark));
    useful.then(|| cut(note))
}

fn add_help(diagnostic: &mut Diagnostic, line: &str) {
    const MOST: usize = 3;
    let help = diagnostic.help.get_or_insert_default();
    if help.lines().count() < MOST && !help.lines().any(|known| known == line) {
        if !help.is_empty() {
            help.push('\n');
        }
        help.push_str(line);
    }
}

/// A file of the SDK or the toolchain without the folder in which the sandbox shows it.
fn short(file: &str) -> String {
    ["/sdk/", "/zig/lib/"].iter().find_map(|dir| file.strip_prefix(dir)).unwrap_or(file).to_owned()
}

fn cut(message: &str) -> String {
    const MOST: usize = 400;
    match message.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", &message[..end]),
        None => message.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn check(text: &str, expected: Expect) {
        let source = "#include \"tandem.h\"\nint a = b;\nfoo();\n";
        let plugin = Plugin { file: "plugin.c".into(), name: "guard.c", text: source.into() };
        let shown: Vec<String> = parse(text, &plugin).iter().map(Diagnostic::to_string).collect();
        expected.assert_eq(&shown.join("\n"));
    }

    #[test]
    fn a_place_in_the_plugin_is_shown_with_its_line() {
        check(
            "plugin.c:2:9: error: use of undeclared identifier 'b' [-Wx]\n1 error generated.\n",
            expect![[r#"
                guard.c:2:9: error: use of undeclared identifier 'b'
                  | int a = b;"#]],
        );
    }

    #[test]
    fn an_error_in_a_header_is_shown_where_the_plugin_causes_it() {
        check(
            "/zig/lib/libcxx/include/vector:10:3: error: static assertion failed\nplugin.c:3:1: note: in instantiation of x\n",
            expect![[r#"
                guard.c:3:1: error: static assertion failed
                  | foo();
                  help: in `libcxx/include/vector`, line 10"#]],
        );
    }

    #[test]
    fn a_symbol_that_is_missing_is_looked_for_in_the_source() {
        check(
            "wasm-ld: error: /out/plugin.o: undefined symbol: foo(int)\n",
            expect![[r#"
                guard.c:3:1: error: `foo(int)` is used and not defined
                  | foo();
                  help: define it; the C library is that of WASI: no network, no processes, no threads"#]],
        );
        check("wasm-ld: error: something else\n", expect![[r#"error: something else"#]]);
    }

    #[test]
    fn what_is_no_message_is_no_message() {
        check("a:b:c: error: no\n\nplugin.c:x:1: error: no\nnote: nothing\n", expect![[""]]);
    }
}
