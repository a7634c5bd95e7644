//! How does Rust become a core module? Bare `rustc` against the compiled SDK: no cargo, no build
//! script, no procedural macro.

mod messages;
mod sdk;
mod toolchain;

use std::path::PathBuf;

use super::{Artifact, Job, Toolset};
use crate::forge::build::ForgeConfig;
use crate::forge::error::ForgeError;
use crate::forge::files;
use crate::forge::provenance::Tool;
use crate::forge::sandbox::{Ended, Limits, ended_by};
use crate::forge::source::{ROOT, io};

use toolchain::Toolchain;

/// A Rust toolchain and the SDK that it compiled.
pub(super) struct RustTools {
    toolchain: Toolchain,
    sdk: PathBuf,
    tools: Vec<Tool>,
}

impl RustTools {
    pub fn find(config: &ForgeConfig) -> Result<Self, ForgeError> {
        let toolchain = Toolchain::find(&config.rustc, &config.bwrap)?;
        // The SDK is our own and its time does not depend on the plugin.
        let limits =
            Limits { time: config.timeout.max(std::time::Duration::from_secs(60)), ..config.limits() };
        let sdk = sdk::compiled(&config.cache_dir, &toolchain, limits)?;
        let compiler = files::digest(&toolchain.files()?, &config.cache_dir)?;
        let tools = vec![
            Tool { name: "rustc".into(), version: toolchain.line(), digest: compiler },
            Tool {
                name: "tandem-plugin".into(),
                version: env!("CARGO_PKG_VERSION").into(),
                digest: sdk::source(),
            },
        ];
        Ok(Self { toolchain, sdk, tools })
    }
}

impl Toolset for RustTools {
    fn tools(&self) -> &[Tool] {
        &self.tools
    }

    fn compile(&self, job: &Job<'_>) -> Result<Artifact, ForgeError> {
        let mut sandbox = sdk::compiler_sandbox(&self.toolchain, job.limits);
        sandbox.read_only(&self.sdk, "/sdk").read_only(job.input, "/plugin").writable(job.output, "/out");
        let edition = format!("--edition={}", job.source.edition);
        let sdk = format!("--extern=tandem_plugin=/sdk/{}", sdk::RLIB);
        let mut program = vec!["/rust/bin/rustc", "--sysroot=/rust", &edition, &sdk];
        program.extend(["--crate-name=plugin", "--crate-type=cdylib"]);
        program.extend(sdk::CODE_FLAGS);
        // The plain linker: the target's own wants a world and makes the component itself.
        program.extend(["-Clinker=rust-lld", "-Cstrip=symbols", ROOT, "-o/out/plugin.wasm"]);
        let ended = sandbox.run("/plugin", &program)?;
        if !ended.status.success() {
            return Err(failure(&ended, job.limits, &job.source.root_name));
        }
        let core = job.output.join("plugin.wasm");
        std::fs::read(&core).map(Artifact::Core).map_err(|error| io("read", &core, error))
    }
}

/// Why a compiler run failed.
fn failure(ended: &Ended, limits: Limits, root_name: &str) -> ForgeError {
    let text = String::from_utf8_lossy(&ended.stderr);
    if ended.timed_out {
        return ForgeError::TimedOut { seconds: ended.seconds, limit_s: limits.time.as_secs_f64() };
    }
    // Diagnostics are JSON lines, and quote the source; the rest are the compiler's own last words.
    let plain: Vec<&str> = text.lines().filter(|line| !line.starts_with('{')).collect();
    if let Some(asked) = refused_memory(&plain.join("\n")) {
        return ForgeError::OutOfMemory { asked, limit: limits.memory };
    }
    let (mut diagnostics, total) = messages::parse(&text, root_name);
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
