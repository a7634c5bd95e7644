//! Runs a command again that failed with a cause that often passes.
//!
//! Watches results of `bash` that failed with a transient cause: a lock that is held, a
//! connection that was refused or reset, a name that was not resolved, a resource that is
//! temporarily unavailable. A command that is one simple program is run again after a pause, at
//! most `RETRIES` times, and the policy reads the new result with a line that says so; any other
//! command, and one that keeps failing, gets advice on the cause instead. Silent when the command
//! succeeded, when the failure has another cause, and after `MAX_FIRED` times in an episode.
//!
//! Point: `on-tool-result`. Grants: `exec` to run it again, `state` to count.

use tandem_plugin::*;

/// How often a command is run again; 0 only advises.
const RETRIES: u32 = 1; // parameter
/// Pause before each time, in seconds.
const WAIT_SECONDS: u32 = 1; // parameter
/// Time limit of each time, in milliseconds.
const LIMIT_MS: u32 = 30_000; // parameter
/// How often this fires in one episode.
const MAX_FIRED: u64 = 4; // parameter
/// Characters of the new output that are shown.
const MAX_CHARS: usize = 6_000; // parameter

pub struct Plugin;

impl OnToolResult for Plugin {
    fn on_tool_result(_context: Context, call: ToolCall, outcome: ToolResult) -> Option<ToolResultEffect> {
        let command = call.command()?;
        if outcome.exit_code.is_none_or(|code| code == 0) {
            return None;
        }
        let cause = cause(&outcome.text)?;
        let fired = state::number("fired");
        if fired >= MAX_FIRED {
            return None;
        }
        state::set_number("fired", fired + 1);
        if may_run_again(&command, cause) {
            for time in 1..=RETRIES {
                let (code, text) = run_again(&command)?;
                if code == Some(0) {
                    let text = format!(
                        "exit code 0\n[it failed first with `{}`, which often passes; run again: {time}]\n{text}",
                        cause.mark
                    );
                    return Some(ToolResultEffect::Replace(text));
                }
            }
        }
        let again = if may_run_again(&command, cause) && RETRIES > 0 {
            " It was run again and failed again."
        } else {
            ""
        };
        Some(ToolResultEffect::Annotate(format!(
            "[`{}` often passes by itself.{again} {}]",
            cause.mark, cause.advice
        )))
    }
}

export_on_tool_result!(Plugin);

/// A cause of failure that often passes.
#[derive(Debug, PartialEq)]
struct Cause {
    /// What programs write.
    mark: &'static str,
    /// Whether the same command may succeed a moment later.
    passes: bool,
    advice: &'static str,
}

const NO_NETWORK: &str = "If it stays, there is no network here: use what is installed.";
const LOCKED: &str =
    "Another program holds the lock; see what runs, and remove a lock file only if nothing does.";
const NOT_UP: &str = "If a server should listen there, start it in the same command and wait until it is up.";
const BUSY: &str = "Run it again, and with fewer jobs at once if it stays.";

const CAUSES: [Cause; 14] = [
    Cause { mark: "Temporary failure in name resolution", passes: false, advice: NO_NETWORK },
    Cause { mark: "Could not resolve host", passes: false, advice: NO_NETWORK },
    Cause { mark: "Name or service not known", passes: false, advice: NO_NETWORK },
    Cause { mark: "getaddrinfo EAI_AGAIN", passes: false, advice: NO_NETWORK },
    Cause { mark: "Network is unreachable", passes: false, advice: NO_NETWORK },
    Cause { mark: "Could not get lock", passes: true, advice: LOCKED },
    Cause { mark: "index.lock': File exists", passes: true, advice: LOCKED },
    Cause { mark: "Blocking waiting for file lock", passes: true, advice: LOCKED },
    Cause { mark: "database is locked", passes: true, advice: LOCKED },
    Cause { mark: "Connection refused", passes: true, advice: NOT_UP },
    Cause { mark: "Connection reset by peer", passes: true, advice: NOT_UP },
    Cause { mark: "Resource temporarily unavailable", passes: true, advice: BUSY },
    Cause { mark: "Text file busy", passes: true, advice: BUSY },
    Cause { mark: "503 Service Unavailable", passes: true, advice: NOT_UP },
];

fn cause(text: &str) -> Option<&'static Cause> {
    CAUSES.iter().find(|cause| text.contains(cause.mark))
}

/// Whether running it once more does no harm: one program, no files written, and a cause that
/// kept it from doing its work.
fn may_run_again(command: &str, cause: &Cause) -> bool {
    let commands = shell::commands(command);
    let [only] = commands.as_slice() else { return false };
    let changes = ["rm", "mv", "cp", "dd", "tee", "kill"].contains(&only.program());
    cause.passes && !changes && only.writes.is_empty() && !command.contains('\n') && !command.contains("$(")
}

/// Exit code and output; none when it could not be run at all.
fn run_again(command: &str) -> Option<(Option<i32>, String)> {
    let script = format!("sleep {WAIT_SECONDS}; {command}");
    let output = exec::run(&["bash".into(), "-c".into(), script], LIMIT_MS).ok()?;
    let text = String::from_utf8_lossy(&output.text);
    let text: String = text.chars().take(MAX_CHARS).collect();
    Some((output.exit_code, text.trim_end().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transient_causes_are_known() {
        let check =
            |text: &str, expected: Option<&str>| assert_eq!(cause(text).map(|cause| cause.mark), expected);
        check("curl: (6) Could not resolve host: example.org", Some("Could not resolve host"));
        check(
            "fatal: Unable to create '/workspace/.git/index.lock': File exists.",
            Some("index.lock': File exists"),
        );
        check("ConnectionRefusedError: [Errno 111] Connection refused", Some("Connection refused"));
        check("fork: retry: Resource temporarily unavailable", Some("Resource temporarily unavailable"));
        check("AssertionError: 1 != 2", None);
        check("", None);
    }

    #[test]
    fn only_one_simple_program_is_run_again() {
        let locked = cause("database is locked").unwrap();
        let check =
            |command: &str, expected: bool| assert_eq!(may_run_again(command, locked), expected, "{command}");
        check("git status", true);
        check("python3 -m pytest -q", true);
        check("git add a && git commit -m x", false);
        check("make > log.txt", false);
        check("rm -rf build", false);
        check("git log | head", false);
        check("echo $(make)", false);
        check("", false);
        assert!(!may_run_again("curl x", cause("Could not resolve host").unwrap()));
    }
}
