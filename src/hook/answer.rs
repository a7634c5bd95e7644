//! How is what our hooks did said to an agent, and what of it cannot be said?

use serde_json::{Map, Value, json};

use super::agent::{Agent, AgentEvent};
use super::input::{Input, What, with_text};
use super::wire::Reply;

/// What the hooks of a harness want at one event of an agent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answer {
    /// Do not run the tool; the model reads why.
    pub refuse: Option<String>,
    /// Run the tool with these arguments.
    pub rewrite: Option<Value>,
    /// Show this instead of the tool's result.
    pub replace: Option<String>,
    /// Text for the model.
    pub notes: Vec<String>,
    /// Do not end yet; the model reads why.
    pub defer: Option<String>,
    /// End, with a reason.
    pub stop: Option<String>,
}

/// An answer in an agent's format.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Told {
    pub reply: Reply,
    /// What the agent cannot be told, for the log.
    pub lost: Vec<String>,
}

impl Answer {
    /// The answer in the format of the agent that asked. An answer without anything in it is no
    /// output at all, which every agent takes as "go on".
    pub fn tell(&self, input: &Input) -> Told {
        let mut lost = Vec::new();
        let output = match input.agent {
            Agent::OpenHands => self.for_openhands(input, &mut lost),
            Agent::Claude | Agent::Codex => self.for_claude_or_codex(input, &mut lost),
        };
        let stdout = if output.is_empty() { String::new() } else { Value::Object(output).to_string() };
        Told { reply: Reply { exit: 0, stdout }, lost }
    }

    fn notes(&self) -> Option<String> {
        (!self.notes.is_empty()).then(|| self.notes.join("\n"))
    }

    fn for_claude_or_codex(&self, input: &Input, lost: &mut Vec<String>) -> Map<String, Value> {
        let (mut output, mut special) = (Map::new(), Map::new());
        let mut context = self.notes();
        if let Some(reason) = &self.refuse {
            special.insert("permissionDecision".into(), "deny".into());
            special.insert("permissionDecisionReason".into(), spoken(reason).into());
        } else if let (Some(arguments), What::Call { call, input: given }) = (&self.rewrite, &input.what) {
            // Codex takes new input with `allow` alone. Claude Code would skip the user's own permission with it.
            if input.agent == Agent::Codex {
                special.insert("permissionDecision".into(), "allow".into());
            }
            special.insert("updatedInput".into(), rewritten(&call.name, given, arguments));
        }
        if let (Some(text), What::Result { response, .. }) = (&self.replace, &input.what) {
            match (input.agent, with_text(response, text)) {
                // Its feedback stands in the place of the result.
                (Agent::Codex, _) => {
                    output.insert("decision".into(), "block".into());
                    output.insert("reason".into(), spoken(text).into());
                }
                (_, Some(response)) if input.event == AgentEvent::PostToolUse => {
                    special.insert("updatedToolOutput".into(), response);
                }
                _ => {
                    lost.push("a replaced result was given as text beside the result".into());
                    let shown = format!("Read this instead of the tool's result:\n{text}");
                    context = Some(context.map_or(shown.clone(), |notes| format!("{shown}\n{notes}")));
                }
            }
        }
        if let Some(text) = context {
            match input.event {
                AgentEvent::SessionEnd => lost.push("a note, since the session is over".into()),
                AgentEvent::Stop if input.agent == Agent::Codex => {
                    lost.push("a note, since Codex takes none when it stops".into());
                }
                _ => {
                    special.insert("additionalContext".into(), text.into());
                }
            }
        }
        if let Some(message) = &self.defer {
            output.insert("decision".into(), "block".into());
            output.insert("reason".into(), spoken(message).into());
        }
        if let Some(reason) = &self.stop {
            output.insert("continue".into(), false.into());
            output.insert("stopReason".into(), spoken(reason).into());
        }
        if !special.is_empty() {
            special.insert("hookEventName".into(), input.event.name().into());
            output.insert("hookSpecificOutput".into(), Value::Object(special));
        }
        output
    }

    fn for_openhands(&self, input: &Input, lost: &mut Vec<String>) -> Map<String, Value> {
        let mut output = Map::new();
        if self.rewrite.is_some() && self.refuse.is_none() {
            lost.push("rewritten arguments: OpenHands runs a tool with those of the model".into());
        }
        if self.replace.is_some() {
            lost.push("a replaced result: OpenHands shows the tool's own".into());
        }
        let denied = match input.event {
            AgentEvent::PreToolUse => self.refuse.as_ref(),
            AgentEvent::UserPromptSubmit => self.stop.as_ref(),
            AgentEvent::Stop => self.defer.as_ref(),
            _ => None,
        };
        if let Some(reason) = denied {
            output.insert("decision".into(), "deny".into());
            output.insert("reason".into(), spoken(reason).into());
        }
        if self.stop.is_some() && input.event != AgentEvent::UserPromptSubmit {
            lost.push("an end: OpenHands can be stopped at a message of the user alone".into());
        }
        match (self.notes(), input.event) {
            (Some(text), AgentEvent::SessionStart | AgentEvent::UserPromptSubmit) => {
                output.insert("additionalContext".into(), text.into());
            }
            (Some(_), event) => lost.push(format!("a note: OpenHands takes none at {}", event.name())),
            (None, _) => {}
        }
        output
    }
}

/// A reason that an agent accepts: an empty one would be no decision.
fn spoken(reason: &str) -> String {
    match reason.trim() {
        "" => "a hook of the harness decided so and gave no reason".into(),
        _ => reason.to_owned(),
    }
}

/// The agent's input with new arguments. Our shell has the command alone; what else the agent gave, stays.
fn rewritten(tool: &str, given: &Map<String, Value>, arguments: &Value) -> Value {
    let Value::Object(arguments) = arguments else { return json!(given) };
    match tool {
        "bash" => {
            let mut input = given.clone();
            // The command alone: other keys are the agent's, and may ask it to run without its sandbox.
            if let Some(command) = arguments.get("command").filter(|command| command.is_string()) {
                input.insert("command".into(), command.clone());
            }
            Value::Object(input)
        }
        _ => Value::Object(arguments.clone()),
    }
}
