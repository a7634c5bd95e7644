//! The commands `plugin check` and `plugin run`: is this component good, and what does it
//! answer?

use std::fmt;
use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

use super::admission::{AdmissionError, AdmissionOptions, Admitted, Step, admit, tool_reasons};
use super::canary::CanaryCall;
use super::contract;
use super::engine::Engine;
use super::grants::Grants;
use super::instance::{Instance, InstanceConfig};
use super::json::{CallError, InputError, call_json};
use super::points::{HookPoint, ToolDefinition};
use super::state::LogLine;
use super::workspace_access::WorkspaceAccess;
use crate::store::Digest;

/// What a component is and does.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    pub digest: Digest,
    /// Bytes.
    pub size: usize,
    pub exports: Vec<HookPoint>,
    pub imports: Vec<String>,
    /// What its entry in a harness manifest has to grant.
    pub grants: Grants,
    pub tools: Vec<ToolDefinition>,
    pub canary: Vec<CanaryCall>,
}

/// Admits `bytes` and reports, or gives every reason against it that does not hide behind another.
/// Without `grants` it is admitted with those that it asks for.
///
/// What is not in the contract and what is not granted is told at once. A component that keeps to
/// the contract is then called as if all were granted, which adds at most one step's reasons.
///
/// # Errors
/// At least one reason, in the order of the steps.
pub async fn check(
    engine: &Engine,
    bytes: &[u8],
    grants: Option<&Grants>,
    options: &AdmissionOptions,
) -> Result<Report, Vec<AdmissionError>> {
    let digest = Digest::of(bytes);
    if bytes.len() > engine.limits().component_bytes {
        // Refused before it is parsed.
        let refused = admit(engine, bytes, &Grants::none(), options).await;
        return refused.map(|admitted| Report::of(&admitted)).map_err(|reason| vec![reason]);
    }
    let (surface, mut reasons) =
        contract::surface_and_reasons(digest, bytes).await.map_err(|reason| vec![reason])?;
    let keeps_to_contract = reasons.is_empty();
    if let Some(grants) = grants {
        reasons.extend(contract::missing_grants(digest, &surface, grants));
    }
    if !keeps_to_contract {
        return Err(reasons);
    }
    let granted = grants.into_iter().flat_map(Grants::iter);
    let granted: Grants = granted.chain(surface.capabilities.iter().copied()).collect();
    match admit(engine, bytes, &granted, options).await {
        Ok(admitted) if reasons.is_empty() => return Ok(Report::of(&admitted)),
        Ok(_) => {}
        Err(first) if first.step == Step::Tools => {
            let all = tool_reasons(engine, bytes, &granted, options).await.unwrap_or_default();
            reasons.extend(if all.is_empty() { vec![first] } else { all });
        }
        Err(reason) => reasons.push(reason),
    }
    Err(reasons)
}

impl Report {
    fn of(admitted: &Admitted) -> Self {
        Self {
            digest: admitted.digest(),
            size: admitted.size(),
            exports: admitted.exports().to_vec(),
            imports: admitted.imports().to_vec(),
            grants: admitted.grants().clone(),
            tools: admitted.tools().to_vec(),
            canary: admitted.canary().to_vec(),
        }
    }
}

/// Admits with exactly the grants that the imports ask for.
pub async fn admit_as_asked(
    engine: &Engine,
    bytes: &[u8],
    options: &AdmissionOptions,
) -> Result<Arc<Admitted>, AdmissionError> {
    // An oversized file is refused before it is parsed.
    let grants = match bytes.len() > engine.limits().component_bytes {
        true => Grants::none(),
        false => contract::surface(Digest::of(bytes), bytes).await?.capabilities.into_iter().collect(),
    };
    admit(engine, bytes, &grants, options).await
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let points: Vec<_> = self.exports.iter().map(|point| point.name()).collect();
        writeln!(f, "digest   {}", self.digest)?;
        writeln!(f, "size     {} bytes", self.size)?;
        writeln!(f, "exports  {}", points.join(", "))?;
        writeln!(f, "grants   {}", self.grants.to_toml())?;
        for import in &self.imports {
            writeln!(f, "import   {import}")?;
        }
        for tool in &self.tools {
            writeln!(f, "tool     {}: {}", tool.name, tool.description)?;
        }
        for call in &self.canary {
            writeln!(f, "canary   {} {} -> {}", call.point.name(), call.input, call.output)?;
        }
        write!(f, "admitted")
    }
}

/// Why `plugin run` has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    #[error(transparent)]
    Admission(#[from] AdmissionError),
    #[error(transparent)]
    Input(#[from] InputError),
    #[error("the plugin {} failed in `{point}`: it {fault}\nhelp: {}", .plugin.short(), .fault.help())]
    Fault { plugin: Digest, point: &'static str, fault: super::fault::PluginFault },
}

/// How `plugin run` calls.
#[derive(Clone)]
pub struct RunPoint {
    /// None grants what the plugin asks for.
    pub grants: Option<Grants>,
    pub settings: serde_json::Map<String, Value>,
    pub seed: u64,
    pub workspace: Arc<dyn WorkspaceAccess>,
}

/// What came of `plugin run`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunOutput {
    /// `null` when the plugin returned nothing.
    pub output: Value,
    pub log: Vec<LogLine>,
}

/// Admits `bytes` and calls one point with `input` (see [`super::sample`]).
pub async fn run_point(
    engine: &Engine,
    bytes: &[u8],
    point: HookPoint,
    input: &Value,
    how: RunPoint,
    options: &AdmissionOptions,
) -> Result<RunOutput, RunError> {
    let admitted = match &how.grants {
        Some(grants) => admit(engine, bytes, grants, options).await?,
        None => admit_as_asked(engine, bytes, options).await?,
    };
    let plugin = admitted.digest();
    if !admitted.has(point) {
        let points: Vec<_> = admitted.exports().iter().map(|point| point.name()).collect();
        return Err(RunError::Admission(AdmissionError {
            step: Step::Contract,
            plugin,
            what: format!("does not export `{}`", point.name()),
            help: format!("it exports {}", points.join(", ")),
        }));
    }
    let settings = Value::Object(how.settings).to_string().into();
    let config = InstanceConfig { settings, seed: how.seed, workspace: how.workspace };
    let mut instance = Instance::new(&admitted, config);
    match call_json(&mut instance, point, input).await {
        Ok(output) => Ok(RunOutput { output, log: instance.take_log() }),
        Err(CallError::Input(error)) => Err(error.into()),
        Err(CallError::Fault(fault)) => Err(RunError::Fault { plugin, point: point.name(), fault }),
    }
}
