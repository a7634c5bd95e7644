//! How does a command run with no sandbox at all? For machines that are a sandbox
//! themselves, and only where [`super::allow_host_backend`] was called.
//!
//! Its processes are found again by a variable that they inherit; one that takes
//! it away is not: this back-end holds no hostile command.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use tokio::net::unix::pipe;

use super::backend::{Places, Sandbox};
use super::cgroup::InForce;
use super::command::{CommandOutput, FIXED_ENV, OWN_ENV, SandboxCommand, Sink, limit_script};
use super::config::{SandboxLimits, WorkspaceConfig};
use super::error::Error;
use super::follow::{Space, Until, Watch, drain, follow};
use super::gc;
use super::lease::{Held, Lease};
use super::scratch::Scratch;

/// The variable that marks the processes of a workspace.
const MARK: &str = "TANDEM_WORKSPACE";
/// How long output may still come after the command's own process is gone.
const DRAIN: Duration = Duration::from_millis(500);

/// Looks for processes that are left, at most, and those without a find that end it.
const LOOKS: usize = 40;
const QUIET_LOOKS: usize = 4;

/// Commands as the user of the host.
#[derive(Debug)]
pub(super) struct Plain {
    places: Places,
    mark: String,
    limits: SandboxLimits,
    space: Arc<Space>,
    _lease: Lease,
}

impl Plain {
    pub(super) fn new(
        config: &WorkspaceConfig,
        scratch: &Scratch,
        places: Places,
        space: Arc<Space>,
    ) -> Result<Self, Error> {
        let mark = format!("{MARK}={}", scratch.path().display());
        let lease = scratch.session().hold(Held::Marked { mark: mark.clone() }, config.lease())?;
        Ok(Self { places, mark, limits: config.sandbox.clone(), space, _lease: lease })
    }

    /// Kills what is left of the workspace's processes, those with sessions of their own too.
    fn kill_marked(&self) {
        // A process may start another while it is looked for, and one that is
        // just becoming another program shows no environment for a moment.
        let mut quiet = 0;
        for _ in 0..LOOKS {
            let found = gc::marked(&self.mark);
            quiet = if found.is_empty() { quiet + 1 } else { 0 };
            if quiet == QUIET_LOOKS {
                return;
            }
            for pid in found {
                // SAFETY: a signal to a process that carries this workspace's mark.
                unsafe { libc::kill(pid as i32, libc::SIGKILL) };
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Plain {
    fn drop(&mut self) {
        self.kill_marked();
    }
}

/// Kills the group of a command whose future is dropped.
struct Group<'a>(&'a Plain);

impl Drop for Group<'_> {
    fn drop(&mut self) {
        self.0.kill_marked();
    }
}

#[async_trait]
impl Sandbox for Plain {
    async fn run(&self, command: &SandboxCommand) -> Result<CommandOutput, Error> {
        command.check()?;
        let start = Instant::now();
        let (reader, writer) = io::pipe().map_err(Error::io("making a pipe for", Path::new("output")))?;
        let second = writer.try_clone().map_err(Error::io("making a pipe for", Path::new("output")))?;
        let mut process = tokio::process::Command::new("/bin/bash");
        process.args(["-c", &limit_script(&self.limits, "", "."), "bash"]).args(&command.argv);
        process.current_dir(&self.places.tree).env_clear().envs(OWN_ENV).envs(FIXED_ENV);
        process.env("HOME", &self.places.home).env("TMPDIR", &self.places.tmp);
        process.envs(command.env.iter().map(|(name, value)| (name, value)));
        process.envs(self.mark.split_once('='));
        process.stdin(Stdio::null()).stdout(writer).stderr(second).process_group(0).kill_on_drop(true);
        let group = Group(self);
        let mut child = process.spawn().map_err(Error::io("starting", Path::new("/bin/bash")))?;
        drop(process);
        let mut reader = pipe::Receiver::from_owned_fd(OwnedFd::from(reader))
            .map_err(Error::io("reading", Path::new("output")))?;
        let mut sink = Sink::new(&self.limits);
        let silent = self.limits.silent_seconds.map(Duration::from_secs);
        let watch = Watch {
            timeout: command.timeout,
            silent,
            space: Some(self.space.clone()),
            until: Until::CommandEnds,
        };
        let ended = follow(&mut reader, &mut sink, &watch, child.wait())
            .await
            .map_err(Error::io("waiting for", Path::new("/bin/bash")))?;
        let (exit_code, line) = match ended {
            Ok(status) => {
                use std::os::unix::process::ExitStatusExt;
                let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default());
                (Some(code), String::new())
            }
            Err(stop) => stop.told(),
        };
        drop(group);
        let _ = child.wait().await;
        drain(&mut reader, &mut sink, DRAIN).await;
        sink.captured.push(line.as_bytes());
        if !sink.started && exit_code.is_some() {
            return Err(Error::SandboxRefused { reason: sink.reason() });
        }
        Ok(CommandOutput { exit_code, output: sink.captured, elapsed: start.elapsed() })
    }

    fn owner(&self) -> Option<u32> {
        None
    }

    fn in_force(&self) -> InForce {
        InForce::ProcessLimits
    }
}
