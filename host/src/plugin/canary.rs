//! Does a plugin answer trial calls of all its points, and twice the same?

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde_json::{Value, json};

use super::admission::{AdmissionError, Linked, Step};
use super::contract::SETTINGS_SCHEMA;
use super::fault::{PluginFault, spelled};
use super::grants::Capability;
use super::instance::{Hidden, Instance, InstanceConfig};
use super::json::{CallError, call_json};
use super::no_workspace::NoWorkspace;
use super::points::{HookPoint, ToolDefinition};
use super::settings::{SettingsSchema, check_schema};

/// One trial call. `input` is laid over the sample of the point.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CanaryCall {
    pub point: HookPoint,
    pub input: Value,
    pub output: Value,
}

/// What the trial calls showed.
pub(super) struct CanaryResult {
    pub tools: Vec<ToolDefinition>,
    pub calls: Vec<CanaryCall>,
}

/// Names that a plugin's tool may not take, since the agent loop has them.
const RESERVED_TOOLS: [&str; 1] = ["bash"];
const TOOL_NAME_CHARS: usize = 64;
/// Tools of one plugin: each is called at admission and is in every prompt.
const TOOLS: usize = 64;
/// Names, descriptions and schemas of the tools of one plugin, all of which the policy reads.
const TOOLS_BYTES: usize = 64 << 10;
/// Wall-clock time of all trial calls of a plugin.
const TRIAL: Duration = Duration::from_secs(120);
const SEED: u64 = 0x7a6d_5eed;

/// Calls every exported point in two fresh instances and compares. The second sees another
/// time of day and other WASI random numbers, unless the plugin asked for `clock` or `random`:
/// what no input tells must not show in an answer (contract rule 9). `settings` is JSON.
pub(super) async fn run(linked: &Arc<Linked>, settings: &str) -> Result<CanaryResult, AdmissionError> {
    match linked.clock.within(TRIAL, trial(linked, settings)).await {
        Some(result) => result,
        None => Err(AdmissionError {
            step: Step::Canary,
            plugin: linked.digest,
            what: format!("needed more than {} s for its trial calls", TRIAL.as_secs()),
            help: "do less in one call; have fewer tools".to_owned(),
        }),
    }
}

async fn trial(linked: &Arc<Linked>, settings: &str) -> Result<CanaryResult, AdmissionError> {
    let digest = linked.digest;
    let fail =
        |step, what: String, help: &str| AdmissionError { step, plugin: digest, what, help: help.to_owned() };
    let asked = |capability| linked.surface.capabilities.contains(&capability);
    let other = Hidden {
        seed: if asked(Capability::Random) { 0 } else { 0x0dd_5eed },
        start_seconds: if asked(Capability::Clock) { 0 } else { 40_000_000 },
    };
    let tools = definitions(linked, settings, Hidden::default()).await?;
    if tools != definitions(linked, settings, other).await? {
        let help = "return the same tools at every call, whatever time it is and whatever was called before";
        return Err(fail(Step::Determinism, "defines other tools when it is asked again".into(), help));
    }
    if let Some((what, help)) = check_tools(&tools).into_iter().next() {
        return Err(fail(Step::Tools, what, help));
    }

    let inputs = inputs(linked, &tools);
    let first = calls(linked, settings, Hidden::default(), &inputs).await?;
    let second = calls(linked, settings, other, &inputs).await?;
    for (one, two) in first.iter().zip(&second) {
        if one.output != two.output {
            let what = format!(
                "answers the same input of `{}` differently: first {}, then {}",
                one.point.name(),
                short(&one.output),
                short(&two.output)
            );
            let help = "leave out what depends on chance, time of day or the order of a hash map; import `random` or `clock` of the contract if the plugin needs them";
            return Err(fail(Step::Determinism, what, help));
        }
    }
    Ok(CanaryResult { tools, calls: first })
}

/// The schema of its settings, asked twice.
pub(super) async fn settings_schema(linked: &Arc<Linked>) -> Result<Option<SettingsSchema>, AdmissionError> {
    if !linked.surface.settings_schema {
        return Ok(None);
    }
    let fail = |step, what: String, help: &str| AdmissionError {
        step,
        plugin: linked.digest,
        what,
        help: help.to_owned(),
    };
    let ask = async |hidden| {
        instance(linked, "{}", hidden).settings_schema().await.map_err(|fault| {
            let what = format!("failed a trial call of `{SETTINGS_SCHEMA}`: it {fault}");
            fail(Step::Canary, what, fault.help())
        })
    };
    let schema = ask(Hidden::default()).await?;
    if schema != ask(Hidden { seed: 0x0dd_5eed, start_seconds: 40_000_000 }).await? {
        let what = "declares another schema of its settings when it is asked again".to_owned();
        return Err(fail(Step::Determinism, what, "return the same text at every call"));
    }
    SettingsSchema::parse(&schema).map(Some).map_err(|why| {
        let what = format!("has a wrong schema of its settings: it {why}");
        let help = "write a JSON Schema of type `object` without references, such as {\"type\": \"object\", \"properties\": {\"limit\": {\"type\": \"integer\", \"minimum\": 1}}}";
        fail(Step::Settings, what, help)
    })
}

fn instance(linked: &Arc<Linked>, settings: &str, hidden: Hidden) -> Instance {
    let workspace = Arc::new(NoWorkspace);
    let config = InstanceConfig { settings: settings.into(), seed: SEED, workspace };
    let mut instance = Instance::of(linked.clone(), config);
    instance.hidden = hidden;
    instance
}

/// The tools, asked twice in one instance.
async fn definitions(
    linked: &Arc<Linked>,
    settings: &str,
    hidden: Hidden,
) -> Result<Vec<ToolDefinition>, AdmissionError> {
    if !linked.has(HookPoint::Tools) {
        return Ok(Vec::new());
    }
    let mut instance = instance(linked, settings, hidden);
    let failed = |fault| failed(linked, HookPoint::Tools, &fault);
    let first = instance.definitions().await.map_err(failed)?;
    let second = instance.definitions().await.map_err(failed)?;
    if first != second {
        return Err(AdmissionError {
            step: Step::Determinism,
            plugin: linked.digest,
            what: "defines other tools when it is asked again".to_owned(),
            help: "return the same tools at every call, whatever time it is and whatever was called before"
                .to_owned(),
        });
    }
    Ok(first)
}

/// All inputs in turn, in one instance, as in an episode.
async fn calls(
    linked: &Arc<Linked>,
    settings: &str,
    hidden: Hidden,
    inputs: &[(HookPoint, Value)],
) -> Result<Vec<CanaryCall>, AdmissionError> {
    let mut instance = instance(linked, settings, hidden);
    let mut calls = Vec::new();
    for (point, input) in inputs {
        let output = match call_json(&mut instance, *point, input).await {
            Ok(output) => output,
            Err(CallError::Fault(fault)) => return Err(failed(linked, *point, &fault)),
            Err(CallError::Input(error)) => {
                let fault = PluginFault::Start { why: error.to_string() };
                return Err(failed(linked, *point, &fault));
            }
        };
        calls.push(CanaryCall { point: *point, input: input.clone(), output });
    }
    Ok(calls)
}

fn failed(linked: &Linked, point: HookPoint, fault: &PluginFault) -> AdmissionError {
    AdmissionError {
        step: Step::Canary,
        plugin: linked.digest,
        what: format!("failed a trial call of `{}`: it {fault}", point.name()),
        help: fault.help().to_owned(),
    }
}

/// A few inputs for each point that the plugin exports: the ordinary case and the edges that
/// plugins stumble over.
fn inputs(linked: &Linked, tools: &[ToolDefinition]) -> Vec<(HookPoint, Value)> {
    let late = json!({"turn": 49, "now_ms": 900_000, "budget": {"turns": {"used": 48, "limit": 50}}});
    let empty_patch = json!({"bytes": 0, "files": []});
    let mut inputs = Vec::new();
    for point in &linked.surface.exports {
        let of_point = match point {
            HookPoint::Tools => {
                tools.iter().map(|tool| json!({"name": tool.name, "arguments": {}})).collect()
            }
            HookPoint::OnEpisodeStart => vec![json!({}), json!({"instruction": ""})],
            HookPoint::OnModelCall => vec![json!({}), json!({"context": late})],
            HookPoint::OnFormatError => {
                vec![json!({}), json!({"error": "several-actions", "output": ""})]
            }
            HookPoint::OnToolCall => vec![
                json!({}),
                json!({"call": {"arguments": {}}}),
                json!({"context": late, "call": {"name": "other", "arguments": {"path": "a\u{e9}\"\n"}}}),
            ],
            HookPoint::OnToolResult => vec![
                json!({}),
                json!({"result": {"status": "timed-out", "exit_code": null, "text": "", "raw_bytes": 0}}),
                json!({"context": late, "result": {
                    "exit_code": 1,
                    "text": "Traceback (most recent call last):\n  File \"a.py\", line 1\nNameError: name 'x' is not defined\n",
                }}),
            ],
            HookPoint::OnLoop => vec![json!({}), json!({"repetition": "no-action"})],
            HookPoint::OnSubmit => vec![
                json!({}),
                json!({"submission": {"patch": empty_patch, "work_tree": {"changed": []}}}),
                json!({"submission": {"patch": {"applies": false}, "work_tree": {"untracked": ["new.py"]}, "deferrals": 1}}),
            ],
            HookPoint::OnChoosePatch => vec![
                json!({}),
                json!({"candidates": [
                    {"source": "submitted", "bytes": 0, "files": [], "applies": false},
                    {"source": "work-tree", "bytes": 9, "files": ["a"], "applies": true},
                ]}),
            ],
            HookPoint::OnLimit => vec![json!({}), json!({"limit": "tokens", "work_tree": empty_patch})],
            HookPoint::Observe => vec![json!({}), json!({"name": "refused", "payload": {"reason": ""}})],
        };
        inputs.extend(of_point.into_iter().map(|input| (*point, input)));
    }
    inputs
}

/// Everything that is wrong with the tools of a plugin that was refused for one of them.
pub(super) async fn tool_reasons(linked: &Arc<Linked>, settings: &str) -> Vec<AdmissionError> {
    let asked = linked.clock.within(TRIAL, definitions(linked, settings, Hidden::default())).await;
    let wrong = match asked {
        Some(Ok(tools)) => check_tools(&tools),
        _ => Vec::new(),
    };
    let reason = |(what, help): (String, &str)| AdmissionError {
        step: Step::Tools,
        plugin: linked.digest,
        what,
        help: help.to_owned(),
    };
    wrong.into_iter().map(reason).collect()
}

/// What and help for everything that is not valid.
fn check_tools(tools: &[ToolDefinition]) -> Vec<(String, &'static str)> {
    if tools.len() > TOOLS {
        let what = format!("has {} tools, limit {TOOLS}", tools.len());
        return vec![(what, "put what belongs together into one tool")];
    }
    let mut wrong = Vec::new();
    let size = |tool: &ToolDefinition| {
        tool.name.len() + tool.description.len() + tool.input_schema.to_string().len()
    };
    let bytes: usize = tools.iter().map(size).sum();
    if bytes > TOOLS_BYTES {
        let what = format!("has {bytes} bytes of tool definitions, limit {TOOLS_BYTES} bytes");
        return vec![(what, "describe tools in a few sentences; the policy reads them at every turn")];
    }
    let mut seen = BTreeSet::new();
    for tool in tools {
        let good = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        let is_good =
            !tool.name.is_empty() && tool.name.len() <= TOOL_NAME_CHARS && tool.name.chars().all(good);
        let name = spelled(&tool.name, 80);
        if !is_good {
            wrong.push((
                format!("has a tool with the name `{name}`"),
                "name tools with 1 to 64 letters, digits, `_` and `-`",
            ));
        }
        if RESERVED_TOOLS.contains(&tool.name.as_str()) {
            wrong.push((
                format!("has a tool with the name `{name}`, which the agent loop has already"),
                "give the tool another name",
            ));
        }
        if !seen.insert(&tool.name) {
            wrong.push((format!("defines the tool `{name}` twice"), "give every tool a name of its own"));
        }
        if tool.description.trim().is_empty() {
            wrong.push((
                format!("has a tool `{name}` without a description"),
                "say in one or two sentences what the tool does and when to use it",
            ));
        }
        if tool.input_schema.get("type") != Some(&json!("object")) {
            wrong.push((
                format!("has a tool `{name}` whose input schema is not of type `object`"),
                "use a JSON Schema with `\"type\": \"object\"` at the top",
            ));
        } else if let Err(why) = check_schema(&tool.input_schema) {
            wrong.push((
                format!("has a tool `{name}` with a wrong input schema: it {why}"),
                "write a JSON Schema; models read it before they call the tool",
            ));
        }
    }
    wrong
}

fn short(value: &Value) -> String {
    format!("`{}`", spelled(&value.to_string(), 80))
}
