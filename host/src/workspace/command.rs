//! What is run in a workspace, and what does it leave?

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::Duration;

use super::config::SandboxLimits;
use super::error::Error;
use super::output::Captured;

/// Where a workspace lies for the commands that run in it.
pub const WORKSPACE_PATH: &str = "/workspace";

/// The line that says that the command started.
pub(super) const STARTED: &[u8] = b"tandem: command starts\n";
/// Longest single argument (the kernel's limit is 131 072 with its end byte).
const ARGUMENT_BYTES: usize = 131_000;

/// A folder of the host that a command sees.
#[derive(Clone, Debug)]
pub struct Mount {
    pub from: PathBuf,
    pub to: String,
    pub access: MountAccess,
}

/// Whether a command may write to a mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MountAccess {
    ReadOnly,
    ReadWrite,
}

impl Mount {
    /// A mount that commands may read only.
    pub fn read_only(from: impl Into<PathBuf>, to: impl Into<String>) -> Self {
        Self { from: from.into(), to: to.into(), access: MountAccess::ReadOnly }
    }

    /// A mount that commands may write.
    pub fn read_write(from: impl Into<PathBuf>, to: impl Into<String>) -> Self {
        Self { from: from.into(), to: to.into(), access: MountAccess::ReadWrite }
    }
}

/// One command to run.
#[derive(Clone, Debug)]
pub struct SandboxCommand {
    pub argv: Vec<OsString>,
    /// Wall-clock time after which all its processes are killed.
    pub timeout: Duration,
    /// Variables beside the fixed ones.
    pub env: Vec<(String, String)>,
    /// Whether it has a sandbox that no command before it ran in: its answer is for others than the policy.
    pub alone: bool,
}

impl SandboxCommand {
    /// A program with its arguments.
    pub fn argv<S: Into<OsString>>(argv: impl IntoIterator<Item = S>, timeout: Duration) -> Self {
        Self { argv: argv.into_iter().map(Into::into).collect(), timeout, env: Vec::new(), alone: false }
    }

    /// A command line for `bash -c`.
    pub fn bash(script: &str, timeout: Duration) -> Self {
        Self::argv(["/bin/bash", "-c", script], timeout)
    }

    /// In a sandbox that no command before it ran in.
    pub fn alone(mut self) -> Self {
        self.alone = true;
        self
    }

    /// Adds a variable.
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    /// # Errors
    /// [`Error::BadCommand`] for arguments that no system takes.
    pub(super) fn check(&self) -> Result<(), Error> {
        let bad = |reason: String| Err(Error::BadCommand { reason });
        if self.argv.is_empty() {
            return bad("it has no program".into());
        }
        for argument in &self.argv {
            let bytes = argument.as_bytes();
            if bytes.len() > ARGUMENT_BYTES {
                return bad(format!("it has {} bytes and the limit is {ARGUMENT_BYTES}", bytes.len()));
            }
            if bytes.contains(&0) {
                return bad("it holds a zero byte".into());
            }
        }
        Ok(())
    }
}

/// What a command left.
#[derive(Clone, Debug)]
pub struct CommandOutput {
    /// None when it was stopped at its time limit. 128 + n for signal n; one that
    /// was stopped for the space it took has that of `SIGXFSZ`, 153.
    pub exit_code: Option<i32>,
    /// Standard output and error in the order they came.
    pub output: Captured,
    /// Wall-clock time from start to end.
    pub elapsed: Duration,
}

/// The start of each command: sets the limits that processes have for
/// themselves and says that the command starts. A limit that cannot be set is
/// one that is tighter already. `first` runs before. The command starts in `folder`,
/// or at the root if an earlier command made that a place that cannot be entered.
pub(super) fn limit_script(limits: &SandboxLimits, first: &str, folder: &str) -> String {
    let SandboxLimits { address_space, processes, file_bytes, .. } = *limits;
    let seconds = limits.cpu_seconds.map(|seconds| format!(" '-t {seconds}'")).unwrap_or_default();
    format!(
        "{first}for limit in '-c 0' '-u {processes}' '-v {}' '-f {}'{seconds}; do ulimit $limit 2>/dev/null; done; \
         printf '%s' '{}'; cd '{}' || cd /; unset OLDPWD; exec \"$@\"",
        address_space / 1024,
        file_bytes / 1024,
        String::from_utf8_lossy(STARTED),
        folder.replace('\'', "'\\''"),
    )
}

/// Fixed variables: nothing of the host's own, no pagers, no progress bars, and
/// nothing that makes two runs differ. Python writes no byte code: an edit that
/// keeps size and second would otherwise run the old code.
pub(super) const FIXED_ENV: [(&str, &str); 15] = [
    ("LANG", "C.UTF-8"),
    ("TERM", "dumb"),
    ("TZ", "UTC"),
    ("PAGER", "cat"),
    ("MANPAGER", "cat"),
    ("GIT_PAGER", "cat"),
    ("LESS", "-R"),
    ("PIP_PROGRESS_BAR", "off"),
    ("TQDM_DISABLE", "1"),
    ("PYTHONDONTWRITEBYTECODE", "1"),
    ("PYTHONHASHSEED", "0"),
    ("GIT_AUTHOR_NAME", "agent"),
    ("GIT_AUTHOR_EMAIL", "agent@localhost"),
    ("GIT_COMMITTER_NAME", "agent"),
    ("GIT_COMMITTER_EMAIL", "agent@localhost"),
];

/// Who a command is and where programs are, but for a task whose image says it.
pub(super) const OWN_ENV: [(&str, &str); 3] =
    [("PATH", "/usr/bin:/bin"), ("HOME", "/home/agent"), ("USER", "agent")];

/// Takes the line that says that the command started off the output.
pub(super) struct Sink {
    /// What came before that line: the sandbox's own words.
    pub(super) before: Vec<u8>,
    pub(super) started: bool,
    pub(super) captured: Captured,
}

impl Sink {
    pub(super) fn new(limits: &SandboxLimits) -> Self {
        let captured = Captured::new(limits.output_head, limits.output_tail);
        Self { before: Vec::new(), started: false, captured }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        if self.started {
            return self.captured.push(bytes);
        }
        if self.before.len() < 64 << 10 {
            self.before.extend_from_slice(bytes);
        }
        if let Some(rest) = self.before.strip_prefix(STARTED) {
            self.started = true;
            self.captured.push(rest);
            self.before = Vec::new();
        }
    }

    /// What the sandbox said instead of starting the command.
    pub(super) fn reason(&self) -> String {
        String::from_utf8_lossy(&self.before).trim().to_owned()
    }
}
