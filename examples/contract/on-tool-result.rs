//! Advice after a command that was stopped.

use tandem_plugin::*;

pub struct Plugin;

impl OnToolResult for Plugin {
    fn on_tool_result(_context: Context, _call: ToolCall, outcome: ToolResult) -> Option<ToolResultEffect> {
        let advice = "Run less of it: one test, or fewer lines.";
        (outcome.status == ToolStatus::TimedOut).then(|| ToolResultEffect::Annotate(advice.into()))
    }
}

export_on_tool_result!(Plugin);
