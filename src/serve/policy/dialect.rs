//! How is a policy told of tools, and how does it call one? By its chat template, or by the fenced blocks
//! of the agent loop where the template has no words for tools.

use serde_json::{Map, Value};
use tandem_host::agent::text_call;
use tandem_host::policy::{FinishReason, ToolCall};
use tandem_trainer::tokenizer::{ChatMessage, ChatRole, ChatTemplate, TokenizerError, ToolStyle};

use super::request::ChatRequest;

/// A way of calling tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// As the chat template writes calls.
    Template(ToolStyle),
    /// The text protocol of the agent loop: one fenced block that names the tool.
    Blocks,
}

/// A reply taken apart.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Parsed {
    pub content: String,
    pub calls: Vec<ToolCall>,
}

impl Dialect {
    pub fn of(chat: &ChatTemplate) -> Self {
        chat.tool_style().map_or(Self::Blocks, Self::Template)
    }

    /// The ids before the reply to a request.
    pub fn prompt(self, chat: &ChatTemplate, request: &ChatRequest) -> Result<Vec<u32>, TokenizerError> {
        match self {
            Self::Template(_) => chat.first_with_tools(&request.messages, &request.calls, &request.tools),
            Self::Blocks => chat.first(&as_blocks(request)),
        }
    }

    /// What a call begins with: text before it is certain to be no part of a call.
    pub fn marker(self) -> &'static str {
        match self {
            Self::Template(ToolStyle::Tagged) => "<tool_call>",
            Self::Template(ToolStyle::Bare) => "{",
            Self::Blocks => "```",
        }
    }

    /// The text and the calls of a reply. What is no call by the rules of the dialect stays text.
    pub fn parse(self, text: &str, tools: &[String], finish: FinishReason) -> Parsed {
        let (at, calls) = match self {
            Self::Template(ToolStyle::Tagged) => tagged(text, finish),
            Self::Template(ToolStyle::Bare) => bare(text),
            Self::Blocks => match text_call(text, tools, finish) {
                Some((call, at)) => (at, vec![call]),
                None => (0, Vec::new()),
            },
        };
        match calls.is_empty() {
            true => Parsed { content: text.to_owned(), calls },
            false => Parsed { content: text[..at].to_owned(), calls },
        }
    }
}

/// `<tool_call>` around JSON, any number of times. One that is broken makes all of it text.
fn tagged(text: &str, finish: FinishReason) -> (usize, Vec<ToolCall>) {
    const OPEN: &str = "<tool_call>";
    let start = text.find(OPEN).unwrap_or(text.len());
    let mut calls = Vec::new();
    let mut rest = &text[start..];
    while let Some((_, tail)) = rest.split_once(OPEN) {
        let (body, after) = match tail.split_once("</tool_call>") {
            Some(parts) => parts,
            // The end of the turn closes it, the end of the budget does not.
            None if finish == FinishReason::Stop => (tail, ""),
            None => return (0, Vec::new()),
        };
        let Some(call) = call(body, "arguments") else { return (0, Vec::new()) };
        calls.push(call);
        rest = after;
    }
    (start, calls)
}

/// A reply that is one JSON object, a call.
fn bare(text: &str) -> (usize, Vec<ToolCall>) {
    let start = text.len() - text.trim_start().len();
    (start, call(text, "parameters").into_iter().collect())
}

fn call(json: &str, arguments: &str) -> Option<ToolCall> {
    let value: Value = serde_json::from_str(json.trim()).ok()?;
    let arguments = match &value[arguments] {
        Value::Null => Value::Object(Map::new()),
        Value::String(text) => serde_json::from_str(text).ok().filter(Value::is_object)?,
        object => Some(object.clone()).filter(Value::is_object)?,
    };
    Some(ToolCall { id: String::new(), name: value["name"].as_str()?.to_owned(), arguments })
}

/// The conversation in the text protocol: calls as blocks, results as messages of the user, and the tools
/// at the end of the first message of the user, where the agent loop tells of them.
fn as_blocks(request: &ChatRequest) -> Vec<ChatMessage> {
    let mut messages: Vec<ChatMessage> = request
        .messages
        .iter()
        .zip(&request.calls)
        .map(|(message, calls)| {
            let role = if message.role == ChatRole::Tool { ChatRole::User } else { message.role };
            let mut content = message.content.clone();
            for call in calls {
                if !content.is_empty() && !content.ends_with('\n') {
                    content.push('\n');
                }
                let function = &call["function"];
                content
                    .push_str(&block(function["name"].as_str().unwrap_or_default(), &function["arguments"]));
            }
            ChatMessage::new(role, content)
        })
        .collect();
    if let Some(section) = section(&request.tools) {
        let user = messages.iter().position(|message| message.role == ChatRole::User).unwrap_or(0);
        if let Some(first) = messages.get_mut(user) {
            first.content.push_str(&section);
        }
    }
    messages
}

/// A call as a block: `bash` is called with its command, all others with JSON.
fn block(name: &str, arguments: &Value) -> String {
    match arguments["command"].as_str().filter(|_| name == "bash") {
        Some(command) => format!("```bash\n{command}\n```"),
        None => format!("```{name}\n{arguments}\n```"),
    }
}

fn section(tools: &[Value]) -> Option<String> {
    let first = tools.first()?["function"]["name"].as_str()?;
    let has_bash = tools.iter().any(|tool| tool["function"]["name"] == "bash");
    let exception = if has_bash { "; one with the tag `bash` holds the command itself" } else { "" };
    let example = block(first, &serde_json::json!({"command": "ls"}));
    let example = if first == "bash" { example } else { block(first, &Value::Object(Map::new())) };
    let mut text = format!(
        "\n\nTo call a tool, write one fenced block. Its tag is the name of the tool, and it holds the arguments \
         as a JSON object{exception}. For example:\n\n{example}\n"
    );
    for tool in tools {
        let function = &tool["function"];
        let name = function["name"].as_str().unwrap_or_default();
        let description = function["description"].as_str().unwrap_or_default().trim();
        text.push_str(&format!("\n- `{name}`: {description} Arguments: {}", function["parameters"]));
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::json;
    use tandem_host::policy::Sampling;

    use super::*;

    fn check(dialect: Dialect, text: &str, expected: (&str, &[(&str, Value)])) {
        let tools = ["bash".to_owned(), "edit".to_owned()];
        let parsed = dialect.parse(text, &tools, FinishReason::Stop);
        let calls: Vec<_> =
            parsed.calls.iter().map(|call| (call.name.as_str(), call.arguments.clone())).collect();
        assert_eq!((parsed.content.as_str(), &calls[..]), (expected.0, expected.1), "{text}");
    }

    #[test]
    fn tagged_calls_are_taken_out_of_the_text() {
        let dialect = Dialect::Template(ToolStyle::Tagged);
        let ls = "<tool_call>\n{\"name\": \"bash\", \"arguments\": {\"command\": \"ls\"}}\n</tool_call>";
        let called = ("bash", json!({"command": "ls"}));
        check(dialect, ls, ("", std::slice::from_ref(&called)));
        check(dialect, &format!("I look.\n{ls}\n{ls}"), ("I look.\n", &[called.clone(), called.clone()]));
        check(dialect, ls.trim_end_matches("</tool_call>"), ("", &[called]));
        check(dialect, "nothing", ("nothing", &[]));
        check(dialect, "<tool_call>{</tool_call>", ("<tool_call>{</tool_call>", &[]));
        let listed = "<tool_call>{\"name\": \"bash\", \"arguments\": [1]}</tool_call>";
        check(dialect, listed, (listed, &[]));
        let half = "<tool_call>{\"name\": \"bash\"}";
        assert_eq!(dialect.parse(half, &[], FinishReason::Length).content, half);
    }

    #[test]
    fn a_bare_call_is_the_whole_reply() {
        let dialect = Dialect::Template(ToolStyle::Bare);
        let ls = "{\"name\": \"bash\", \"parameters\": {\"command\": \"ls\"}}";
        check(dialect, ls, ("", &[("bash", json!({"command": "ls"}))]));
        check(dialect, "like {\"a\": 1}", ("like {\"a\": 1}", &[]));
    }

    #[test]
    fn blocks_are_read_as_the_agent_loop_reads_them() {
        check(
            Dialect::Blocks,
            "I look.\n```bash\nls\n```",
            ("I look.\n", &[("bash", json!({"command": "ls"}))]),
        );
        check(Dialect::Blocks, "```edit\n{\"a\": 1}\n```", ("", &[("edit", json!({"a": 1}))]));
        let two = "```bash\nls\n```\n```bash\npwd\n```";
        check(Dialect::Blocks, two, (two, &[]));
    }

    #[test]
    fn a_conversation_without_words_for_tools_is_written_with_blocks() {
        let body = json!({
            "model": "m",
            "messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "Look."},
                {"role": "assistant", "content": "Yes.", "tool_calls": [
                    {"id": "1", "type": "function", "function": {"name": "bash", "arguments": "{\"command\": \"ls\"}"}},
                ]},
                {"role": "tool", "tool_call_id": "1", "content": "a.py"},
            ],
            "tools": [
                {"type": "function", "function": {"name": "bash", "description": "Runs.", "parameters": {"type": "object"}}},
                {"type": "function", "function": {"name": "edit", "description": "Edits.", "parameters": {"type": "object"}}},
            ],
        });
        let request = ChatRequest::read(body.to_string().as_bytes(), &Sampling::default()).unwrap();
        let text: Vec<String> =
            as_blocks(&request).iter().map(|m| format!("[{:?}] {}", m.role, m.content)).collect();
        expect![[r#"
            [System] Be brief.
            [User] Look.

            To call a tool, write one fenced block. Its tag is the name of the tool, and it holds the arguments as a JSON object; one with the tag `bash` holds the command itself. For example:

            ```bash
            ls
            ```

            - `bash`: Runs. Arguments: {"type":"object"}
            - `edit`: Edits. Arguments: {"type":"object"}
            [Assistant] Yes.
            ```bash
            ls
            ```
            [User] a.py"#]]
        .assert_eq(&text.join("\n"));
    }
}
