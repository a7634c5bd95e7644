//! The hook that is measured: a small record in, a variant out. `quickjs.js`, `hook.py`, `hook.sh`,
//! `subprocess.py` and `extism/` have the same logic.

use tandem_plugin::*;

/// Makes components of the same logic and different bytes.
const VARIANT: u64 = 0; // parameter

pub struct Plugin;

impl OnModelCall for Plugin {
    fn on_model_call(context: Context) -> Option<ModelCallEffect> {
        let turns = context.budget.turns;
        let limit = turns.limit?;
        let left = limit.saturating_sub(turns.used + VARIANT);
        (left <= 3).then(|| ModelCallEffect::Note(format!("{left} of {limit} turns are left.")))
    }
}

impl OnToolCall for Plugin {
    fn on_tool_call(_: Context, call: ToolCall) -> Option<ToolCallEffect> {
        let deletes = call.arguments.contains("rm -rf /");
        deletes.then(|| ToolCallEffect::Refuse("Work in the repository.".into()))
    }
}

impl OnToolResult for Plugin {
    fn on_tool_result(_: Context, _: ToolCall, outcome: ToolResult) -> Option<ToolResultEffect> {
        let missing = outcome.text.contains("command not found");
        missing.then(|| ToolResultEffect::Annotate("The program is not installed.".into()))
    }
}

export_on_model_call!(Plugin);
export_on_tool_call!(Plugin);
export_on_tool_result!(Plugin);
