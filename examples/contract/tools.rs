//! A tool `outline`: the definitions of a Python file, with their lines.

use tandem_plugin::*;

pub struct Plugin;

impl Tools for Plugin {
    fn definitions() -> Vec<ToolDefinition> {
        vec![ToolDefinition {
            name: "outline".into(),
            description: "Lists the functions and classes of a Python file.".into(),
            input_schema: r#"{"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}"#
                .into(),
        }]
    }

    fn call(_context: Context, _name: String, arguments: String) -> ToolOutput {
        let arguments = json::parse(&arguments).unwrap_or(json::Value::Null);
        let Some(path) = arguments.get("path").and_then(|path| path.as_str()) else {
            return ToolOutput::error("Give a `path`.");
        };
        let text = match workspace::read_text(path) {
            Ok(text) => text,
            Err(error) => return ToolOutput::error(workspace::explain(&error)),
        };
        let is_definition = |line: &str| line.trim_start().starts_with("def ") || line.starts_with("class ");
        let lines = text.lines().enumerate().filter(|(_, line)| is_definition(line));
        let found: Vec<String> = lines.map(|(at, line)| format!("{}: {line}", at + 1)).collect();
        ToolOutput::text(found.join("\n"))
    }
}

export_tools!(Plugin);
