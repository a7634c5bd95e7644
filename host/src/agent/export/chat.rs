//! A record as one line of a file of OpenAI chat conversations.

use serde_json::{Map, Value, json};

use super::exchange::{about, origins, text};
use crate::agent::record::EpisodeRecord;
use crate::policy::{Message, Role};

/// The conversation that the policy had, to the last reply: `messages` in the OpenAI shape, and
/// everything else under `tandem`. Which characters of a message a hook or a skill put in is in
/// `tandem.origins`, by the index of the message. Turns that a summary stood for stay in `messages`;
/// which they were, and from which turn on, is in `tandem.condensed`.
pub fn chat(record: &EpisodeRecord) -> Value {
    let (mut messages, mut from) = (Vec::new(), Vec::new());
    for said in record.turns.iter().flat_map(|turn| turn.input.iter().chain([&turn.reply])) {
        if let Some(spans) = origins(&said.pieces) {
            from.push(json!({"message": messages.len(), "spans": spans}));
        }
        messages.push(Value::Object(message(said)));
    }
    let shortened = (1..).zip(&record.turns).filter_map(|(turn, it): (u32, _)| {
        let condensed = it.condensed.as_ref()?;
        Some(json!({"turn": turn, "from": condensed.from, "to": condensed.to, "summary": condensed.summary}))
    });
    let shortened: Vec<_> = shortened.collect();
    let mut about = about(record);
    if !shortened.is_empty() {
        about.insert("condensed".into(), shortened.into());
    }
    about.insert("origins".into(), from.into());
    about.insert("effects".into(), json!(record.effects));
    json!({"messages": messages, "tandem": about})
}

/// A message in the OpenAI shape.
pub(super) fn message(said: &Message) -> Map<String, Value> {
    let mut message = Map::new();
    let role = match said.role {
        Role::System => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => "tool",
    };
    message.insert("role".into(), role.into());
    let content = text(&said.pieces);
    // A reply of calls alone has no content.
    let empty = content.is_empty() && !said.tool_calls.is_empty();
    message.insert("content".into(), if empty { Value::Null } else { content.into() });
    if !said.tool_calls.is_empty() {
        let calls = said.tool_calls.iter().map(|call| {
            // Arguments that were no JSON are kept as the text that they were.
            let arguments = match &call.arguments {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            let function = json!({"name": call.name, "arguments": arguments});
            json!({"id": call.id, "type": "function", "function": function})
        });
        message.insert("tool_calls".into(), calls.collect());
    }
    if let Some(id) = &said.tool_call_id {
        message.insert("tool_call_id".into(), id.as_str().into());
    }
    message
}
