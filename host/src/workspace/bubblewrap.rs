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
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use tokio::net::unix::pipe;
use tokio::process::Child;

use super::backend::Sandbox;
use super::cgroup::{Cgroup, InForce};
use super::command::{
    CommandOutput, FIXED_ENV, Mount, MountAccess, OWN_ENV, SandboxCommand, Sink, WORKSPACE_PATH, limit_script,
};
use super::config::{SandboxLimits, WorkspaceConfig};
use super::error::Error;
use super::follow::{Space, Until, Watch, drain, follow};
use super::lease::{Held, Lease, ProcessId, Session};
use super::overlay::Keeper;
use super::programs::find_program;
use super::proxy::Proxy;
use super::resident::{Ended, Resident, answer, not_started, on_lasting_thread};
use super::scratch::Scratch;

/// The user that commands see themselves as.
const INSIDE_ID: &str = "1000";
/// The user of the host that a root host runs commands as: an ordinary user, so
/// that permissions and process limits hold. Nobody logs in as it.
pub(super) const PLAIN_ID: u32 = 64_321;
/// Size of `/dev/shm`, bytes.
const SHARED_MEMORY: &str = "67108864";
/// How long output may still come after the last process is gone.
const DRAIN: Duration = Duration::from_millis(500);

/// How this machine lets a sandbox start; found out once for each root.
#[derive(Clone, Debug)]
pub(super) struct Launcher {
    bwrap: PathBuf,
    /// Set where the host is root: commands run as [`PLAIN_ID`] of the host.
    setpriv: Option<PathBuf>,
    /// Whether a fresh `/proc` can be mounted; some containers refuse it.
    proc: bool,
}

/// Namespaces for each command over the same mounts.
#[derive(Debug)]
pub(super) struct Bubblewrap {
    launcher: Launcher,
    session: Arc<Session>,
    etc: PathBuf,
    mounts: Vec<Mount>,
    limits: SandboxLimits,
    lease: Duration,
    space: Option<Arc<Space>>,
    /// Where the work tree is an overlay: commands start in its namespaces.
    keeper: Option<Arc<Keeper>>,
    proxy: Option<Proxy>,
    group: Option<Cgroup>,
    /// For an agent's commands: the sandbox that waits for the next, if one does.
    resident: Option<tokio::sync::Mutex<Option<Resident>>>,
}

/// What a bubblewrap sandbox is made of.
pub(super) struct Parts {
    pub(super) mounts: Vec<Mount>,
    pub(super) keeper: Option<Arc<Keeper>>,
    pub(super) proxy: Option<Proxy>,
    pub(super) space: Option<Arc<Space>>,
    /// Whether commands may share a sandbox that stays: not where a patch is judged.
    pub(super) resident: bool,
}

impl Bubblewrap {
    /// A sandbox that sees `mounts` beside the system's programs.
    pub(super) async fn new(
        config: &WorkspaceConfig,
        scratch: &Scratch,
        parts: Parts,
    ) -> Result<Self, Error> {
        let session = scratch.session().clone();
        let launcher = Launcher::of(config, scratch).await?;
        let group = Cgroup::make(&session, config)?;
        // Commands open their output again by `/proc`.
        let resident = parts.resident && config.sandbox.resident && launcher.proc;
        Ok(Self {
            resident: resident.then(tokio::sync::Mutex::default),
            launcher,
            etc: minimal_etc(&session)?,
            session,
            mounts: parts.mounts,
            limits: config.sandbox.clone(),
            lease: config.lease(),
            space: parts.space,
            keeper: parts.keeper,
            proxy: parts.proxy,
            group,
        })
    }

    /// Bubblewrap up to the command. No code runs between fork and exec, so that a host
    /// with gigabytes of weights in memory does not pay for a copy of its page tables.
    fn process(&self) -> tokio::process::Command {
        let mut prefix: Vec<OsString> = Vec::new();
        if let Some(group) = &self.group {
            // A shell that steps into the group and becomes what follows.
            let script = "for door in $1; do echo 0 > \"$door\" || exit 125; done; shift; exec \"$@\"";
            let doors: Vec<_> = group.doors().map(|door| door.display().to_string()).collect();
            prefix.extend(["/bin/sh", "-c", script, "sh", &doors.join(" ")].map(Into::into));
        }
        prefix.extend(self.launcher.as_plain_user());
        if let Some(keeper) = &self.keeper {
            prefix.extend(keeper.enter());
        }
        prefix.push(self.launcher.bwrap.clone().into());
        let mut words = prefix.into_iter();
        let mut process = tokio::process::Command::new(words.next().unwrap_or_default());
        process.args(words);
        process.args(["--unshare-user", "--unshare-all", "--die-with-parent", "--new-session"]);
        process.args(["--uid", INSIDE_ID, "--gid", INSIDE_ID, "--hostname", "workspace"]);
        process.args(["--cap-drop", "ALL", "--ro-bind", "/usr", "/usr"]);
        for name in ["/bin", "/sbin", "/lib", "/lib32", "/lib64"] {
            match fs::read_link(name) {
                Ok(target) => process.arg("--symlink").arg(target).arg(name),
                Err(_) => process.args(["--ro-bind-try", name, name]),
            };
        }
        // Memory that a command can fill is bounded: small file systems, and the rest read-only.
        let devices =
            ["--dev", "/dev", "--size", SHARED_MEMORY, "--tmpfs", "/dev/shm", "--remount-ro", "/dev"];
        process.args(devices);
        if self.launcher.proc {
            process.args(["--proc", "/proc"]);
        }
        process.arg("--ro-bind").arg(&self.etc).arg("/etc");
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
            process.arg(&mount.from).arg(&mount.to);
        }
        process.args(["--remount-ro", "/", "--chdir", "/"]);
        process.env_clear().envs(OWN_ENV).envs(FIXED_ENV).envs(self.proxy.iter().flat_map(Proxy::env));
        process
    }

    /// What runs first in the sandbox: it sets the limits and becomes the command.
    fn start_script(&self) -> String {
        let first = self.proxy.as_ref().map(Proxy::relay).unwrap_or_default();
        limit_script(&self.limits, &first, WORKSPACE_PATH)
    }

    /// Starts a command in a sandbox of its own.
    async fn spawn(&self, command: &SandboxCommand, writer: io::PipeWriter) -> Result<Child, Error> {
        let mut process = self.process();
        process.args(["--", "/bin/bash", "-c", &self.start_script(), "bash"]).args(&command.argv);
        process.envs(command.env.iter().map(|(name, value)| (name, value)));
        let second = writer.try_clone().map_err(Error::io("making a pipe for", Path::new("output")))?;
        process.stdin(Stdio::null()).stdout(writer).stderr(second).kill_on_drop(true);
        // Ctrl-C is for the host to act on; a command that died of it would be taken for its own doing.
        process.process_group(0);
        on_lasting_thread(process).await.map_err(not_started)
    }

    fn watch(&self, command: &SandboxCommand, until: Until) -> Watch {
        let silent = self.limits.silent_seconds.map(Duration::from_secs);
        Watch { timeout: command.timeout, silent, space: self.space.clone(), until }
    }

    /// Runs a command in the sandbox that stays, and leaves it in `place` if it still waits for commands.
    async fn run_resident(
        &self,
        place: &mut Option<Resident>,
        command: &SandboxCommand,
    ) -> Result<CommandOutput, Error> {
        let start = Instant::now();
        // Taken out: when this is dropped half-way, the sandbox ends with all that runs in it.
        let mut resident = match place.take() {
            Some(resident) => resident,
            None => {
                let mut process = self.process();
                process.args(["--as-pid-1", "--"]);
                let hold = |id| hold_process(&self.session, id, self.lease);
                let (script, owner) = (self.start_script(), self.launcher.owner());
                Resident::start(process, &script, owner, hold).await?
            }
        };
        let waiting = |error| Error::io("waiting for", &self.launcher.bwrap)(error);
        let nonce = resident.ask(command).await.map_err(waiting)?;
        let mut sink = Sink::new(&self.limits);
        let watch = self.watch(command, Until::CommandEnds);
        let (output, answers) = resident.parts();
        let ended = follow(output, &mut sink, &watch, answer(answers, &nonce)).await.map_err(waiting)?;
        let exit_code = match ended {
            Ok(Ended::Code(code)) => {
                resident.read_rest(&mut sink).map_err(waiting)?;
                *place = Some(resident);
                Some(code)
            }
            Ok(Ended::Sandbox) => {
                // A command that brought it down, or a sandbox that never was.
                kill_namespace(&mut resident.child).await;
                resident.read_rest(&mut sink).map_err(waiting)?;
                Some(exit_code(resident.child.wait().await.map_err(waiting)?)?)
            }
            Err(stop) => {
                kill_namespace(&mut resident.child).await;
                // What was written just before the end is still in the pipe.
                resident.read_rest(&mut sink).map_err(waiting)?;
                let (code, line) = stop.told();
                sink.captured.push(line.as_bytes());
                code
            }
        };
        if !sink.started && ended.is_ok() {
            *place = None;
            return Err(Error::SandboxRefused { reason: sink.reason() });
        }
        Ok(CommandOutput { exit_code, output: sink.captured, elapsed: start.elapsed() })
    }
}

#[async_trait]
impl Sandbox for Bubblewrap {
    async fn run(&self, command: &SandboxCommand) -> Result<CommandOutput, Error> {
        command.check()?;
        // A command beside another has a sandbox of its own, too.
        if let Some(resident) = self.resident.as_ref().filter(|_| !command.alone && Resident::takes(command))
            && let Ok(mut place) = resident.try_lock()
        {
            return self.run_resident(&mut place, command).await;
        }
        let start = Instant::now();
        let (reader, writer) = io::pipe().map_err(Error::io("making a pipe for", Path::new("output")))?;
        let mut child = self.spawn(command, writer).await?;
        let _record = hold_process(&self.session, child.id(), self.lease)?;
        let mut reader = pipe::Receiver::from_owned_fd(OwnedFd::from(reader))
            .map_err(Error::io("reading", Path::new("output")))?;
        let mut sink = Sink::new(&self.limits);
        let watch = self.watch(command, Until::OutputEnds);
        let ended = follow(&mut reader, &mut sink, &watch, child.wait())
            .await
            .map_err(Error::io("waiting for", &self.launcher.bwrap))?;
        let exit_code = match ended {
            Ok(status) => Some(exit_code(status)?),
            Err(stop) => {
                kill_namespace(&mut child).await;
                // What was written just before the end is still in the pipe.
                drain(&mut reader, &mut sink, DRAIN).await;
                let (code, line) = stop.told();
                sink.captured.push(line.as_bytes());
                code
            }
        };
        if !sink.started && matches!(ended, Ok(_)) {
            return Err(Error::SandboxRefused { reason: sink.reason() });
        }
        Ok(CommandOutput { exit_code, output: sink.captured, elapsed: start.elapsed() })
    }

    async fn settle(&self) {
        if let Some(resident) = &self.resident
            && let Some(mut resident) = resident.lock().await.take()
        {
            kill_namespace(&mut resident.child).await;
        }
    }

    fn owner(&self) -> Option<u32> {
        self.launcher.owner()
    }

    fn in_force(&self) -> InForce {
        self.group.as_ref().map_or(InForce::ProcessLimits, Cgroup::in_force)
    }
}

/// A record of a running process; none of one that has ended already.
pub(super) fn hold_process(
    session: &Arc<Session>,
    id: Option<u32>,
    lease: Duration,
) -> Result<Option<Lease>, Error> {
    let process = id.and_then(|id| ProcessId::of(id).ok());
    process.map(|process| session.hold(Held::Process { process }, lease)).transpose()
}

impl Launcher {
    /// The way of this machine, found out with an empty sandbox in `scratch`.
    pub(super) async fn of(config: &WorkspaceConfig, scratch: &Scratch) -> Result<Self, Error> {
        static FOUND: OnceLock<Mutex<HashMap<PathBuf, Launcher>>> = OnceLock::new();
        let found = FOUND.get_or_init(Mutex::default);
        let root = config.root();
        if let Some(launcher) = found.lock().map(|found| found.get(&root).cloned()).unwrap_or_default() {
            return Ok(launcher);
        }
        let launcher = Self::find(config, scratch).await?;
        if let Ok(mut found) = found.lock() {
            found.insert(root, launcher.clone());
        }
        Ok(launcher)
    }

    /// The first way of starting a sandbox that works here, from the tightest on.
    async fn find(config: &WorkspaceConfig, scratch: &Scratch) -> Result<Self, Error> {
        let bwrap = find_program("bwrap").ok_or(Error::NoBubblewrap)?;
        // SAFETY: reads a number of the process.
        let root_host = unsafe { libc::geteuid() } == 0;
        let setpriv = if root_host { find_program("setpriv") } else { None };
        let probe = SandboxCommand::argv(["/bin/true"], Duration::from_secs(10));
        let mut last = None;
        for setpriv in [setpriv.clone(), None].into_iter().skip(usize::from(setpriv.is_none())) {
            for proc in [true, false] {
                let launcher = Self { bwrap: bwrap.clone(), setpriv: setpriv.clone(), proc };
                let sandbox = Bubblewrap {
                    launcher: launcher.clone(),
                    session: scratch.session().clone(),
                    etc: minimal_etc(scratch.session())?,
                    mounts: vec![Mount::read_only(scratch.path(), WORKSPACE_PATH)],
                    limits: config.sandbox.clone(),
                    lease: config.lease(),
                    space: None,
                    keeper: None,
                    proxy: None,
                    group: None,
                    resident: None,
                };
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

    /// The user that commands run as, where it is not the host's own.
    pub(super) fn owner(&self) -> Option<u32> {
        self.setpriv.as_ref().map(|_| PLAIN_ID)
    }

    /// The words before a command line that make it run as [`Self::owner`].
    pub(super) fn as_plain_user(&self) -> Vec<OsString> {
        let Some(setpriv) = &self.setpriv else { return Vec::new() };
        let ids = [
            format!("--reuid={PLAIN_ID}"),
            format!("--regid={PLAIN_ID}"),
            "--clear-groups".into(),
            "--".into(),
        ];
        std::iter::once(setpriv.clone().into()).chain(ids.map(OsString::from)).collect()
    }
}

/// Kills every process of the sandbox and waits until they are gone.
///
/// The child of bubblewrap is process 1 of the namespace. When the kernel has
/// buried it, every process of the namespace is dead, sessions of their own or not.
async fn kill_namespace(child: &mut Child) {
    kill_first(child);
    if tokio::time::timeout(Duration::from_secs(2), child.wait()).await.is_err() {
        let _ = child.kill().await;
    }
}

/// Kills process 1 of the namespace.
pub(super) fn kill_first(child: &Child) {
    let Some(id) = child.id() else { return };
    let listed = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap_or_default();
    for inner in listed.split_whitespace().filter_map(|word| word.parse::<i32>().ok()) {
        // SAFETY: a signal to a child of our own child, which has not been waited for.
        unsafe { libc::kill(inner, libc::SIGKILL) };
    }
}

/// The exit code of a command. Bubblewrap tells signals of the command as 128 + n;
/// one that ended bubblewrap itself came from outside.
fn exit_code(status: ExitStatus) -> Result<i32, Error> {
    use std::os::unix::process::ExitStatusExt;
    let killed = || Error::Killed { what: "the sandbox".into(), signal: status.signal().unwrap_or_default() };
    status.code().ok_or_else(killed)
}

/// The files of `/etc` that programs look for, with none of the host's; one
/// folder for all sandboxes of a session.
fn minimal_etc(session: &Session) -> Result<PathBuf, Error> {
    let folder = session.folder().join("etc");
    if folder.is_dir() {
        return Ok(folder);
    }
    let unfinished = session.folder().join(format!("etc-{}", session.number()));
    let mode = |mode| std::os::unix::fs::PermissionsExt::from_mode(mode);
    let write = || -> io::Result<()> {
        fs::create_dir(&unfinished)?;
        fs::set_permissions(&unfinished, mode(0o755))?;
        let passwd =
            "agent:x:1000:1000:agent:/home/agent:/bin/bash\nnobody:x:65534:65534:nobody:/:/bin/false\n";
        let files = [
            ("passwd", passwd),
            ("group", "agent:x:1000:\nnogroup:x:65534:\n"),
            ("hosts", "127.0.0.1 localhost\n"),
            ("nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\n"),
            // The host's own is mounted over it.
            ("ld.so.cache", ""),
        ];
        for (name, text) in files {
            fs::write(unfinished.join(name), text)?;
            fs::set_permissions(unfinished.join(name), mode(0o644))?;
        }
        fs::create_dir(unfinished.join("alternatives"))
    };
    write().map_err(Error::io("writing", &unfinished))?;
    match fs::rename(&unfinished, &folder) {
        Ok(()) => Ok(folder),
        // Another thread was first.
        Err(_) if folder.is_dir() => Ok(folder),
        Err(error) => Err(Error::io("making", &folder)(error)),
    }
}

/// How much the folders of a workspace may grow.
pub(super) fn space(folders: Vec<PathBuf>, base: u64, limits: &SandboxLimits) -> Arc<Space> {
    Arc::new(Space { folders, limit: limits.disk_bytes, base, last: AtomicU64::new(0) })
}
