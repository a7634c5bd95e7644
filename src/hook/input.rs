//! What does an agent say to a hook? Its JSON, read into one type for all three.

use serde_json::{Map, Value, json};
use tandem_host::harness::{ToolResult, ToolStatus};
use tandem_host::policy::ToolCall;

use super::agent::{Agent, AgentEvent};

/// The tool of our own loop that runs lines of a shell.
const BASH: &str = "bash";

/// What every event has, and what only some have.
#[derive(Clone, Debug, PartialEq)]
pub struct Input {
    pub agent: Agent,
    pub event: AgentEvent,
    /// The agent's session, and in it the sub-agent, if one speaks.
    pub session: String,
    /// The folder that the agent works in.
    pub folder: Option<String>,
    pub what: What,
}

/// What an event is about.
#[derive(Clone, Debug, PartialEq)]
pub enum What {
    /// `source` says why: `startup`, `resume`, `clear`, `compact`.
    SessionStart {
        source: String,
    },
    /// The text of the user.
    Prompt {
        text: String,
    },
    /// A tool is about to run. `input` is what the agent gave it, for an answer that changes it.
    Call {
        call: ToolCall,
        input: Map<String, Value>,
    },
    /// A tool ran. `response` is what the agent has of it, for an answer that replaces it.
    Result {
        call: ToolCall,
        result: ToolResult,
        response: Value,
    },
    /// All calls of one reply were answered.
    Batch,
    Stop,
    SessionEnd {
        reason: String,
    },
}

/// Why something that an agent said is not understood.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum InputError {
    #[error("what {agent} said is not JSON: {reason}", agent = .agent.title())]
    NotJson { agent: Agent, reason: String },
    #[error("what {agent} said of {event} has no `{field}`", agent = .agent.title(), event = .event.name())]
    Lacks { agent: Agent, event: AgentEvent, field: &'static str },
    #[error("{agent} said {found}, and its settings say {event}", agent = .agent.title(), event = .event.name())]
    OtherEvent { agent: Agent, event: AgentEvent, found: String },
}

impl Input {
    /// Reads what an agent wrote to the hook's standard input.
    ///
    /// # Errors
    /// Text that is no JSON object, of another event, or without what the event needs.
    pub fn read(agent: Agent, event: AgentEvent, text: &[u8]) -> Result<Self, InputError> {
        let fields: Map<String, Value> = serde_json::from_slice(text)
            .map_err(|error| InputError::NotJson { agent, reason: error.to_string() })?;
        let text_of = |field: &str| fields.get(field).and_then(Value::as_str).map(str::to_owned);
        let name = if agent == Agent::OpenHands { "event_type" } else { "hook_event_name" };
        if let Some(found) = text_of(name).filter(|found| found != event.name()) {
            return Err(InputError::OtherEvent { agent, event, found });
        }
        let folder = text_of(if agent == Agent::OpenHands { "working_dir" } else { "cwd" });
        let lacks = |field| InputError::Lacks { agent, event, field };
        let session = match text_of("session_id").or_else(|| folder.clone()) {
            Some(session) => session,
            None => return Err(lacks("session_id")),
        };
        let session = match text_of("agent_id") {
            Some(sub) => format!("{session}/{sub}"),
            None => session,
        };
        let call = || -> Result<(ToolCall, Map<String, Value>), InputError> {
            let tool = text_of("tool_name").ok_or_else(|| lacks("tool_name"))?;
            let input = match fields.get("tool_input") {
                Some(Value::Object(input)) => input.clone(),
                _ => Map::new(),
            };
            let shell = input.get("command").filter(|command| agent.is_shell(&tool) && command.is_string());
            let (name, arguments) = match shell {
                Some(command) => (BASH.to_owned(), json!({"command": command})),
                None => (tool, Value::Object(input.clone())),
            };
            Ok((ToolCall { id: text_of("tool_use_id").unwrap_or_default(), name, arguments }, input))
        };
        let what = match event {
            AgentEvent::SessionStart => {
                What::SessionStart { source: text_of("source").unwrap_or_else(|| "startup".into()) }
            }
            AgentEvent::UserPromptSubmit => {
                let field = if agent == Agent::OpenHands { "message" } else { "prompt" };
                What::Prompt { text: text_of(field).ok_or_else(|| lacks(field))? }
            }
            AgentEvent::PreToolUse => {
                let (call, input) = call()?;
                What::Call { call, input }
            }
            AgentEvent::PostToolUse => {
                let call = call()?.0;
                let response = fields.get("tool_response").cloned().unwrap_or(Value::Null);
                let result = result_of(agent, &call, &response);
                What::Result { call, result, response }
            }
            AgentEvent::PostToolUseFailure => {
                let call = call()?.0;
                let error = text_of("error").unwrap_or_default();
                let interrupted = fields.get("is_interrupt").and_then(Value::as_bool).unwrap_or(false);
                What::Result { result: failure(&call, &error, interrupted), call, response: Value::Null }
            }
            AgentEvent::PostToolBatch => What::Batch,
            AgentEvent::Stop => What::Stop,
            AgentEvent::SessionEnd => What::SessionEnd { reason: text_of("reason").unwrap_or_default() },
        };
        Ok(Self { agent, event, session, folder, what })
    }
}

/// A tool that the agent says has run.
fn result_of(agent: Agent, call: &ToolCall, response: &Value) -> ToolResult {
    let text = shown(response);
    let code = ["exit_code", "exitCode"].into_iter().find_map(|name| response.get(name)).or_else(|| {
        let metadata = response.get("metadata")?;
        metadata.get("exit_code").or_else(|| metadata.get("exitCode"))
    });
    let code = code.and_then(Value::as_i64).and_then(|code| i32::try_from(code).ok());
    let is = |name: &str| response.get(name).and_then(Value::as_bool).unwrap_or(false);
    let status = match () {
        () if is("interrupted") || is("timeout") => ToolStatus::TimedOut,
        () if (is("is_error") || is("isError")) && code.is_none() => ToolStatus::Failed,
        () => ToolStatus::Finished,
    };
    // Claude Code tells of a command that failed as another event.
    let code = match agent {
        Agent::Claude if call.name == BASH && status == ToolStatus::Finished => code.or(Some(0)),
        _ => code,
    };
    let raw_bytes = text.len() as u64;
    ToolResult { status, exit_code: code, text, raw_bytes }
}

/// A tool that the agent says has failed: a command that ended with another code than 0 is one.
fn failure(call: &ToolCall, error: &str, interrupted: bool) -> ToolResult {
    let first = error.lines().next().unwrap_or_default();
    let code = first.strip_prefix("Exit code ").and_then(|code| code.trim().parse().ok());
    let (status, text) = match code {
        Some(_) if call.name == BASH => {
            (ToolStatus::Finished, error.split_once('\n').map_or("", |(_, rest)| rest))
        }
        _ if interrupted => (ToolStatus::TimedOut, error),
        _ => (ToolStatus::Failed, error),
    };
    let exit_code = code.filter(|_| status == ToolStatus::Finished);
    ToolResult { status, exit_code, text: text.to_owned(), raw_bytes: text.len() as u64 }
}

/// The text in a tool's response, whose shape is the tool's own.
fn shown(response: &Value) -> String {
    let part = |name: &str| response.get(name).and_then(Value::as_str);
    if let Some(text) = response.as_str() {
        return text.to_owned();
    }
    if let Some(out) = part("stdout") {
        let error = part("stderr").unwrap_or_default();
        let between = if out.is_empty() || error.is_empty() || out.ends_with('\n') { "" } else { "\n" };
        return format!("{out}{between}{error}");
    }
    if let Some(text) = part("output").or_else(|| part("content")) {
        return text.to_owned();
    }
    let blocks = response.get("content").unwrap_or(response);
    if let Some(blocks) = blocks.as_array() {
        let texts = blocks.iter().filter_map(|block| block.get("text").and_then(Value::as_str));
        let texts: Vec<_> = texts.collect();
        if !texts.is_empty() {
            return texts.join("\n");
        }
    }
    if let Some(text) = response.pointer("/file/content").and_then(Value::as_str) {
        return text.to_owned();
    }
    match response {
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

/// The response with another text in it, in the shape that it has; none where that shape is not known.
pub fn with_text(response: &Value, text: &str) -> Option<Value> {
    let block = json!([{"type": "text", "text": text}]);
    match response {
        Value::String(_) => Some(text.into()),
        Value::Array(blocks) if blocks.iter().any(|block| block.get("text").is_some()) => Some(block),
        Value::Object(fields) => {
            let mut fields = fields.clone();
            let is_text = |name: &str| fields.get(name).is_some_and(Value::is_string);
            if is_text("stdout") {
                fields.insert("stdout".into(), text.into());
                if fields.contains_key("stderr") {
                    fields.insert("stderr".into(), "".into());
                }
                // What a long output was kept in would be shown instead of it.
                fields.remove("persistedOutputPath");
                fields.remove("persistedOutputSize");
            } else if let Some(name) = ["output", "content"].into_iter().find(|name| is_text(name)) {
                fields.insert(name.into(), text.into());
            } else if fields.get("content").is_some_and(Value::is_array) {
                fields.insert("content".into(), block);
            } else if let Some(content) = fields.get_mut("file").and_then(|file| file.get_mut("content")) {
                *content = text.into();
            } else {
                return None;
            }
            Some(Value::Object(fields))
        }
        _ => None,
    }
}
