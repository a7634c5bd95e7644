//! What do commands need from this machine? Engine, forge, workspaces, the run's record.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use anyhow::{Context, Result, anyhow, bail};
use tandem_host::forge::{Forge, ForgeConfig};
use tandem_host::plugin::{AdmissionOptions, CodeCache, CompileIn, Engine, EngineConfig};
use tandem_host::workspace::WorkspaceConfig;

use crate::campaign::RunRecord;

/// The plugin engine with its default limits, and compiled code kept beside the fetched models.
pub fn engine() -> Result<Engine> {
    let code_cache = CodeCache::open(crate::model::home()?.join("code"))
        .inspect_err(|error| tracing::warn!("components are compiled at every start: {error}"))
        .ok();
    Ok(Engine::with(EngineConfig { code_cache, meter_calls: true, ..EngineConfig::default() })?)
}

/// The forge, with its cache beside the fetched models.
pub fn forge() -> Result<Forge> {
    Ok(Forge::new(ForgeConfig::new(crate::model::home()?.join("forge")))?)
}

/// Admission that compiles in a process of its own: this program again, as the
/// hidden command [`COMPILE`].
pub fn admission() -> Result<AdmissionOptions> {
    let program = std::env::current_exe().context("this program cannot find its own file")?;
    let compile_in = CompileIn::Child { program, args: vec![COMPILE.into()] };
    Ok(AdmissionOptions { compile_in, ..AdmissionOptions::default() })
}

/// The hidden command that compiles one component under caps and ends.
pub const COMPILE: &str = "compile-component";

static WORKSPACES: OnceLock<Option<PathBuf>> = OnceLock::new();

/// Notes what the command line says of workspaces.
pub fn choose_workspaces(file: Option<PathBuf>, allow_host_commands: bool) {
    let _ = WORKSPACES.set(file);
    if allow_host_commands {
        tandem_host::workspace::allow_host_backend();
    }
}

/// The settings of workspaces: those of the file that was named, else the defaults.
pub fn workspaces() -> Result<WorkspaceConfig> {
    workspaces_or(None)
}

/// The settings of workspaces: those of the file that was named, else the given ones, else
/// the defaults.
pub fn workspaces_or(given: Option<WorkspaceConfig>) -> Result<WorkspaceConfig> {
    let Some(file) = WORKSPACES.get().and_then(Option::as_ref) else { return Ok(given.unwrap_or_default()) };
    let text = std::fs::read_to_string(file)
        .with_context(|| format!("{} cannot be read\nhelp: check `--workspaces`", file.display()))?;
    toml::from_str(&text).map_err(|error| {
        anyhow!(
            "{} does not say what workspaces are like: {}\nhelp: docs/workspaces.md lists every key",
            file.display(),
            error.to_string().trim_end()
        )
    })
}

/// The record of a run that exists.
pub fn existing_record(run: &Path) -> Result<RunRecord> {
    if !run.join("run.sqlite").exists() {
        bail!(
            "{} is not the folder of a run: it has no run.sqlite\nhelp: `tandem train CAMPAIGN --run DIR` makes one",
            run.display()
        );
    }
    RunRecord::read(run).with_context(|| format!("the run in {} cannot be opened", run.display()))
}
