//! Refuses editors that wait for a terminal, and reads with `cat` where a pager would wait.

use tandem_plugin::*;

pub struct Plugin;

impl OnToolCall for Plugin {
    fn on_tool_call(_context: Context, call: ToolCall) -> Option<ToolCallEffect> {
        let arguments = json::parse(&call.arguments).ok()?;
        let command = arguments.get("command")?.as_str()?;
        let (program, rest) = command.split_once(' ').unwrap_or((command, ""));
        match program {
            "vim" | "nano" => {
                Some(ToolCallEffect::Refuse(format!("There is no terminal for {program}. Use sed or a script.")))
            }
            "less" | "more" => {
                let command = json::quote(&format!("cat {rest}"));
                Some(ToolCallEffect::Rewrite(format!("{{\"command\": {command}}}")))
            }
            _ => None,
        }
    }
}

export_on_tool_call!(Plugin);
