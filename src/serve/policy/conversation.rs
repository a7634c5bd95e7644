//! What is a policy to go on with? The messages and tools of a chat, or prompts.

use serde_json::{Map, Value};
use tandem_trainer::tokenizer::{ChatMessage, ChatRole};

use super::fields::{Fields, wanted};
use crate::serve::refusal::Refusal;

/// What is to be continued.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Prompt {
    Text(String),
    Ids(Vec<u32>),
}

/// Messages, and what the message at the same place calls.
pub type Turns = (Vec<ChatMessage>, Vec<Vec<Value>>);

/// The messages of a chat.
///
/// # Errors
/// A refusal that names the message and its field.
pub fn messages(fields: &Fields) -> Result<Turns, Refusal> {
    let Some(Value::Array(messages)) = fields.get("messages") else {
        return Err(Refusal::of_parameter("messages", "`messages` is missing or no list"));
    };
    if messages.is_empty() {
        return Err(Refusal::of_parameter("messages", "`messages` is empty"));
    }
    let mut turns = (Vec::new(), Vec::new());
    for (at, message) in messages.iter().enumerate() {
        let name = |field: &str| format!("messages[{at}].{field}");
        let role = match message["role"].as_str() {
            Some("system" | "developer") => ChatRole::System,
            Some("user") => ChatRole::User,
            Some("assistant") => ChatRole::Assistant,
            Some("tool") => ChatRole::Tool,
            _ => {
                return Err(wanted(
                    &name("role"),
                    "system, developer, user, assistant or tool",
                    &message["role"],
                ));
            }
        };
        let calls = match &message["tool_calls"] {
            Value::Array(calls) if role == ChatRole::Assistant => {
                let read = |(number, value)| call(&format!("messages[{at}].tool_calls[{number}]"), value);
                calls.iter().enumerate().map(read).collect::<Result<Vec<_>, _>>()?
            }
            Value::Null => Vec::new(),
            other => return Err(wanted(&name("tool_calls"), "a list in a message of the assistant", other)),
        };
        let content = content(&name("content"), &message["content"])?;
        if content.is_none() && calls.is_empty() && role != ChatRole::Assistant {
            return Err(Refusal::of_parameter(name("content"), format!("`{}` is missing", name("content"))));
        }
        turns.0.push(ChatMessage::new(role, content.unwrap_or_default()));
        turns.1.push(calls);
    }
    Ok(turns)
}

/// The text of a message: a string, or a list of parts of text.
fn content(name: &str, value: &Value) -> Result<Option<String>, Refusal> {
    match value {
        Value::Null => Ok(None),
        Value::String(text) => Ok(Some(text.clone())),
        Value::Array(parts) => {
            let mut text = String::new();
            for (at, part) in parts.iter().enumerate() {
                match (part["type"].as_str(), part["text"].as_str()) {
                    (Some("text"), Some(piece)) => text.push_str(piece),
                    (kind, _) => {
                        let kind = kind.unwrap_or("nothing");
                        let said =
                            format!("`{name}[{at}]` is a part of the type `{kind}`; the policy reads text");
                        return Err(Refusal::of_parameter(format!("{name}[{at}]"), said));
                    }
                }
            }
            Ok(Some(text))
        }
        other => Err(wanted(name, "a text or a list of parts", other)),
    }
}

/// A call of an earlier turn, its arguments made an object.
fn call(name: &str, value: &Value) -> Result<Value, Refusal> {
    let function = &value["function"];
    if !function["name"].is_string() {
        return Err(Refusal::of_parameter(name, format!("`{name}.function.name` is missing")));
    }
    let arguments = match &function["arguments"] {
        Value::String(text) if text.trim().is_empty() => Ok(Value::Object(Map::new())),
        Value::String(text) => serde_json::from_str(text),
        other => Ok(other.clone()),
    };
    let Some(arguments) = arguments.ok().filter(Value::is_object) else {
        let said = format!("`{name}.function.arguments` is no JSON object");
        return Err(Refusal::of_parameter(name, said));
    };
    let function = serde_json::json!({"name": function["name"], "arguments": arguments});
    Ok(serde_json::json!({"type": "function", "id": value["id"], "function": function}))
}

/// The tools that may be called; none where the request chooses none.
///
/// # Errors
/// A refusal that names the tool, or a choice that cannot be kept.
pub fn tools(fields: &Fields) -> Result<Vec<Value>, Refusal> {
    let tools = match fields.get("tools") {
        None => return Ok(Vec::new()),
        Some(Value::Array(tools)) => tools,
        Some(other) => return Err(wanted("tools", "a list", other)),
    };
    for (at, tool) in tools.iter().enumerate() {
        let name = tool["function"]["name"].as_str().unwrap_or_default();
        let good = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
        if tool["type"] != "function" || !(1..=64).contains(&name.len()) || !name.bytes().all(good) {
            let said =
                format!("`tools[{at}]` is no function with a name of 1 to 64 letters, digits, `_` and `-`");
            return Err(Refusal::of_parameter(format!("tools[{at}]"), said));
        }
        let parameters = &tool["function"]["parameters"];
        if !parameters.is_null() && !parameters.is_object() {
            let said = format!("`tools[{at}].function.parameters` is no JSON Schema");
            return Err(Refusal::of_parameter(format!("tools[{at}]"), said));
        }
    }
    match fields.get("tool_choice") {
        None => Ok(tools.clone()),
        Some(choice) if choice == "auto" => Ok(tools.clone()),
        Some(choice) if choice == "none" => Ok(Vec::new()),
        Some(_) => {
            let said = "`tool_choice` can be `auto` or `none`; the sampler cannot be made to call a tool";
            Err(Refusal::of_parameter("tool_choice", said))
        }
    }
}

/// The prompts of a request for text.
///
/// # Errors
/// A refusal that names the parameter.
pub fn prompts(fields: &Fields) -> Result<Vec<Prompt>, Refusal> {
    let ids = |list: &[Value]| -> Option<Vec<u32>> {
        list.iter().map(|id| id.as_u64().and_then(|id| u32::try_from(id).ok())).collect()
    };
    let read = |value: &Value| match value {
        Value::String(text) => Some(Prompt::Text(text.clone())),
        Value::Array(list) if !list.is_empty() => ids(list).map(Prompt::Ids),
        _ => None,
    };
    let wish = "a text, a list of token ids, or a list of these";
    match fields.get("prompt") {
        None => Err(Refusal::of_parameter("prompt", "`prompt` is missing")),
        Some(value) => match (read(value), value) {
            (Some(one), _) => Ok(vec![one]),
            (None, Value::Array(list)) if !list.is_empty() => {
                let all: Option<Vec<Prompt>> = list.iter().map(read).collect();
                all.ok_or_else(|| wanted("prompt", wish, value))
            }
            (None, other) => Err(wanted("prompt", wish, other)),
        },
    }
}
