//! How does a command of an agent run without reaching the host?
//!
//! Bubblewrap with namespaces of its own for users, processes, network, IPC,
//! host name and cgroups; `/usr` read-only; nothing of the host's environment;
//! the workspace always at [`WORKSPACE_PATH`], so that records are equal across
//! machines. Resource limits are set by a shell inside the namespaces, which
//! also writes one line before the command starts: output without that line is
//! trouble of the sandbox and never the command's own.

use std::collections::HashMap;
use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::process::Child;

use super::config::{SandboxLimits, WorkspaceConfig};
use super::error::Error;
use super::output::Captured;

/// Where a workspace lies for the commands that run in it.
pub const WORKSPACE_PATH: &str = "/workspace";

/// The user that commands see themselves as.
const INSIDE_ID: &str = "1000";
/// The user of the host that a root host runs commands as: an ordinary user, so
/// that permissions and process limits hold. Nobody logs in as it.
const PLAIN_ID: u32 = 64_321;
/// The line that says that the command started.
const STARTED: &[u8] = b"tandem: command starts\n";
/// Longest single argument (the kernel's limit is 131 072 with its end byte).
const ARGUMENT_BYTES: usize = 131_000;
/// Size of `/dev/shm`, bytes.
const SHARED_MEMORY: &str = "67108864";
/// How long output may still come after the last process is gone.
const DRAIN: Duration = Duration::from_millis(500);

/// A folder of the host that a command sees.
#[derive(Clone, Debug)]
pub struct Mount {
    pub from: PathBuf,
    pub to: &'static str,
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
    pub fn read_only(from: impl Into<PathBuf>, to: &'static str) -> Self {
        Self { from: from.into(), to, access: MountAccess::ReadOnly }
    }

    /// A mount that commands may write.
    pub fn read_write(from: impl Into<PathBuf>, to: &'static str) -> Self {
        Self { from: from.into(), to, access: MountAccess::ReadWrite }
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
}

impl SandboxCommand {
    /// A program with its arguments.
    pub fn argv<S: Into<OsString>>(argv: impl IntoIterator<Item = S>, timeout: Duration) -> Self {
        Self { argv: argv.into_iter().map(Into::into).collect(), timeout, env: Vec::new() }
    }

    /// A command line for `bash -c`.
    pub fn bash(script: &str, timeout: Duration) -> Self {
        Self::argv(["/bin/bash", "-c", script], timeout)
    }

    /// Adds a variable.
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }
}

/// What a command left.
#[derive(Clone, Debug)]
pub struct CommandOutput {
    /// None when it was stopped at its time limit. 128 + n for signal n.
    pub exit_code: Option<i32>,
    /// Standard output and error in the order they came.
    pub output: Captured,
    /// Wall-clock time from start to end.
    pub elapsed: Duration,
}

/// How this machine lets a sandbox start; found out once.
#[derive(Clone, Debug)]
struct Launcher {
    bwrap: PathBuf,
    /// Set where the host is root: commands run as [`PLAIN_ID`] of the host.
    setpriv: Option<PathBuf>,
    /// Whether a fresh `/proc` can be mounted; some containers refuse it.
    proc: bool,
}

/// A place for commands: mounts and limits. Each command gets namespaces of its own.
#[derive(Clone, Debug)]
pub struct Sandbox {
    launcher: Launcher,
    etc: Arc<tempfile::TempDir>,
    mounts: Vec<Mount>,
    limits: SandboxLimits,
}

impl Sandbox {
    /// A sandbox that sees `mounts` beside the system's programs.
    pub async fn new(config: &WorkspaceConfig, mounts: Vec<Mount>) -> Result<Self, Error> {
        let root = config.root();
        let etc = minimal_etc(&root)?;
        static FOUND: OnceLock<Mutex<HashMap<PathBuf, Launcher>>> = OnceLock::new();
        let found = FOUND.get_or_init(Mutex::default);
        let known = found.lock().map(|found| found.get(&root).cloned()).unwrap_or_default();
        let launcher = match known {
            Some(launcher) => launcher,
            None => {
                let launcher = Launcher::find(&root, &etc, &config.sandbox).await?;
                if let Ok(mut found) = found.lock() {
                    found.insert(root, launcher.clone());
                }
                launcher
            }
        };
        Ok(Self { launcher, etc, mounts, limits: config.sandbox.clone() })
    }

    /// The user and group of the host that owns what commands write, where it
    /// is not the user of the host itself.
    pub fn owner(&self) -> Option<u32> {
        self.launcher.setpriv.as_ref().map(|_| PLAIN_ID)
    }

    /// Runs a command to its end or to its time limit. All its processes are
    /// dead when this returns.
    ///
    /// # Errors
    /// [`Error::BadCommand`] for arguments that no system takes, and
    /// [`Error::SandboxRefused`] when the command did not start.
    pub async fn run(&self, command: &SandboxCommand) -> Result<CommandOutput, Error> {
        check_arguments(&command.argv)?;
        let start = Instant::now();
        let (reader, writer) = io::pipe().map_err(Error::io("making a pipe for", Path::new("output")))?;
        let mut child = self.spawn(command, writer)?;
        let mut reader = pipe::Receiver::from_owned_fd(OwnedFd::from(reader))
            .map_err(Error::io("reading", Path::new("output")))?;
        let mut sink = Sink::new(&self.limits);

        let ended = tokio::time::timeout(command.timeout, async {
            sink.read_all(&mut reader).await?;
            child.wait().await
        })
        .await;
        let exit_code = match ended {
            Ok(status) => Some(exit_code(status.map_err(Error::io("waiting for", &self.launcher.bwrap))?)?),
            Err(_) => {
                kill_namespace(&mut child).await;
                // What was written just before the end is still in the pipe.
                let _ = tokio::time::timeout(DRAIN, sink.read_all(&mut reader)).await;
                None
            }
        };
        let elapsed = start.elapsed();
        if !sink.started && exit_code.is_some() {
            let reason = String::from_utf8_lossy(&sink.before).trim().to_owned();
            return Err(Error::SandboxRefused { reason });
        }
        Ok(CommandOutput { exit_code, output: sink.captured, elapsed })
    }

    /// Starts bubblewrap. No code runs between fork and exec, so that a host
    /// with gigabytes of weights in memory does not pay for a copy of its page tables.
    fn spawn(&self, command: &SandboxCommand, writer: io::PipeWriter) -> Result<Child, Error> {
        let mut process = match &self.launcher.setpriv {
            None => tokio::process::Command::new(&self.launcher.bwrap),
            Some(setpriv) => {
                let mut process = tokio::process::Command::new(setpriv);
                process.arg(format!("--reuid={PLAIN_ID}")).arg(format!("--regid={PLAIN_ID}"));
                process.args(["--clear-groups", "--"]).arg(&self.launcher.bwrap);
                process
            }
        };
        process.args(["--unshare-user", "--unshare-all", "--die-with-parent", "--new-session"]);
        process.args(["--uid", INSIDE_ID, "--gid", INSIDE_ID, "--hostname", "workspace"]);
        process.args(["--cap-drop", "ALL", "--ro-bind", "/usr", "/usr"]);
        for name in ["/bin", "/sbin", "/lib", "/lib32", "/lib64"] {
            match std::fs::read_link(name) {
                Ok(target) => process.arg("--symlink").arg(target).arg(name),
                Err(_) => process.args(["--ro-bind-try", name, name]),
            };
        }
        // Memory that a command can fill is bounded: small file systems, and the rest read-only.
        process.args([
            "--dev",
            "/dev",
            "--size",
            SHARED_MEMORY,
            "--tmpfs",
            "/dev/shm",
            "--remount-ro",
            "/dev",
        ]);
        if self.launcher.proc {
            process.args(["--proc", "/proc"]);
        }
        process.arg("--ro-bind").arg(self.etc.path()).arg("/etc");
        for name in ["/etc/alternatives", "/etc/ld.so.cache"] {
            if Path::new(name).exists() {
                process.args(["--ro-bind", name, name]);
            }
        }
        process.args(["--dir", "/tmp", "--dir", "/home/agent"]);
        for mount in &self.mounts {
            process.arg(match mount.access {
                MountAccess::ReadOnly => "--ro-bind",
                MountAccess::ReadWrite => "--bind",
            });
            process.arg(&mount.from).arg(mount.to);
        }
        process.args([
            "--remount-ro",
            "/",
            "--chdir",
            WORKSPACE_PATH,
            "--",
            "/bin/bash",
            "-c",
            &self.limit_script(),
            "bash",
        ]);
        process.args(&command.argv);

        process.env_clear().envs(FIXED_ENV).envs(command.env.iter().map(|(name, value)| (name, value)));
        let second = writer.try_clone().map_err(Error::io("making a pipe for", Path::new("output")))?;
        process.stdin(Stdio::null()).stdout(writer).stderr(second).kill_on_drop(true);
        // Ctrl-C is for the host to act on; a command that died of it would be taken for its own doing.
        process.process_group(0);
        process.spawn().map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => Error::NoBubblewrap,
            io::ErrorKind::ArgumentListTooLong | io::ErrorKind::InvalidInput => {
                Error::BadCommand { reason: source.to_string() }
            }
            _ => Error::io("starting", &self.launcher.bwrap)(source),
        })
    }

    /// Sets the limits from inside and says that the command starts. A limit that
    /// cannot be set is one that is tighter already.
    fn limit_script(&self) -> String {
        let SandboxLimits { address_space, processes, file_bytes, .. } = self.limits;
        format!(
            "for limit in '-c 0' '-u {processes}' '-v {}' '-f {}'; do ulimit $limit 2>/dev/null; done; \
             printf '%s' '{}'; exec \"$@\"",
            address_space / 1024,
            file_bytes / 1024,
            String::from_utf8_lossy(STARTED),
        )
    }
}

/// Fixed variables: nothing of the host's own, no pagers, no progress bars, and
/// nothing that makes two runs differ. Python writes no byte code: an edit that
/// keeps size and second would otherwise run the old code.
const FIXED_ENV: [(&str, &str); 18] = [
    ("PATH", "/usr/bin:/bin"),
    ("HOME", "/home/agent"),
    ("USER", "agent"),
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

/// Takes the line that says that the command started off the output.
struct Sink {
    before: Vec<u8>,
    started: bool,
    captured: Captured,
}

impl Sink {
    fn new(limits: &SandboxLimits) -> Self {
        let captured = Captured::new(limits.output_head, limits.output_tail);
        Self { before: Vec::new(), started: false, captured }
    }

    async fn read_all(&mut self, reader: &mut pipe::Receiver) -> io::Result<()> {
        let mut chunk = vec![0; 64 << 10];
        loop {
            match reader.read(&mut chunk).await? {
                0 => return Ok(()),
                count => self.push(&chunk[..count]),
            }
        }
    }

    fn push(&mut self, bytes: &[u8]) {
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
}

impl Launcher {
    /// The first way of starting a sandbox that works here, from the tightest on.
    async fn find(root: &Path, etc: &Arc<tempfile::TempDir>, limits: &SandboxLimits) -> Result<Self, Error> {
        let bwrap = find_program("bwrap").ok_or(Error::NoBubblewrap)?;
        // SAFETY: reads a number of the process.
        let root_host = unsafe { libc::geteuid() } == 0;
        let setpriv = if root_host { find_program("setpriv") } else { None };
        let folder = tempfile::Builder::new()
            .prefix("tandem-probe-")
            .tempdir_in(root)
            .map_err(Error::io("making a folder in", root))?;
        open_to_others(folder.path())?;

        let mut last = None;
        for setpriv in [setpriv.clone(), None].into_iter().skip(usize::from(setpriv.is_none())) {
            for proc in [true, false] {
                let launcher = Self { bwrap: bwrap.clone(), setpriv: setpriv.clone(), proc };
                let mounts = vec![Mount::read_only(folder.path(), WORKSPACE_PATH)];
                let sandbox =
                    Sandbox { launcher: launcher.clone(), etc: etc.clone(), mounts, limits: limits.clone() };
                let probe = SandboxCommand::argv(["/bin/true"], Duration::from_secs(10));
                match sandbox.run(&probe).await {
                    Ok(CommandOutput { exit_code: Some(0), .. }) => return Ok(launcher),
                    Ok(output) => last = Some(format!("`true` ended with {:?}", output.exit_code)),
                    Err(Error::SandboxRefused { reason }) => last = Some(reason),
                    Err(error) => return Err(error),
                }
            }
        }
        Err(Error::SandboxRefused { reason: last.unwrap_or_default() })
    }
}

/// Kills every process of the sandbox and waits until they are gone.
///
/// The child of bubblewrap is process 1 of the namespace. When the kernel has
/// buried it, every process of the namespace is dead, sessions of their own or not.
async fn kill_namespace(child: &mut Child) {
    let Some(id) = child.id() else { return };
    let listed = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap_or_default();
    for inner in listed.split_whitespace().filter_map(|word| word.parse::<i32>().ok()) {
        // SAFETY: a signal to a child of our own child, which has not been waited for.
        unsafe { libc::kill(inner, libc::SIGKILL) };
    }
    if tokio::time::timeout(Duration::from_secs(2), child.wait()).await.is_err() {
        let _ = child.kill().await;
    }
}

/// The exit code of a command. Bubblewrap tells signals of the command as 128 + n;
/// one that ended bubblewrap itself came from outside.
fn exit_code(status: ExitStatus) -> Result<i32, Error> {
    use std::os::unix::process::ExitStatusExt;
    let killed = || Error::Killed { what: "the sandbox".into(), signal: status.signal().unwrap_or_default() };
    status.code().ok_or_else(killed)
}

fn check_arguments(argv: &[OsString]) -> Result<(), Error> {
    use std::os::unix::ffi::OsStrExt;
    let bad = |reason: String| Err(Error::BadCommand { reason });
    if argv.is_empty() {
        return bad("it has no program".into());
    }
    for argument in argv {
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

/// The files of `/etc` that programs look for, with none of the host's.
fn minimal_etc(root: &Path) -> Result<Arc<tempfile::TempDir>, Error> {
    let folder = tempfile::Builder::new()
        .prefix("tandem-etc-")
        .tempdir_in(root)
        .map_err(Error::io("making a folder in", root))?;
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(folder.path(), mode).map_err(Error::io("opening", folder.path()))?;
    let files = [
        (
            "passwd",
            "agent:x:1000:1000:agent:/home/agent:/bin/bash\nnobody:x:65534:65534:nobody:/:/bin/false\n",
        ),
        ("group", "agent:x:1000:\nnogroup:x:65534:\n"),
        ("hosts", "127.0.0.1 localhost\n"),
        ("nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\n"),
        // The host's own is mounted over it.
        ("ld.so.cache", ""),
    ];
    for (name, text) in files {
        let path = folder.path().join(name);
        std::fs::write(&path, text).map_err(Error::io("writing", &path))?;
    }
    let alternatives = folder.path().join("alternatives");
    std::fs::create_dir(&alternatives).map_err(Error::io("making", &alternatives))?;
    Ok(Arc::new(folder))
}

/// Lets commands, which may run as another user of the host, pass through a folder.
pub(super) fn open_to_others(path: &Path) -> Result<(), Error> {
    use std::os::unix::fs::PermissionsExt;
    let mode = std::fs::Permissions::from_mode(0o711);
    std::fs::set_permissions(path, mode).map_err(Error::io("opening", path))
}

/// Where a program of the host lies.
pub(super) fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let usual = ["/usr/local/bin", "/usr/bin", "/bin"].map(PathBuf::from);
    std::env::split_paths(&path).chain(usual).map(|folder| folder.join(name)).find(|file| file.is_file())
}
