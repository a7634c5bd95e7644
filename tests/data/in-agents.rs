//! A plugin of the tests: does each hook reach an agent, and does each session keep its own state?

use tandem_plugin::*;
pub struct Plugin;

impl OnEpisodeStart for Plugin {
    fn on_episode_start(_context: Context, instruction: String) -> Option<String> {
        Some(format!("Task of {} letters.", instruction.len()))
    }
}

impl OnToolCall for Plugin {
    fn on_tool_call(_context: Context, call: ToolCall) -> Option<ToolCallEffect> {
        let command = call.command()?;
        let _ = state::set("calls", (state::number("calls") + 1).to_string().as_bytes());
        match command.as_str() {
            "vim" => Some(ToolCallEffect::Refuse("Nobody is there to type.".into())),
            "crash" => panic!("this plugin breaks"),
            "pytest" => Some(ToolCallEffect::Rewrite("{\"command\":\"pytest -q\"}".into())),
            _ => None,
        }
    }
}

impl OnToolResult for Plugin {
    fn on_tool_result(_context: Context, call: ToolCall, outcome: ToolResult) -> Option<ToolResultEffect> {
        if outcome.status == ToolStatus::Refused {
            return Some(ToolResultEffect::Annotate("(refused)".into()));
        }
        match call.command()?.as_str() {
            "count" => Some(ToolResultEffect::Annotate(format!("{} calls.", state::number("calls")))),
            "read" => {
                let text = workspace::read("notes.txt").map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
                Some(ToolResultEffect::Replace(text.unwrap_or_else(|_| "no notes".into())))
            }
            _ => None,
        }
    }
}

impl OnSubmit for Plugin {
    fn on_submit(_context: Context, submission: Submission) -> Option<String> {
        let tree = submission.work_tree;
        (submission.deferrals == 0)
            .then(|| format!("changed {:?}, new {:?}: look again", tree.changed, tree.untracked))
    }
}

export_on_episode_start!(Plugin);
export_on_tool_call!(Plugin);
export_on_tool_result!(Plugin);
export_on_submit!(Plugin);
