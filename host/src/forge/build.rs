//! How does source become a component?

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::store::Digest;

use super::componentize::componentize;
use super::diagnostics;
use super::error::ForgeError;
use super::sandbox::{Ended, Limits, ended_by};
use super::sdk::{self, CODE_FLAGS};
use super::source::{Loaded, ROOT, Source, io};
use super::toolchain::Toolchain;

/// Where the forge keeps the compiled SDK, and what a build may use.
#[derive(Clone, Debug)]
pub struct ForgeConfig {
    /// A folder that only this program writes to.
    pub cache_dir: PathBuf,
    /// Wall time of one build.
    pub timeout: Duration,
    /// Bytes of address space of the compiler.
    pub memory: u64,
    /// The compiler; the name is looked up in `PATH`.
    pub rustc: PathBuf,
    /// Bubblewrap; the name is looked up in `PATH`.
    pub bwrap: PathBuf,
}

impl ForgeConfig {
    /// 30 seconds and 3 GiB; `rustc` and `bwrap` from `PATH`.
    pub fn new(cache_dir: impl Into<PathBuf>) -> Self {
        Self {
            cache_dir: cache_dir.into(),
            timeout: Duration::from_secs(30),
            memory: 3 << 30,
            rustc: "rustc".into(),
            bwrap: "bwrap".into(),
        }
    }
}

/// A component and where it came from.
#[derive(Clone, Debug)]
pub struct Built {
    pub component: Vec<u8>,
    /// Of the source: edition, paths and contents.
    pub source: Digest,
    /// The compiler, such as `rustc 1.95.0 (59807616e 2026-04-14)`.
    pub toolchain: String,
    /// Interfaces of the contract that it exports, such as `on-submit`.
    pub exports: Vec<String>,
    /// Capabilities that it imports: the grants that it needs.
    pub grants: Vec<String>,
    /// Wall time of the build, for people.
    pub seconds: f64,
}

/// Turns source into components.
#[derive(Clone, Debug)]
pub struct Forge {
    toolchain: Toolchain,
    sdk: PathBuf,
    limits: Limits,
    cache_dir: PathBuf,
}

impl Forge {
    /// Finds the toolchain and compiles the SDK, unless the cache has it (about a second).
    ///
    /// # Errors
    /// [`ForgeError::Toolchain`] names what is missing and the command that installs it.
    pub fn new(config: ForgeConfig) -> Result<Self, ForgeError> {
        let toolchain = Toolchain::find(&config.rustc, &config.bwrap)?;
        let limits = Limits { time: config.timeout, memory: config.memory, file: 64 << 20 };
        // The SDK is our own and its time does not depend on the plugin.
        let patient = Limits { time: config.timeout.max(Duration::from_secs(60)), ..limits };
        let sdk = sdk::compiled(&config.cache_dir, &toolchain, patient)?;
        Ok(Self { toolchain, sdk, limits, cache_dir: config.cache_dir })
    }

    /// The compiler, such as `rustc 1.95.0 (59807616e 2026-04-14)`.
    pub fn toolchain(&self) -> String {
        self.toolchain.line()
    }

    /// Builds a component. The same source and toolchain give the same bytes.
    /// Blocks until the compiler ends; from async code use a blocking thread.
    ///
    /// # Errors
    /// [`ForgeError`], whose text a model can act on.
    pub fn build(&self, source: &Source) -> Result<Built, ForgeError> {
        let start = Instant::now();
        let source = source.load()?;
        let core = self.compile(&source)?;
        let made = componentize(&core)?;
        Ok(Built {
            component: made.component,
            source: source.digest(),
            toolchain: self.toolchain(),
            exports: made.exports,
            grants: made.grants,
            seconds: start.elapsed().as_secs_f64(),
        })
    }

    /// Source to core module, in the sandbox.
    fn compile(&self, source: &Loaded) -> Result<Vec<u8>, ForgeError> {
        let work = tempfile::tempdir_in(&self.cache_dir)
            .map_err(|error| io("make a folder in", &self.cache_dir, error))?;
        let (input, output) = (work.path().join("input"), work.path().join("output"));
        write_source(source, &input)?;
        std::fs::create_dir(&output).map_err(|error| io("make", &output, error))?;

        let mut sandbox = sdk::compiler_sandbox(&self.toolchain, self.limits);
        sandbox.read_only(&self.sdk, "/sdk").read_only(&input, "/plugin").writable(&output, "/out");
        let edition = format!("--edition={}", source.edition);
        let sdk = format!("--extern=tandem_plugin=/sdk/{}", sdk::RLIB);
        let mut program = vec!["/rust/bin/rustc", "--sysroot=/rust", &edition, &sdk];
        program.extend(["--crate-name=plugin", "--crate-type=cdylib"]);
        program.extend(CODE_FLAGS);
        // The plain linker: the target's own wants a world and makes the component itself.
        program.extend(["-Clinker=rust-lld", "-Cstrip=symbols", ROOT, "-o/out/plugin.wasm"]);
        let ended = sandbox.run("/plugin", &program)?;
        if !ended.status.success() {
            return Err(failure(&ended, self.limits, &source.root_name));
        }
        let core = output.join("plugin.wasm");
        std::fs::read(&core).map_err(|error| io("read", &core, error))
    }
}

fn write_source(source: &Loaded, dir: &Path) -> Result<(), ForgeError> {
    for (name, content) in &source.files {
        let path = dir.join(name);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).map_err(|error| io("make", parent, error))?;
        }
        std::fs::write(&path, content).map_err(|error| io("write", &path, error))?;
    }
    Ok(())
}

/// Why a compiler run failed.
pub(super) fn failure(ended: &Ended, limits: Limits, root_name: &str) -> ForgeError {
    let text = String::from_utf8_lossy(&ended.stderr);
    if ended.timed_out {
        return ForgeError::TimedOut { seconds: ended.seconds, limit_s: limits.time.as_secs_f64() };
    }
    // Diagnostics are JSON lines, and quote the source; the rest are the compiler's own last words.
    let plain: Vec<&str> = text.lines().filter(|line| !line.starts_with('{')).collect();
    if let Some(asked) = refused_memory(&plain.join("\n")) {
        return ForgeError::OutOfMemory { asked, limit: limits.memory };
    }
    let (mut diagnostics, total) = diagnostics::parse(&text, root_name);
    if total > 0 {
        for diagnostic in &mut diagnostics {
            if diagnostic.message.contains("more memory than available") {
                diagnostic.help = Some(format!("the compiler may use {} MiB", limits.memory >> 20));
            }
        }
        return ForgeError::Rejected { diagnostics, total };
    }
    let status = match ended.status.code() {
        _ if ended_by(&ended.status, libc::SIGSEGV) => {
            "it crashed; often the source is nested too deep".into()
        }
        Some(code) => format!("exit code {code}"),
        None => "stopped by a signal".into(),
    };
    ForgeError::Compiler {
        status,
        stderr: plain[plain.len().saturating_sub(5)..].join("\n"),
        help: "simplify the source; if a trivial plugin fails too, reinstall the Rust toolchain".into(),
    }
}

/// Whether an allocation was refused, and its size if the message has it.
fn refused_memory(stderr: &str) -> Option<Option<u64>> {
    if let Some((_, rest)) = stderr.split_once("memory allocation of ") {
        return Some(rest.split(' ').next().and_then(|bytes| bytes.parse().ok()));
    }
    let signs = ["out of memory", "Cannot allocate memory", "bad_alloc", "failed to allocate"];
    signs.iter().any(|sign| stderr.contains(sign)).then_some(None)
}
