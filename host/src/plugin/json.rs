//! How is a point called with JSON? For the command line, for canary calls and for tests.

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::fault::PluginFault;
use super::instance::Instance;
use super::points::{
    Context, FormatError, HookPoint, LimitKind, PatchCandidate, Repetition, Submission, ToolResult,
};
use crate::policy::ToolCall;

/// Input that does not have the form of its point.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the input for `{point}` {what}\nhelp: the whole input looks like this, and what you leave out is taken from it: {}", sample(*.at))]
pub struct InputError {
    point: &'static str,
    at: HookPoint,
    what: String,
}

/// The whole input of a point, with the values that stand when they are left out. For `tools`,
/// an input with a `name` calls that tool and one without asks for the definitions.
pub fn sample(point: HookPoint) -> Value {
    let context = json!({
        "turn": 1,
        "budget": {
            "turns": {"used": 0, "limit": 50},
            "tokens": {"used": 0, "limit": null},
            "seconds": {"used": 0, "limit": null},
        },
        "now_ms": 0,
    });
    let call = json!({"id": "1", "name": "bash", "arguments": {"command": "ls"}});
    let patch = json!({"source": "work-tree", "bytes": 120, "files": ["src/main.py"], "applies": true});
    let mut input = match point {
        HookPoint::Tools => json!({"name": null, "arguments": {}}),
        HookPoint::OnEpisodeStart => json!({"instruction": "Repair the function."}),
        HookPoint::OnModelCall => json!({}),
        HookPoint::OnFormatError => json!({"error": "no-action", "output": "I am done."}),
        HookPoint::OnToolCall => json!({"call": call}),
        HookPoint::OnToolResult => json!({
            "call": call,
            "result": {
                "status": "finished", "exit_code": 0, "text": "README.md\n", "raw_bytes": 10,
            },
        }),
        HookPoint::OnLoop => json!({"repetition": "same-call"}),
        HookPoint::OnSubmit => json!({"submission": {
            "patch": patch,
            "work_tree": {"changed": ["src/main.py"], "untracked": []},
            "deferrals": 0,
        }}),
        HookPoint::OnChoosePatch => json!({"candidates": [
            {"source": "submitted", "bytes": 80, "files": ["src/main.py"], "applies": true},
            patch,
        ]}),
        HookPoint::OnLimit => json!({"limit": "turns", "work_tree": patch}),
        HookPoint::Observe => json!({"name": "turn", "payload": {}}),
    };
    input["context"] = context;
    input
}

/// Why a call with JSON has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    #[error(transparent)]
    Input(#[from] InputError),
    #[error(transparent)]
    Fault(#[from] PluginFault),
}

/// Calls `point` with `input`, completed from [`sample`]. The answer is `null` when the plugin
/// returned nothing.
pub async fn call_json(instance: &mut Instance, point: HookPoint, input: &Value) -> Result<Value, CallError> {
    let mut whole = sample(point);
    merge(&mut whole, input, "").map_err(|what| wrong(point, what))?;
    let context: Context = field(point, &mut whole, "context")?;
    match point {
        HookPoint::Tools => match field::<Option<String>>(point, &mut whole, "name")? {
            None => answer(instance.definitions().await),
            Some(name) => {
                let arguments: Value = field(point, &mut whole, "arguments")?;
                answer(instance.call_tool(&context, &name, &arguments).await)
            }
        },
        HookPoint::OnEpisodeStart => {
            let instruction: String = field(point, &mut whole, "instruction")?;
            answer(instance.on_episode_start(&context, &instruction).await)
        }
        HookPoint::OnModelCall => answer(instance.on_model_call(&context).await),
        HookPoint::OnFormatError => {
            let error: FormatError = field(point, &mut whole, "error")?;
            let output: String = field(point, &mut whole, "output")?;
            answer(instance.on_format_error(&context, error, &output).await)
        }
        HookPoint::OnToolCall => {
            let call: ToolCall = field(point, &mut whole, "call")?;
            answer(instance.on_tool_call(&context, &call).await)
        }
        HookPoint::OnToolResult => {
            let call: ToolCall = field(point, &mut whole, "call")?;
            let result: ToolResult = field(point, &mut whole, "result")?;
            answer(instance.on_tool_result(&context, &call, &result).await)
        }
        HookPoint::OnLoop => {
            let repetition: Repetition = field(point, &mut whole, "repetition")?;
            answer(instance.on_loop(&context, repetition).await)
        }
        HookPoint::OnSubmit => {
            let submission: Submission = field(point, &mut whole, "submission")?;
            answer(instance.on_submit(&context, &submission).await)
        }
        HookPoint::OnChoosePatch => {
            let candidates: Vec<PatchCandidate> = field(point, &mut whole, "candidates")?;
            answer(instance.on_choose_patch(&context, &candidates).await)
        }
        HookPoint::OnLimit => {
            let limit: LimitKind = field(point, &mut whole, "limit")?;
            let work_tree: PatchCandidate = field(point, &mut whole, "work_tree")?;
            answer(instance.on_limit(&context, limit, &work_tree).await)
        }
        HookPoint::Observe => {
            let name: String = field(point, &mut whole, "name")?;
            let payload: Value = field(point, &mut whole, "payload")?;
            answer(instance.observe(&context, &name, &payload).await)
        }
    }
}

fn answer<T: serde::Serialize>(answer: Result<T, PluginFault>) -> Result<Value, CallError> {
    serde_json::to_value(answer?).map_err(|error| {
        let what = format!("its answer cannot be written as JSON: {error}");
        CallError::Fault(PluginFault::WrongValue { what })
    })
}

fn wrong(point: HookPoint, what: String) -> InputError {
    InputError { point: point.name(), at: point, what }
}

/// Objects whose keys are free.
const FREE: [&str; 3] = ["arguments", "payload", "call.arguments"];

/// Lays `given` over `whole`. A key that `whole` does not have is an error.
fn merge(whole: &mut Value, given: &Value, path: &str) -> Result<(), String> {
    let (Value::Object(fields), Value::Object(given)) = (&mut *whole, given) else {
        if path.is_empty() {
            return Err("is not a JSON object".to_owned());
        }
        *whole = given.clone();
        return Ok(());
    };
    for (key, value) in given {
        let path = match path {
            "" => key.clone(),
            _ => format!("{path}.{key}"),
        };
        match fields.get_mut(key) {
            Some(field) if FREE.contains(&path.as_str()) => *field = value.clone(),
            Some(field) => merge(field, value, &path)?,
            None => return Err(format!("has an unknown key `{path}`")),
        }
    }
    Ok(())
}

fn field<T: DeserializeOwned>(point: HookPoint, whole: &mut Value, name: &str) -> Result<T, InputError> {
    T::deserialize(whole[name].take()).map_err(|error| wrong(point, format!("has a wrong `{name}`: {error}")))
}
