//! How does Go become a core module? The bare compiler and linker against packages compiled once:
//! no `go` command, no module, no C.

mod messages;
mod points;
mod sdk;
mod toolchain;

use std::path::PathBuf;

use super::{Artifact, Job, Toolset};
use crate::forge::build::ForgeConfig;
use crate::forge::diagnostics::{Diagnostic, Level};
use crate::forge::error::ForgeError;
use crate::forge::files;
use crate::forge::provenance::Tool;
use crate::forge::source::io;

use messages::{Plugin, failure};
use points::{Function, POINTS, functions};
use sdk::Prepared;
use toolchain::Toolchain;

/// A Go distribution and what it compiled of itself and of the SDK.
pub(super) struct GoTools {
    toolchain: Toolchain,
    prepared: Prepared,
    tools: Vec<Tool>,
}

/// Its name in the sandbox.
const FILE: &str = "plugin.go";

impl GoTools {
    pub fn find(config: &ForgeConfig) -> Result<Self, ForgeError> {
        let toolchain = Toolchain::find(config)?;
        let compiler = files::digest(&toolchain.files(), &config.cache_dir)?;
        let prepared = Prepared::find(&config.cache_dir, &toolchain, compiler)?;
        let archives = files::digest(&prepared.archives()?, &config.cache_dir)?;
        let version = toolchain.version.clone();
        let tools = vec![
            Tool { name: "go".into(), version: version.clone(), digest: compiler },
            Tool { name: "go packages".into(), version, digest: archives },
            Tool {
                name: "tandem for Go".into(),
                version: env!("CARGO_PKG_VERSION").into(),
                digest: sdk::source(),
            },
        ];
        Ok(Self { toolchain, prepared, tools })
    }

    /// One run of a tool.
    fn run(&self, job: &Job<'_>, plugin: &Plugin<'_>, dir: &str, program: &[&str]) -> Result<(), ForgeError> {
        let mut sandbox = sdk::compiler_sandbox(&self.toolchain, job.limits);
        sandbox
            .read_only(&self.prepared.dir, "/prepared")
            .read_only(job.input, "/plugin")
            .writable(job.output, "/out");
        let ended = sandbox.run(dir, program)?;
        if ended.status.success() { Ok(()) } else { Err(failure(&ended, job.limits, plugin)) }
    }
}

/// Installs the distribution.
pub(super) fn install(config: &ForgeConfig) -> Result<PathBuf, ForgeError> {
    Toolchain::install(config)
}

impl Toolset for GoTools {
    fn tools(&self) -> &[Tool] {
        &self.tools
    }

    fn compile(&self, job: &Job<'_>) -> Result<Artifact, ForgeError> {
        let bytes = job.source.files.get(FILE).map(Vec::as_slice).unwrap_or_default();
        let text = String::from_utf8_lossy(bytes);
        let found = functions(&text);
        let plugin = Plugin { root_name: &job.source.root_name, text: &text, functions: &found };

        let mut compile =
            vec!["/tool/compile", "-p", "plugin", "-importcfg=/prepared/plugin.cfg", "-complete"];
        compile.extend(sdk::flags());
        compile.extend(["-trimpath=/plugin=>", "-o", "/out/plugin.a", FILE]);
        self.run(job, &plugin, "/plugin", &compile)?;

        misnamed(&plugin)?;
        let calls: Vec<String> = POINTS
            .iter()
            .filter(|point| found.iter().any(|function| function.name == point.function))
            .map(|point| format!("{}.go", point.file))
            .collect();
        if calls.is_empty() {
            return Err(ForgeError::NoExports { help: job.source.language.exporting() });
        }

        let config = self.prepared.dir.join("link.cfg");
        let known = std::fs::read_to_string(&config).map_err(|error| io("read", &config, error))?;
        let config = job.output.join("link.cfg");
        std::fs::write(&config, format!("{known}packagefile plugin=/out/plugin.a\n"))
            .map_err(|error| io("write", &config, error))?;
        let mut compile = vec!["/tool/compile", "-p", "main", "-importcfg=/out/link.cfg"];
        compile.extend(sdk::flags());
        compile.extend(["-trimpath=/prepared/points=>tandem", "-o", "/out/main.a", "points.go"]);
        compile.extend(calls.iter().map(String::as_str));
        self.run(job, &plugin, "/prepared/points", &compile)?;

        let link = ["/tool/link", "-importcfg=/out/link.cfg", "-buildmode=c-shared", "-s", "-w", "-buildid="];
        self.run(job, &plugin, "/out", &[&link[..], &["-o", "/out/plugin.wasm", "/out/main.a"]].concat())?;
        let core = job.output.join("plugin.wasm");
        std::fs::read(&core).map(Artifact::Core).map_err(|error| io("read", &core, error))
    }
}

/// Refuses an exported function that is called like a point and is none: it would never be called.
fn misnamed(plugin: &Plugin<'_>) -> Result<(), ForgeError> {
    let like_a_point = |found: &&Function<'_>| {
        let rest = found.name.strip_prefix("On").unwrap_or_default();
        rest.starts_with(|c: char| c.is_ascii_uppercase())
            && POINTS.iter().all(|point| point.function != found.name)
    };
    let Some(wrong) = plugin.functions.iter().find(like_a_point) else { return Ok(()) };
    let names: Vec<&str> = POINTS.iter().map(|point| point.function).collect();
    let diagnostic = Diagnostic {
        file: plugin.root_name.to_owned(),
        line: wrong.line,
        column: 1,
        level: Level::Error,
        code: None,
        message: format!("there is no point `{}`", wrong.name),
        help: Some(format!("the points are {}", names.join(", "))),
        snippet: plugin.text.lines().nth(wrong.line as usize - 1).map(str::to_owned),
    };
    Err(ForgeError::Rejected { diagnostics: vec![diagnostic], total: 1 })
}
