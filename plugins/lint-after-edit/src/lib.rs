//! Checks the syntax of files that a command or an edit changed.
//!
//! Watches results of `bash` commands that write files and of tools that take a `path`. It looks
//! only at the files that the call names, or at the difference when a patch was applied, and only
//! when their bytes are not those that it checked last. Python goes through `py_compile`,
//! JavaScript through `node --check`, Rust through `rustc`, each only where it is installed; when
//! one finds an error in syntax, the policy reads file, line and message after the result. Silent
//! when the files are fine, when nothing changed, when the checker is not there, and when the
//! command itself already showed the error.
//!
//! Point: `on-tool-result`. Grants: `exec`, `state`, `workspace-read`.

use tandem_plugin::*;

/// Check `.py` files.
const PYTHON: bool = true; // parameter
/// Check `.js`, `.mjs` and `.cjs` files.
const JAVASCRIPT: bool = true; // parameter
/// Check `.rs` files.
const RUST: bool = true; // parameter
/// Files that are checked after one call.
const MAX_FILES: usize = 4; // parameter
/// Time limit of one checker, in milliseconds.
const LIMIT_MS: u32 = 10_000; // parameter
/// Lines of one checker's message that are shown.
const MAX_LINES: usize = 6; // parameter

pub struct Plugin;

impl OnToolResult for Plugin {
    fn on_tool_result(_context: Context, call: ToolCall, outcome: ToolResult) -> Option<ToolResultEffect> {
        let paths = match call.command() {
            Some(command) if applies_patch(&command) => {
                changed_in(&String::from_utf8_lossy(&workspace::diff().ok()?))
            }
            Some(command) => written_by(&command),
            None => written_by_tool(&call).into_iter().collect(),
        };
        let mut found = Vec::new();
        for path in paths.iter().take(MAX_FILES) {
            if let Some(error) = check(path).filter(|error| !outcome.text.contains(last_line(error))) {
                found.push(format!("{path} does not parse:\n{error}"));
            }
        }
        if found.is_empty() {
            return None;
        }
        Some(ToolResultEffect::Annotate(format!("[{}]", found.join("\n"))))
    }
}

export_on_tool_result!(Plugin);

#[derive(Clone, Copy, Debug, PartialEq)]
enum Checker {
    Python,
    JavaScript,
    Rust,
}

fn checker(path: &str) -> Option<Checker> {
    match path.rsplit_once('.')?.1 {
        "py" if PYTHON => Some(Checker::Python),
        "js" | "mjs" | "cjs" if JAVASCRIPT => Some(Checker::JavaScript),
        "rs" if RUST => Some(Checker::Rust),
        _ => None,
    }
}

/// What is wrong with a file whose bytes were not checked yet; none if nothing is.
fn check(path: &str) -> Option<String> {
    let kind = checker(path)?;
    let bytes = workspace::read(path).ok()?;
    let (key, hash) = (format!("checked {path}"), fnv(&bytes));
    if state::text(&key) == hash.to_string() {
        return None;
    }
    state::set_number(&key, hash);
    let output = exec::run(&arguments(kind, path), LIMIT_MS).ok()?;
    // 126 and 127: the checker is not installed. None: it took too long.
    match output.exit_code {
        Some(0 | 126 | 127) | None => None,
        Some(_) => errors(kind, &String::from_utf8_lossy(&output.text)),
    }
}

fn arguments(kind: Checker, path: &str) -> Vec<String> {
    let words: &[&str] = match kind {
        // Byte code goes to /tmp: what is left beside the source would end up in the patch.
        Checker::Python => &["env", "PYTHONPYCACHEPREFIX=/tmp/lint", "python3", "-m", "py_compile", path],
        Checker::JavaScript => &["node", "--check", path],
        Checker::Rust => &[
            "rustc",
            "--edition=2021",
            "--crate-type=lib",
            "--crate-name=lint",
            "--emit=metadata",
            "--cap-lints=allow",
            "-o",
            "/tmp/lint.rmeta",
            path,
        ],
    };
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// The lines of a checker's output that name an error in syntax; none if there are none.
fn errors(kind: Checker, output: &str) -> Option<String> {
    let lines: Vec<&str> = output.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
    let shown: Vec<&str> = match kind {
        Checker::Python => lines.into_iter().filter(|line| !line.starts_with("Traceback")).collect(),
        // A module that is checked as a script is no error of the edit.
        Checker::JavaScript if output.contains("outside a module") => Vec::new(),
        Checker::JavaScript => {
            lines.into_iter().take_while(|line| !line.trim_start().starts_with("at ")).collect()
        }
        // Errors with a code are about names and types, which one file alone cannot tell.
        Checker::Rust => {
            let at =
                lines.iter().position(|line| line.starts_with("error: ") && !line.contains("aborting"))?;
            lines[at..].iter().take(5).copied().collect()
        }
    };
    if shown.is_empty() {
        return None;
    }
    Some(shown[..shown.len().min(MAX_LINES)].join("\n"))
}

fn last_line(text: &str) -> &str {
    text.lines().last().unwrap_or(text).trim()
}

/// Files of a known language that a command names, if it writes at all.
fn written_by(command: &str) -> Vec<String> {
    let commands = shell::commands(command);
    let writes = |command: &shell::Command| {
        let program = command.program();
        !command.writes.is_empty()
            || matches!(program, "tee" | "mv" | "cp" | "perl" | "ed" | "ex" | "awk" | "dd" | "truncate")
            || (program == "sed"
                && command
                    .arguments()
                    .iter()
                    .any(|word| word.starts_with("-i") || word.starts_with("--in-place")))
            || (program == "git" && command.has(&["checkout", "restore", "stash", "revert", "merge"]))
            || (program.starts_with("python") && command.fed)
            || (program.starts_with("python") && command.has(&["-c"]))
            || (program == "node" && command.has(&["-e"]))
    };
    if !commands.iter().any(writes) {
        return Vec::new();
    }
    let is_part = |c: char| !c.is_ascii() || c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/');
    let mut paths: Vec<String> = Vec::new();
    for word in command.split(|c| !is_part(c)) {
        let path = word.trim_start_matches("/workspace/").trim_start_matches("./").trim_end_matches('.');
        if checker(path).is_some() && !path.starts_with('/') && !paths.iter().any(|known| known == path) {
            paths.push(path.to_owned());
        }
    }
    paths
}

/// The file that a tool of a plugin changed: it took a `path` and something to write.
fn written_by_tool(call: &ToolCall) -> Option<String> {
    let writes = ["new", "content", "text"].iter().any(|key| call.text(key).is_some());
    call.text("path").filter(|path| writes && checker(path).is_some())
}

fn applies_patch(command: &str) -> bool {
    let applies = |command: &shell::Command| {
        command.program() == "patch"
            || (command.program() == "git" && command.has(&["apply", "am", "cherry-pick"]))
    };
    shell::commands(command).iter().any(applies)
}

/// Files of a known language in a difference.
fn changed_in(diff: &str) -> Vec<String> {
    let paths = diff.lines().filter_map(|line| line.strip_prefix("+++ b/"));
    paths.filter(|path| checker(path).is_some()).map(str::to_owned).collect()
}

/// The FNV-1a hash, to know a file again.
fn fnv(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_looked_for_only_in_commands_that_write() {
        let check = |command: &str, expected: &[&str]| assert_eq!(written_by(command), expected, "{command}");
        check("sed -i 's/a/b/' pkg/a.py ./b.js", &["pkg/a.py", "b.js"]);
        check("cat > /workspace/a.py <<'E'\nimport b.py\nE", &["a.py", "b.py"]);
        check("python3 - <<'E'\np = 'src/x.py'\nopen(p, 'w')\nE", &["src/x.py"]);
        check("mv a.rs b.rs", &["a.rs", "b.rs"]);
        check("cat a.py", &[]);
        check("python3 a.py", &[]);
        check("sed -n 1,5p a.py", &[]);
        check("echo x > notes.txt", &[]);
        check("echo x > /tmp/a.py", &[]);
    }

    #[test]
    fn patches_are_read_from_the_difference() {
        assert!(applies_patch("git apply fix.diff") && applies_patch("patch -p1 < x"));
        assert!(!applies_patch("git diff") && !applies_patch("echo patch"));
        assert_eq!(changed_in("--- a/a.py\n+++ b/a.py\n+++ b/readme.md\n"), ["a.py"]);
    }

    #[test]
    fn messages_of_checkers_are_cut_to_the_error() {
        let check = |kind, output: &str, expected: Option<&str>| {
            assert_eq!(errors(kind, output).as_deref(), expected)
        };
        check(
            Checker::Python,
            "  File \"a.py\", line 2\n    return (\n           ^\nSyntaxError: '(' was never closed\n\n",
            Some("  File \"a.py\", line 2\n    return (\n           ^\nSyntaxError: '(' was never closed"),
        );
        check(
            Checker::JavaScript,
            "/workspace/a.js:1\nlet x = ;\n        ^\n\nSyntaxError: Unexpected token ';'\n    at wrapSafe (node:x)\n",
            Some("/workspace/a.js:1\nlet x = ;\n        ^\nSyntaxError: Unexpected token ';'"),
        );
        check(Checker::JavaScript, "SyntaxError: Cannot use import statement outside a module", None);
        check(
            Checker::Rust,
            "error[E0432]: unresolved import `crate::x`\n --> a.rs:1\nerror: aborting due to 1 previous error",
            None,
        );
        check(
            Checker::Rust,
            "error: expected `;`, found `}`\n --> a.rs:1:20\n  |\n1 | fn f() { let x = 1 }\n  |                   ^\n",
            Some(
                "error: expected `;`, found `}`\n --> a.rs:1:20\n  |\n1 | fn f() { let x = 1 }\n  |                   ^",
            ),
        );
    }
}
