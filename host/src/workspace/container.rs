//! How does a command run in a container of podman or Docker? Through the Docker API.
//!
//! One container for each workspace, whose first process only waits; commands run
//! beside it. The work tree, `/tmp` and the home folder are folders of the host.
//! A command that ends takes its background children with it, and one that does
//! not end goes with a restart of the container, which kills all that is in it.

use std::collections::HashMap;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bollard::Docker;
use bollard::container::LogOutput;
use bollard::errors::Error as ApiError;
use bollard::exec::{StartExecOptions, StartExecResults};
use bollard::models::{ContainerCreateBody, ExecConfig, HostConfig, Mount as ApiMount, MountType};
use bollard::query_parameters::{CreateContainerOptions, RemoveContainerOptions, RestartContainerOptions};
use futures_util::StreamExt;
use tokio::io::AsyncWriteExt;
use tokio::sync::Mutex;

use super::backend::Sandbox;
use super::cgroup::InForce;
use super::command::{
    CommandOutput, FIXED_ENV, Mount, MountAccess, OWN_ENV, SandboxCommand, Sink, WORKSPACE_PATH, limit_script,
};
use super::config::{SandboxLimits, WorkspaceConfig};
use super::error::Error;
use super::follow::{Space, Until, Watch, follow};
use super::lease::{Held, Lease};
use super::proxy::Proxy;
use super::scratch::Scratch;
use super::snapshot::give_to;

/// Says in the engine's lists whose a container is.
const LABEL: &str = "org.tandem.workspace";
/// Waits, and buries the orphans of commands.
const WAIT: &str = "while :; do sleep 3600 & wait; done";
/// Runs a command and then kills all that it left, which is everything but this
/// shell and the first process.
const RUN: &str = "exec 2>/dev/null; /bin/sh -c \"$1\" \"$@\"; code=$?; kill -9 -1; exit $code";
/// Seconds that the engine may take for one answer.
const ANSWER: u64 = 60;
/// Further tries of a restart.
const RESTARTS: u32 = 20;
/// Bytes of output on their way from the engine to the reader.
const IN_FLIGHT: usize = 64 << 10;

/// Commands in one container.
#[derive(Debug)]
pub(super) struct Container {
    docker: Docker,
    socket: String,
    name: String,
    user: User,
    env: Vec<String>,
    script: String,
    limits: SandboxLimits,
    space: Arc<Space>,
    /// Held by the command that runs: they share the container.
    turn: Arc<Mutex<()>>,
    /// Whether processes of an earlier command may still run.
    dirty: Arc<AtomicBool>,
    _proxy: Option<Proxy>,
    /// Given to the thread that removes the container.
    held: Option<(Arc<Scratch>, Lease)>,
}

/// Who commands are, inside and on the host.
#[derive(Clone, Debug, PartialEq, Eq)]
struct User {
    /// `uid:gid` in the container.
    inside: String,
    /// The owner of their files on the host.
    host: u32,
}

/// The engine of this machine and what it needs to know.
#[derive(Debug)]
pub(super) struct Engine {
    docker: Docker,
    socket: String,
    user: User,
}

impl User {
    /// The owner of their files, where it is not the user of the host itself.
    fn owner(&self) -> Option<u32> {
        // SAFETY: reads a number of the process.
        let own = unsafe { libc::geteuid() };
        (self.host != own).then_some(self.host)
    }
}

impl Engine {
    /// Connects to the engine of the configuration, or the first that is found.
    ///
    /// # Errors
    /// No engine, or one that does not answer.
    pub(super) async fn connect(config: &WorkspaceConfig) -> Result<Self, Error> {
        let socket = match &config.container.socket {
            Some(socket) => socket.clone(),
            None => sockets().into_iter().find(|path| path.exists()).ok_or(Error::NoEngine)?,
        };
        let docker = open(&socket)?;
        docker.ping().await.map_err(|error| trouble("asking the engine whether it is there", error))?;
        let service = std::fs::metadata(&socket).map_err(Error::io("reading", &socket))?.uid();
        // SAFETY: reads numbers of the process.
        let (own_user, own_group) = unsafe { (libc::geteuid(), libc::getegid()) };
        let user = match (service, own_user) {
            // Rootless: root of the container is the user of the service, and nobody else.
            (1.., _) => User { inside: "0:0".into(), host: service },
            (0, 0) => {
                let plain = super::bubblewrap::PLAIN_ID;
                User { inside: format!("{plain}:{plain}"), host: plain }
            }
            (0, user) => User { inside: format!("{user}:{own_group}"), host: user },
        };
        Ok(Self { docker, socket: socket.to_string_lossy().into_owned(), user })
    }

    /// The folder that an image starts in.
    ///
    /// # Errors
    /// An image that the engine does not have.
    pub(super) async fn work_folder(&self, image: &str) -> Result<String, Error> {
        let told = self.docker.inspect_image(image).await.map_err(|error| no_image(image, error))?;
        let folder = told.config.and_then(|config| config.working_dir);
        Ok(folder.filter(|folder| !folder.is_empty()).unwrap_or_else(|| "/".to_owned()))
    }

    /// Gives a folder of the host to the user that commands run as.
    pub(super) fn hand_over(&self, folder: &Path) -> Result<(), Error> {
        match self.user.owner() {
            Some(owner) => give_to(folder, owner),
            None => Ok(()),
        }
    }
}

/// What a container is made of.
pub(super) struct Parts {
    pub(super) mounts: Vec<Mount>,
    pub(super) proxy: Option<Proxy>,
    pub(super) space: Arc<Space>,
    pub(super) place: Place,
}

/// The image that commands run in, and where.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) image: String,
    /// Where commands start.
    pub(super) folder: String,
    /// Whether the image belongs to the task, and says itself where its programs and its home are.
    pub(super) of_task: bool,
    /// Whether commands may write to the image's own files.
    pub(super) writable: bool,
}

impl Place {
    /// That of the configuration.
    pub(super) fn of(config: &WorkspaceConfig) -> Self {
        let (image, writable) = (config.container.image.clone(), config.container.writable_root);
        Self { image, folder: WORKSPACE_PATH.to_owned(), of_task: false, writable }
    }
}

impl Container {
    /// Makes and starts the container of a workspace.
    ///
    /// # Errors
    /// An image that the engine does not have, or any other trouble of the engine.
    pub(super) async fn start(
        engine: Engine,
        config: &WorkspaceConfig,
        scratch: &Arc<Scratch>,
        parts: Parts,
    ) -> Result<Self, Error> {
        let Engine { docker, socket, user } = engine;
        let session = scratch.session();
        let folder = session.folder().file_name().unwrap_or_default().to_string_lossy().into_owned();
        let name = format!("{folder}-{}", session.number());
        let held = Held::Container { socket: socket.clone(), name: name.clone() };
        let lease = session.hold(held, config.lease())?;
        // Errors go where output goes, in its order; what the shell around says, nowhere.
        let relay = parts.proxy.as_ref().map(Proxy::relay).unwrap_or_default();
        let first = format!("exec 2>&1; {relay}");
        let own = OWN_ENV.iter().filter(|_| !parts.place.of_task);
        let fixed = own.chain(&FIXED_ENV).map(|(name, value)| format!("{name}={value}"));
        let proxied = parts.proxy.iter().flat_map(Proxy::env).map(|(name, value)| format!("{name}={value}"));
        let container = Self {
            docker,
            socket,
            name: name.clone(),
            user,
            env: fixed.chain(proxied).collect(),
            script: limit_script(&config.sandbox, &first, &parts.place.folder),
            limits: config.sandbox.clone(),
            space: parts.space,
            turn: Arc::default(),
            dirty: Arc::default(),
            _proxy: parts.proxy,
            held: Some((scratch.clone(), lease)),
        };
        let body = body(&config.sandbox, &container.user, &parts.mounts, &parts.place, &folder);
        let options = CreateContainerOptions { name: Some(name.clone()), ..Default::default() };
        let made = container.docker.create_container(Some(options), body).await;
        made.map_err(|error| no_image(&parts.place.image, error))?;
        let started = container.docker.start_container(&name, None).await;
        started.map_err(|error| trouble("starting a container", error))?;
        Ok(container)
    }

    /// Kills everything in the container but its first process. The caller has the turn.
    async fn clear(&self) -> Result<(), Error> {
        clear(&self.docker, &self.name, &self.dirty).await
    }

    async fn exec(&self, command: &SandboxCommand) -> Result<CommandOutput, Error> {
        let start = Instant::now();
        let mut argv: Vec<String> = ["/bin/sh", "-c", RUN, "sh"].map(str::to_owned).to_vec();
        argv.push(self.script.clone());
        for word in &command.argv {
            let word = word.to_str().ok_or(Error::BadCommand {
                reason: "it is not UTF-8, and the engine's interface takes nothing else".into(),
            })?;
            argv.push(word.to_owned());
        }
        let extra = command.env.iter().map(|(name, value)| format!("{name}={value}"));
        let config = ExecConfig {
            attach_stdout: Some(true),
            attach_stderr: Some(true),
            env: Some(self.env.iter().cloned().chain(extra).collect()),
            cmd: Some(argv),
            user: Some(self.user.inside.clone()),
            working_dir: Some("/".into()),
            ..ExecConfig::default()
        };
        let made = self.docker.create_exec(&self.name, config).await;
        let id = made.map_err(|error| trouble("preparing a command", error))?.id;
        self.dirty.store(true, Ordering::Relaxed);
        let started = self.docker.start_exec(&id, None::<StartExecOptions>).await;
        let StartExecResults::Attached { output, input } =
            started.map_err(|error| trouble("starting a command", error))?
        else {
            return Err(Error::Engine { action: "starting a command", reason: "it gave no output".into() });
        };
        // The engine's frames become a stream of bytes; its end is the command's.
        let (mut to, from) = tokio::io::duplex(IN_FLIGHT);
        let pump = async move {
            let (_input, mut output) = (input, output);
            while let Some(frame) = output.next().await {
                let (LogOutput::StdOut { message }
                | LogOutput::StdErr { message }
                | LogOutput::Console { message }) = frame.map_err(io::Error::other)?
                else {
                    continue;
                };
                to.write_all(&message).await?;
            }
            Ok(())
        };
        let mut sink = Sink::new(&self.limits);
        let silent = self.limits.silent_seconds.map(Duration::from_secs);
        let watch = Watch {
            timeout: command.timeout,
            silent,
            space: Some(self.space.clone()),
            until: Until::OutputEnds,
        };
        let ended = {
            let pump = tokio::spawn(pump);
            let stop = pump.abort_handle();
            let ended = async { pump.await.map_err(io::Error::other)? };
            let ended = follow(from, &mut sink, &watch, ended).await;
            stop.abort();
            ended.map_err(Error::io("reading the output of", Path::new(&self.name)))?
        };
        let exit_code = match ended {
            Ok(()) => {
                let told = self.docker.inspect_exec(&id).await;
                let told = told.map_err(|error| trouble("asking how a command ended", error))?;
                let code = told.exit_code.and_then(|code| i32::try_from(code).ok()).ok_or(Error::Engine {
                    action: "asking how a command ended",
                    reason: "it gave no exit code".into(),
                })?;
                // A command that killed the shell around it may have left others.
                if code < 128 {
                    self.dirty.store(false, Ordering::Relaxed);
                } else {
                    self.clear().await?;
                }
                Some(code)
            }
            Err(stop) => {
                self.clear().await?;
                let (code, line) = stop.told();
                sink.captured.push(line.as_bytes());
                code
            }
        };
        if !sink.started && exit_code.is_some() {
            return Err(Error::SandboxRefused { reason: sink.reason() });
        }
        Ok(CommandOutput { exit_code, output: sink.captured, elapsed: start.elapsed() })
    }
}

#[async_trait]
impl Sandbox for Container {
    async fn run(&self, command: &SandboxCommand) -> Result<CommandOutput, Error> {
        command.check()?;
        let _turn = self.turn.lock().await;
        // A command whose future was dropped is still there.
        if self.dirty.load(Ordering::Relaxed) {
            self.clear().await?;
        }
        let dropped = Dropped(Some(self));
        let output = self.exec(command).await;
        std::mem::forget(dropped);
        output
    }

    fn owner(&self) -> Option<u32> {
        self.user.owner()
    }

    fn in_force(&self) -> InForce {
        InForce::Engine
    }
}

/// Kills what a command left whose future is dropped, as soon as the engine can.
struct Dropped<'a>(Option<&'a Container>);

impl Drop for Dropped<'_> {
    fn drop(&mut self) {
        let (Some(container), Ok(runtime)) = (self.0, tokio::runtime::Handle::try_current()) else { return };
        let (docker, name) = (container.docker.clone(), container.name.clone());
        let (turn, dirty) = (container.turn.clone(), container.dirty.clone());
        runtime.spawn(async move {
            let _turn = turn.lock().await;
            // The next command may have been first; a container that is gone needs nothing.
            if dirty.load(Ordering::Relaxed) {
                let _ = clear(&docker, &name, &dirty).await;
            }
        });
    }
}

/// Restarts a container, which kills all that is in it.
async fn clear(docker: &Docker, name: &str, dirty: &AtomicBool) -> Result<(), Error> {
    let mut tries = 0;
    loop {
        let options = RestartContainerOptions { t: Some(0), ..Default::default() };
        match docker.restart_container(name, Some(options)).await {
            Ok(()) => break dirty.store(false, Ordering::Relaxed),
            // An engine that is still busy with the end of a command says so with 500.
            Err(ApiError::DockerResponseServerError { status_code: 500, .. }) if tries < RESTARTS => {
                tries += 1;
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            Err(error) => return Err(trouble("restarting a container", error)),
        }
    }
    Ok(())
}

impl Drop for Container {
    fn drop(&mut self) {
        let (socket, name, held) = (self.socket.clone(), self.name.clone(), self.held.take());
        // The engine takes its time; the folder and the record go after the container.
        std::thread::spawn(move || match remove_now(&socket, &name, true) {
            Ok(_) => drop(held),
            Err(error) => {
                tracing::warn!("container {name} could not be removed: {error}");
                // The record stays for the next sweep.
                if let Some((_scratch, lease)) = held {
                    std::mem::forget(lease);
                }
            }
        });
    }
}

/// Removes a container, or only says whether it is there. For threads without a runtime.
pub(super) fn remove_now(socket: &str, name: &str, remove: bool) -> Result<bool, Error> {
    let (socket, name) = (socket.to_owned(), name.to_owned());
    let work = move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(Error::io("starting", Path::new("a runtime")))?;
        runtime.block_on(async {
            let docker = open(Path::new(&socket))?;
            let answer = if remove {
                let options = RemoveContainerOptions { force: true, v: true, ..Default::default() };
                docker.remove_container(&name, Some(options)).await
            } else {
                docker.inspect_container(&name, None).await.map(drop)
            };
            match answer {
                Ok(()) => Ok(true),
                Err(ApiError::DockerResponseServerError { status_code: 404, .. }) => Ok(false),
                Err(error) => Err(trouble("removing a container", error)),
            }
        })
    };
    // A thread of its own: this one may drive a runtime already.
    let ended = std::thread::spawn(work).join();
    ended.unwrap_or_else(|_| {
        Err(Error::Engine { action: "removing a container", reason: "it broke down".into() })
    })
}

fn body(
    limits: &SandboxLimits,
    user: &User,
    mounts: &[Mount],
    place: &Place,
    session: &str,
) -> ContainerCreateBody {
    let number = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
    let mounts = mounts.iter().map(|mount| ApiMount {
        target: Some(mount.to.clone()),
        source: Some(mount.from.to_string_lossy().into_owned()),
        typ: Some(MountType::BIND),
        read_only: Some(mount.access == MountAccess::ReadOnly),
        ..ApiMount::default()
    });
    let host = HostConfig {
        mounts: Some(mounts.collect()),
        network_mode: Some("none".to_owned()),
        memory: Some(number(limits.memory)),
        memory_swap: Some(number(limits.memory)),
        pids_limit: Some(number(limits.processes)),
        nano_cpus: limits.cpu_percent.map(|percent| i64::from(percent) * 10_000_000),
        cap_drop: Some(vec!["ALL".to_owned()]),
        security_opt: Some(vec!["no-new-privileges".to_owned()]),
        readonly_rootfs: Some(!place.writable),
        shm_size: Some(64 << 20),
        ..HostConfig::default()
    };
    ContainerCreateBody {
        image: Some(place.image.clone()),
        hostname: Some("workspace".to_owned()),
        user: Some(user.inside.clone()),
        entrypoint: Some(Vec::new()),
        cmd: Some(["/bin/sh", "-c", WAIT].map(str::to_owned).to_vec()),
        working_dir: Some(place.folder.clone()),
        labels: Some(HashMap::from([(LABEL.to_owned(), session.to_owned())])),
        host_config: Some(host),
        ..ContainerCreateBody::default()
    }
}

/// Where engines listen, in the order in which they are tried.
fn sockets() -> Vec<PathBuf> {
    let variable = |name: &str| std::env::var(name).ok();
    let named = variable("DOCKER_HOST").and_then(|host| host.strip_prefix("unix://").map(PathBuf::from));
    let own = variable("XDG_RUNTIME_DIR").map(|folder| Path::new(&folder).join("podman/podman.sock"));
    let usual = ["/run/podman/podman.sock", "/var/run/docker.sock"].map(PathBuf::from);
    named.into_iter().chain(own).chain(usual).collect()
}

fn open(socket: &Path) -> Result<Docker, Error> {
    Docker::connect_with_unix(&socket.to_string_lossy(), ANSWER, bollard::API_DEFAULT_VERSION)
        .map_err(|error| trouble("connecting to the engine", error))
}

/// Trouble with making a container of an image, which may not be there.
fn no_image(image: &str, error: ApiError) -> Error {
    match error {
        ApiError::DockerResponseServerError { status_code: 404, .. } => {
            Error::NoImage { image: image.to_owned() }
        }
        error => trouble("making a container", error),
    }
}

fn trouble(action: &'static str, error: ApiError) -> Error {
    Error::Engine { action, reason: error.to_string() }
}
