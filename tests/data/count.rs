//! A tool with a structured answer, a hook that refuses and rewrites its calls, and one that annotates
//! results of commands: what `tandem serve mcp` has to bring to a client.

use tandem_plugin::*;

pub struct Plugin;

const SCHEMA: &str = r#"{"type":"object","properties":{"text":{"type":"string"}},"required":["text"],
"outputSchema":{"type":"object","properties":{"words":{"type":"integer"}},"required":["words"]}}"#;

impl Tools for Plugin {
    fn definitions() -> Vec<ToolDefinition> {
        vec![ToolDefinition {
            name: "count".into(),
            description: "Counts words.".into(),
            input_schema: SCHEMA.into(),
        }]
    }

    fn call(_context: Context, _name: String, arguments: String) -> ToolOutput {
        let value = json::parse(&arguments).ok();
        let text = value.as_ref().and_then(|value| value.get("text")?.as_str());
        let words = text.unwrap_or_default().split_whitespace().count();
        ToolOutput { content: Vec::new(), structured: Some(format!("{{\"words\":{words}}}")), is_error: false }
    }
}

impl OnToolCall for Plugin {
    fn on_tool_call(_context: Context, call: ToolCall) -> Option<ToolCallEffect> {
        match call.text("text")?.as_str() {
            "forbidden" => Some(ToolCallEffect::Refuse("not this word".into())),
            "shout" => Some(ToolCallEffect::Rewrite(r#"{"text":"SHOUT LOUD"}"#.into())),
            _ => None,
        }
    }
}

impl OnToolResult for Plugin {
    fn on_tool_result(_context: Context, call: ToolCall, _outcome: ToolResult) -> Option<ToolResultEffect> {
        let command = call.command()?;
        command.contains("given.txt").then(|| ToolResultEffect::Annotate("looked at by a hook".into()))
    }
}

export_tools!(Plugin);
export_on_tool_call!(Plugin);
export_on_tool_result!(Plugin);
