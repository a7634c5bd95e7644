//! What is said between host and policy, with who wrote each piece.

use serde::{Deserialize, Serialize};

use crate::store::Digest;

/// Who speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    System,
    User,
    Assistant,
    Tool,
}

/// A call of a tool. `arguments` is a JSON object.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    pub id: String,
    pub name: String,
    pub arguments: serde_json::Value,
}

/// Who put a piece of text into a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// The host: prompts, results, corrective text.
    Host,
    /// The policy.
    Policy,
    /// A hook; contract rule 6.
    Hook { plugin: Digest, point: String, effect: String },
    /// A skill, in training only.
    Skill,
}

/// A stretch of text with one origin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Piece {
    pub origin: Origin,
    pub text: String,
}

/// One message of a conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Message {
    pub role: Role,
    pub pieces: Vec<Piece>,
    /// Calls that an assistant message makes (native protocol).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
    /// The call that a tool message answers (native protocol).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
}

impl Message {
    /// A message of one piece from the host, or from the policy for `Assistant`.
    pub fn new(role: Role, text: impl Into<String>) -> Self {
        let origin = match role {
            Role::Assistant => Origin::Policy,
            _ => Origin::Host,
        };
        Self {
            role,
            pieces: vec![Piece { origin, text: text.into() }],
            tool_calls: Vec::new(),
            tool_call_id: None,
        }
    }

    /// The text of all pieces.
    pub fn text(&self) -> String {
        self.pieces.iter().map(|piece| piece.text.as_str()).collect()
    }
}
