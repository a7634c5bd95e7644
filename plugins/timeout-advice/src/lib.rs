//! Says what to do instead of a command that was stopped at its time limit.
//!
//! Watches commands of `bash` that timed out. Fires with advice that fits what the command does:
//! a server or watcher, a program that waits for input, an installation, a test run, a search
//! over too much, a pause; and with general advice otherwise. Silent for every command that
//! ended by itself, whatever its exit code, and for tools of plugins.
//!
//! Point: `on-tool-result`. Grants: none.

use tandem_plugin::*;

/// Give general advice also where the command is of no known kind.
const ALWAYS: bool = true; // parameter
const SERVER: &str = "It does not end by itself. Start it in the background and use it in the same command: \
    `COMMAND > /tmp/log.txt 2>&1 & sleep 2; USE IT; kill %1`"; // parameter
const INPUT: &str = "It waits for input that never comes. Give the input (`printf 'y\\n' | COMMAND`) \
    or a flag such as `-y`, `--yes` or `--no-input`"; // parameter
const INSTALL: &str = "It waits for a network that is not there. Use what is installed"; // parameter
const TESTS: &str = "Run fewer tests: one file or one test, and stop at the first failure \
    (`python3 -m pytest -x -q FILE::TEST`)"; // parameter
const SEARCH: &str = "Search less: give a folder of the repository instead of `/`, and leave out what is \
    generated (`grep -rn TEXT src --include='*.py'`)"; // parameter
const PAUSE: &str = "Leave the pause out or make it short"; // parameter
const OTHER: &str = "Give it less to do, or look at what it does with `timeout 20 COMMAND 2>&1 | tail -n 20`; \
    an endless loop in the code that you changed looks like this too"; // parameter

pub struct Plugin;

impl OnToolResult for Plugin {
    fn on_tool_result(_context: Context, call: ToolCall, outcome: ToolResult) -> Option<ToolResultEffect> {
        if outcome.status != ToolStatus::TimedOut {
            return None;
        }
        let advice = advice(&call.command()?, &outcome.text)?;
        Some(ToolResultEffect::Annotate(format!("[{advice}.]")))
    }
}

export_on_tool_result!(Plugin);

/// What to do instead; `text` is what the command wrote before it was stopped.
fn advice(command: &str, text: &str) -> Option<&'static str> {
    let commands = shell::commands(command);
    let any = |is: fn(&shell::Command) -> bool| commands.iter().any(is);
    let asks = text.trim_end().ends_with(['?', ':', ']']) && text.len() > 40
        || text.contains("[y/N]")
        || text.contains("[Y/n]");
    if any(is_server) {
        Some(SERVER)
    } else if any(is_install) {
        Some(INSTALL)
    } else if any(waits_for_input) || asks && !any(shell::runs_tests) {
        Some(INPUT)
    } else if any(shell::runs_tests) {
        Some(TESTS)
    } else if any(is_wide_search) {
        Some(SEARCH)
    } else if any(|command| command.program() == "sleep") {
        Some(PAUSE)
    } else {
        ALWAYS.then_some(OTHER)
    }
}

fn is_server(command: &shell::Command) -> bool {
    let program = command.program();
    matches!(
        program,
        "uvicorn" | "gunicorn" | "nodemon" | "redis-server" | "watch" | "flask" | "nginx" | "postgres"
    ) || command.has(&["runserver", "http.server", "serve", "--watch", "--serve", "flask", "uvicorn"])
        || (program == "tail" && command.has(&["-f", "-F", "--follow"]))
        || (matches!(program, "npm" | "yarn" | "pnpm") && command.has(&["start", "dev"]))
}

fn is_install(command: &shell::Command) -> bool {
    let program = command.program();
    matches!(program, "curl" | "wget")
        || (matches!(
            program,
            "pip" | "pip3" | "npm" | "yarn" | "pnpm" | "apt" | "apt-get" | "cargo" | "conda" | "uv"
        ) && command.has(&["install", "add", "update", "ci", "fetch"]))
        || (program.starts_with("python") && command.has(&["pip"]))
        || (program == "git" && command.has(&["clone", "fetch", "pull", "push"]))
}

fn waits_for_input(command: &shell::Command) -> bool {
    let program = command.program();
    matches!(program, "vim" | "vi" | "nano" | "emacs" | "ssh" | "read" | "passwd" | "ftp")
        || (matches!(program, "cat" | "python" | "python3" | "node")
            && command.arguments().is_empty()
            && !command.fed)
        || (program == "git" && command.has(&["commit"]) && !command.has(&["-m", "-am", "-F", "--no-edit"]))
}

fn is_wide_search(command: &shell::Command) -> bool {
    matches!(command.program(), "find" | "grep" | "rg" | "ag" | "du" | "ls")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_advice_fits_the_command() {
        let check = |command: &str, text: &str, expected: &str| {
            assert_eq!(advice(command, text), Some(expected), "{command}");
        };
        check("python3 manage.py runserver", "", SERVER);
        check("cd web && npm start", "", SERVER);
        check("tail -f log.txt", "", SERVER);
        check("pip install requests", "", INSTALL);
        check("git clone https://example.org/x", "", INSTALL);
        check("git commit", "", INPUT);
        check("python3 setup.py", "stopped after 60 seconds\nOverwrite the configuration? [y/N]", INPUT);
        check("python3 -m pytest", "", TESTS);
        check("cargo test", "", TESTS);
        check("grep -r foo /", "", SEARCH);
        check("find / -name x", "", SEARCH);
        check("sleep 500", "", PAUSE);
        check("python3 a.py", "", OTHER);
    }
}
