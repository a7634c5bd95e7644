//! Where and under which caps is a component compiled?

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use wasmtime::component::Component;

use super::code_cache::CodeCache;
use super::engine::{self, Engine};
use super::function_cache::{FunctionCache, MIN_COMPONENT};
use crate::store::Digest;

/// Where Cranelift runs. It is not built to withstand hostile input: a small module can keep it
/// busy for minutes.
#[derive(Clone, Debug, Default)]
pub enum CompileIn {
    /// In this process. On a time-out the admission fails, but the thread goes on to its end:
    /// for tests and for components that are trusted.
    #[default]
    ThisProcess,
    /// In a child process with caps on CPU time, memory and wall-clock time. The program is
    /// called with `args`, then the path of the component, the path to write to, and, with a code
    /// cache, the path of its functions; it ends by calling [`compile_child`].
    Child { program: PathBuf, args: Vec<OsString> },
}

/// Caps of one compilation.
#[derive(Clone, Copy, Debug)]
pub struct CompileCaps {
    /// Processor time. Default 60 s. Wall-clock time has five times that: a machine that is loaded is
    /// no fault of the component.
    pub time: Duration,
    /// Address space of the child process. Default 4 GiB.
    pub memory_bytes: u64,
}

impl Default for CompileCaps {
    fn default() -> Self {
        Self { time: Duration::from_secs(60), memory_bytes: 4 << 30 }
    }
}

impl CompileCaps {
    fn wall(self) -> Duration {
        self.time * 5
    }
}

/// Native code of one component, bytes. A few kilobytes of WebAssembly can ask for memory that is
/// mostly zeros, all of which native code holds.
const NATIVE_BYTES: u64 = 256 << 20;

/// Compiles `bytes`, or takes what was compiled before; the error is what went wrong, after
/// "could not be compiled: ".
pub(super) async fn compile(
    engine: &Engine,
    digest: Digest,
    bytes: &[u8],
    place: &CompileIn,
    caps: CompileCaps,
) -> Result<Component, String> {
    if let Some(component) = from_cache(engine, digest) {
        return Ok(component);
    }
    let (for_thread, bytes, place) = (engine.clone(), bytes.to_vec(), place.clone());
    engine.count_compiled();
    let (send, receive) = oneshot::channel();
    let spawned = std::thread::Builder::new().name("plugin-compiler".to_owned()).spawn(move || {
        let engine = for_thread;
        let native = match place {
            CompileIn::ThisProcess => {
                engine.on_demand().precompile_component(&bytes).map_err(|error| format!("{error:#}"))
            }
            CompileIn::Child { program, args } => {
                let functions = engine.code_cache().map(CodeCache::functions);
                in_child(&bytes, &program, &args, functions.as_deref(), caps)
            }
        };
        let component = native.and_then(|native| {
            let component = load(&engine, &native)?;
            if let Some(cache) = engine.code_cache() {
                cache.put(digest, engine.on_demand(), &native);
            }
            Ok(component)
        });
        // Whoever waited may have given up.
        let _ = send.send(component);
    });
    spawned.map_err(|error| format!("no thread for the compiler: {error}"))?;
    // The child keeps to its own caps and needs a moment to be cleaned up.
    match engine.clock().within(caps.wall() + Duration::from_secs(5), receive).await {
        Some(Ok(component)) => component,
        Some(Err(_)) => Err("the compiler broke down".to_owned()),
        None => Err(format!("it took longer than {} s", caps.wall().as_secs())),
    }
}

fn from_cache(engine: &Engine, digest: Digest) -> Option<Component> {
    let cache = engine.code_cache()?;
    let native = cache.get(digest, engine.on_demand())?;
    load(engine, &native).inspect_err(|_| cache.remove(digest, engine.on_demand())).ok()
}

/// Loads native code that was made here: for the prepared places, or, if it is larger than one or
/// there are none, to start on demand.
fn load(engine: &Engine, native: &[u8]) -> Result<Component, String> {
    // SAFETY: the bytes come from `precompile_component` of this same program, on this machine:
    // from this process, from `compile_child` by way of a private temporary folder, or from the
    // code cache, which only this user can write and which compares a checksum. The engine
    // checks version and settings.
    let load = |engine: &wasmtime::Engine| unsafe { Component::deserialize(engine, native) };
    if let Some(component) = engine.pooled().and_then(|pooled| load(pooled).ok()) {
        return Ok(component);
    }
    load(engine.on_demand()).map_err(|error| format!("the compiled code does not load: {error:#}"))
}

/// The same component to start on demand; none if it does so already.
pub(super) fn for_overflow(
    on_demand: &wasmtime::Engine,
    component: &Component,
) -> wasmtime::Result<Option<Component>> {
    if wasmtime::Engine::same(component.engine(), on_demand) {
        return Ok(None);
    }
    let native = component.serialize()?;
    // SAFETY: the engine itself just wrote these bytes.
    unsafe { Component::deserialize(on_demand, native) }.map(Some)
}

/// The work of the child process: reads a component from `input`, writes native code to
/// `output`. Of a large component, functions that lie in the file `functions` are taken from there,
/// and others are added to it. The error is for the parent, on standard error.
pub fn compile_child(input: &Path, output: &Path, functions: Option<&Path>) -> Result<(), String> {
    let bytes = fs::read(input).map_err(|error| format!("cannot read the component: {error}"))?;
    let shared =
        functions.filter(|_| bytes.len() as u64 >= MIN_COMPONENT).map(FunctionCache::open).map(Arc::new);
    let mut config = engine::base_config();
    if let Some(cache) = &shared {
        config.enable_incremental_compilation(cache.clone()).map_err(|error| format!("{error:#}"))?;
    }
    let wasm = wasmtime::Engine::new(&config).map_err(|error| format!("{error:#}"))?;
    let native = wasm.precompile_component(&bytes).map_err(|error| format!("{error:#}"))?;
    fs::write(output, native).map_err(|error| format!("cannot write the native code: {error}"))?;
    // Trouble costs the next compilation its time and nothing else.
    _ = shared.map(|cache| cache.save());
    Ok(())
}

fn in_child(
    bytes: &[u8],
    program: &Path,
    args: &[OsString],
    functions: Option<&Path>,
    caps: CompileCaps,
) -> Result<Vec<u8>, String> {
    let trouble = |what: &str, error: io::Error| format!("{what}: {error}");
    let dir = tempfile::tempdir().map_err(|error| trouble("cannot make a folder", error))?;
    let (input, output) = (dir.path().join("in.wasm"), dir.path().join("out.native"));
    let messages = dir.path().join("messages");
    fs::write(&input, bytes).map_err(|error| trouble("cannot write the component", error))?;
    let stderr = fs::File::create(&messages).map_err(|error| trouble("cannot make a file", error))?;

    let mut command = Command::new(program);
    command.args(args).arg(&input).arg(&output).args(functions).env_clear();
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr);
    let cpu = caps.time.as_secs().max(1);
    // SAFETY: between fork and exec only `setrlimit` is called, which is async-signal-safe.
    unsafe {
        command.pre_exec(move || {
            cap(libc::RLIMIT_CPU, cpu)?;
            cap(libc::RLIMIT_AS, caps.memory_bytes)?;
            cap(libc::RLIMIT_FSIZE, NATIVE_BYTES)?;
            cap(libc::RLIMIT_CORE, 0)
        });
    }
    let mut child =
        command.spawn().map_err(|error| trouble(&format!("cannot start `{}`", program.display()), error))?;
    let end = Instant::now() + caps.wall();
    let status = loop {
        match child.try_wait().map_err(|error| trouble("cannot wait for the compiler", error))? {
            Some(status) => break status,
            None if Instant::now() >= end => {
                // It may have ended in between; either way it is gone after `wait`.
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("it took longer than {} s", caps.wall().as_secs()));
            }
            None => std::thread::sleep(Duration::from_millis(2)),
        }
    };
    if status.success() {
        return fs::read(&output).map_err(|error| trouble("the compiler left nothing", error));
    }
    Err(ended(status, &messages, caps))
}

/// Why the child ended without native code.
fn ended(status: ExitStatus, messages: &Path, caps: CompileCaps) -> String {
    if status.signal() == Some(libc::SIGXCPU) || status.signal() == Some(libc::SIGKILL) {
        return format!("it took more than {} s of processor time", caps.time.as_secs());
    }
    if status.signal() == Some(libc::SIGXFSZ) {
        return format!("it became more than {} MiB of native code", NATIVE_BYTES >> 20);
    }
    let said = fs::read(messages).unwrap_or_default();
    let said = String::from_utf8_lossy(&said);
    let last = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("").trim();
    if said.contains("memory allocation of") || status.signal() == Some(libc::SIGABRT) {
        return format!("it needed more than {} MiB of memory", caps.memory_bytes >> 20);
    }
    match status.code() {
        Some(code) => format!("the compiler ended with code {code}: {last}"),
        None => format!("the compiler was stopped by {status}: {last}"),
    }
}

fn cap(what: libc::__rlimit_resource_t, limit: u64) -> io::Result<()> {
    let limit = libc::rlimit { rlim_cur: limit, rlim_max: limit };
    // SAFETY: a plain system call on a local value.
    match unsafe { libc::setrlimit(what, &limit) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
