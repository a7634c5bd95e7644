//! May this component serve in a harness with these grants?

use std::fmt;
use std::sync::{Arc, OnceLock};

use serde::Serialize;
use wasmtime::component::{Component, InstancePre, Linker};

use super::canary::{self, CanaryCall, CanaryResult};
use super::capabilities;
use super::clock::Clock;
use super::compile::{CompileCaps, CompileIn, compile, for_overflow};
use super::contract::{Surface, check_grants, surface};
use super::engine::Engine;
use super::grants::{Capability, Grants};
use super::instance::ExportIndices;
use super::limits::PluginLimits;
use super::meters::Meters;
use super::points::{HookPoint, ToolDefinition};
use super::settings::SettingsSchema;
use super::state::PluginState;
use super::wasi;
use crate::store::Digest;

/// The steps of admission, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Step {
    /// Size cap.
    Size,
    /// It is a valid component.
    Parse,
    /// Exports and imports are those of the contract.
    Contract,
    /// Imports are within the grants.
    Grants,
    /// It compiles within the caps.
    Compile,
    /// The schema of its settings is one, and takes its settings.
    Settings,
    /// Trial calls of every exported point come back.
    Canary,
    /// The same input gives the same output.
    Determinism,
    /// Tool definitions are valid.
    Tools,
    /// It holds none of the forbidden strings.
    Scan,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Size => "size",
            Self::Parse => "parse",
            Self::Contract => "contract",
            Self::Grants => "grants",
            Self::Compile => "compile",
            Self::Settings => "settings",
            Self::Canary => "canary",
            Self::Determinism => "determinism",
            Self::Tools => "tools",
            Self::Scan => "scan",
        })
    }
}

/// Why a component was not admitted, in a form that a person and a model can act on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, thiserror::Error)]
#[error("the plugin {} {what} (admission step: {step})\nhelp: {help}", .plugin.short())]
pub struct AdmissionError {
    /// Where it failed.
    pub step: Step,
    pub plugin: Digest,
    /// What is wrong, as it goes on after "the plugin".
    pub what: String,
    /// What to do about it.
    pub help: String,
}

/// How to admit.
#[derive(Clone, Debug, Default)]
pub struct AdmissionOptions {
    pub compile_in: CompileIn,
    pub compile_caps: CompileCaps,
    /// Names of tasks and strings of hidden tests that no plugin may hold.
    pub forbidden: Vec<String>,
}

/// A component that was compiled and linked: ready to instantiate.
pub(super) struct Linked {
    pub digest: Digest,
    pub size: usize,
    pub grants: Grants,
    pub surface: Surface,
    pub limits: Arc<PluginLimits>,
    pub clock: Arc<Clock>,
    /// Of calls; none when they are not metered.
    pub meters: Option<Meters>,
    pub ready: Ready,
    /// For when all prepared places are taken; made then. None if `ready` starts on demand.
    overflow: OnceLock<Option<Ready>>,
    /// Not the whole engine, which keeps what was admitted last and would never end.
    on_demand: wasmtime::Engine,
}

/// Imports checked and exports found, once for all instances.
pub(super) struct Ready {
    pub pre: InstancePre<PluginState>,
    pub indices: ExportIndices,
}

impl Linked {
    pub fn has(&self, point: HookPoint) -> bool {
        self.surface.exports.contains(&point)
    }

    /// What to start on demand when no place is free.
    pub fn overflow(&self) -> Option<&Ready> {
        let make = || -> wasmtime::Result<Option<Ready>> {
            let Some(component) = for_overflow(&self.on_demand, self.ready.pre.component())? else {
                return Ok(None);
            };
            link(&component, &self.surface, &self.grants).map(Some)
        };
        let ready = self.overflow.get_or_init(|| {
            make().unwrap_or_else(|error| {
                tracing::warn!(plugin = %self.digest, "cannot start on demand: {error:#}");
                None
            })
        });
        ready.as_ref()
    }
}

/// A component that was admitted: compiled, linked, and called once.
pub struct Admitted {
    pub(super) linked: Arc<Linked>,
    tools: Vec<ToolDefinition>,
    settings: Option<SettingsSchema>,
    canary: Vec<CanaryCall>,
}

impl Admitted {
    /// Digest of the component's bytes.
    pub fn digest(&self) -> Digest {
        self.linked.digest
    }

    /// Size of the component, bytes.
    pub fn size(&self) -> usize {
        self.linked.size
    }

    /// The grants that it was admitted with.
    pub fn grants(&self) -> &Grants {
        &self.linked.grants
    }

    /// The points that it exports, in the order of the contract.
    pub fn exports(&self) -> &[HookPoint] {
        &self.linked.surface.exports
    }

    /// Whether it exports `point`.
    pub fn has(&self, point: HookPoint) -> bool {
        self.linked.has(point)
    }

    /// Its imports, as they are written in the component.
    pub fn imports(&self) -> &[String] {
        &self.linked.surface.imports
    }

    /// The capabilities among them.
    pub fn capabilities(&self) -> &[Capability] {
        &self.linked.surface.capabilities
    }

    /// Which settings it takes; none takes any.
    pub fn settings_schema(&self) -> Option<&SettingsSchema> {
        self.settings.as_ref()
    }

    /// The tools that it defined with empty settings, or with the example of its schema.
    pub fn tools(&self) -> &[ToolDefinition] {
        &self.tools
    }

    /// The trial calls, with what came back.
    pub fn canary(&self) -> &[CanaryCall] {
        &self.canary
    }
}

/// Admits the component `bytes` for these grants, or says why not. What was admitted before
/// with the same grants is not compiled again.
pub async fn admit(
    engine: &Engine,
    bytes: &[u8],
    grants: &Grants,
    options: &AdmissionOptions,
) -> Result<Arc<Admitted>, AdmissionError> {
    let digest = Digest::of(bytes);
    if let Some(admitted) = engine.cached(digest, grants) {
        scan(digest, bytes, options)?;
        return Ok(admitted);
    }
    let linked = linked(engine, bytes, grants, options).await?;
    let settings = canary::settings_schema(&linked).await?;
    let CanaryResult { tools, calls } = canary::run(&linked, &sample(settings.as_ref())).await?;
    scan(digest, bytes, options)?;

    let admitted = Arc::new(Admitted { linked, tools, settings, canary: calls });
    engine.keep(&admitted);
    Ok(admitted)
}

/// The settings of the trial calls, JSON.
fn sample(settings: Option<&SettingsSchema>) -> String {
    settings.map_or("{}".to_owned(), |schema| schema.sample().to_string())
}

/// All that is wrong with the tools of a component that was refused for one of them; empty when
/// it does not come so far.
pub(super) async fn tool_reasons(
    engine: &Engine,
    bytes: &[u8],
    grants: &Grants,
    options: &AdmissionOptions,
) -> Result<Vec<AdmissionError>, AdmissionError> {
    let linked = linked(engine, bytes, grants, options).await?;
    let settings = canary::settings_schema(&linked).await?;
    Ok(canary::tool_reasons(&linked, &sample(settings.as_ref())).await)
}

/// The steps of admission before the plugin is called.
async fn linked(
    engine: &Engine,
    bytes: &[u8],
    grants: &Grants,
    options: &AdmissionOptions,
) -> Result<Arc<Linked>, AdmissionError> {
    let digest = Digest::of(bytes);
    let fail =
        |step, what: String, help: &str| AdmissionError { step, plugin: digest, what, help: help.to_owned() };
    let limits = engine.shared_limits();
    if bytes.len() > limits.component_bytes {
        let what = format!("has {} bytes, limit {} bytes", bytes.len(), limits.component_bytes);
        return Err(fail(Step::Size, what, "build it for size and strip debug information"));
    }
    let surface = surface(digest, bytes).await?;
    check_grants(digest, &surface, grants)?;

    let component =
        compile(engine, digest, bytes, &options.compile_in, options.compile_caps).await.map_err(|why| {
            let help = "make functions smaller and fewer; generated code is the usual cause";
            fail(Step::Compile, format!("could not be compiled: {why}"), help)
        })?;
    let ready = link(&component, &surface, grants).map_err(|error| {
        let help = "build it against the contract in `wit/` again";
        fail(Step::Contract, format!("does not fit the contract: {error:#}"), help)
    })?;
    // Pages of memory that all instances share are made now, not in the first episode.
    component.initialize_copy_on_write_image().map_err(|error| {
        fail(Step::Compile, format!("could not be loaded: {error:#}"), "free some memory")
    })?;

    Ok(Arc::new(Linked {
        digest,
        size: bytes.len(),
        grants: grants.clone(),
        surface,
        limits,
        clock: engine.clock().clone(),
        meters: engine.meter_calls().then(Meters::new),
        ready,
        overflow: OnceLock::new(),
        on_demand: engine.on_demand().clone(),
    }))
}

/// The tools of an admitted plugin under these settings, after its schema took them and the
/// trial calls of admission went well under them too.
pub(crate) async fn with_settings(
    admitted: &Arc<Admitted>,
    settings: &serde_json::Value,
) -> Result<Vec<ToolDefinition>, AdmissionError> {
    let tried = match &admitted.settings {
        Some(schema) => {
            schema.check(settings).map_err(|why| AdmissionError {
                step: Step::Settings,
                plugin: admitted.digest(),
                what: format!("does not take its settings: {why}"),
                help: format!("settings fit this schema: {}", schema.json()),
            })?;
            schema.sample() == settings
        }
        None => settings == &serde_json::json!({}),
    };
    match tried {
        true => Ok(admitted.tools.clone()),
        false => Ok(canary::run(&admitted.linked, &settings.to_string()).await?.tools),
    }
}

/// Checks all imports once; what is not granted is not linked.
fn link(component: &Component, surface: &Surface, grants: &Grants) -> wasmtime::Result<Ready> {
    let mut linker = Linker::new(component.engine());
    wasi::link(&mut linker)?;
    capabilities::link(&mut linker, grants)?;
    let pre = linker.instantiate_pre(component)?;
    let indices = ExportIndices::new(&pre, surface)?;
    Ok(Ready { pre, indices })
}

impl AdmissionOptions {
    /// The first forbidden string that stands in `bytes`. Strings under 8 bytes would be found by chance
    /// and are passed over.
    pub fn forbidden_in(&self, bytes: &[u8]) -> Option<&str> {
        let stands = |string: &&String| {
            let needle = string.as_bytes();
            needle.len() >= 8 && memchr::memmem::find(bytes, needle).is_some()
        };
        self.forbidden.iter().find(stands).map(String::as_str)
    }
}

/// Refuses a component that holds a string it must not know.
fn scan(digest: Digest, bytes: &[u8], options: &AdmissionOptions) -> Result<(), AdmissionError> {
    match options.forbidden_in(bytes) {
        None => Ok(()),
        Some(string) => Err(AdmissionError {
            step: Step::Scan,
            plugin: digest,
            what: format!("holds the string `{string}`, which belongs to a task or its tests"),
            help: "write what holds for every task; a plugin must not know one by name".to_owned(),
        }),
    }
}
