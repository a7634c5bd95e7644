//! The types that cross between host and guest, generated from `wit/`, and the way from and
//! to the host's own.

wasmtime::component::bindgen!({
    path: "../wit",
    world: "plugin",
    imports: {
        "tandem:harness/workspace-read": async | trappable,
        "tandem:harness/workspace-write": async | trappable,
        "tandem:harness/exec": async | trappable,
        default: trappable,
    },
    exports: { default: async },
    require_store_data_send: true,
});

use exports::tandem::harness as guest;
pub use tandem::harness as host;
use tandem::harness::types as wit;

use super::fault::{PluginFault, spelled};
use super::limits::JSON_BYTES;
use super::points::{
    AnnotateOrReplace, Content, Context, FormatError, Image, LimitKind, NoteOrStop, PatchCandidate,
    PatchSource, Repetition, RewriteOrRefuse, Submission, ToolDefinition, ToolOutput, ToolResult, ToolStatus,
    Usage, WorkTree,
};
use super::workspace_access::WorkspaceError;
use crate::policy::ToolCall;

/// The modules of the exported interfaces.
pub mod points {
    pub use super::exports::tandem::harness::*;
}

impl From<Usage> for wit::Usage {
    fn from(Usage { used, limit }: Usage) -> Self {
        Self { used, limit }
    }
}

impl From<&Context> for wit::Context {
    fn from(context: &Context) -> Self {
        let budget = context.budget;
        Self {
            turn: context.turn,
            budget: wit::Budget {
                turns: budget.turns.into(),
                tokens: budget.tokens.into(),
                seconds: budget.seconds.into(),
            },
        }
    }
}

impl From<&ToolCall> for wit::ToolCall {
    fn from(call: &ToolCall) -> Self {
        Self { id: call.id.clone(), name: call.name.clone(), arguments: call.arguments.to_string() }
    }
}

impl From<&ToolResult> for wit::ToolResult {
    fn from(result: &ToolResult) -> Self {
        Self {
            status: match result.status {
                ToolStatus::Finished => wit::ToolStatus::Finished,
                ToolStatus::Failed => wit::ToolStatus::Failed,
                ToolStatus::TimedOut => wit::ToolStatus::TimedOut,
                ToolStatus::Refused => wit::ToolStatus::Refused,
            },
            exit_code: result.exit_code,
            text: result.text.clone(),
            raw_bytes: result.raw_bytes,
        }
    }
}

impl From<&WorkTree> for wit::WorkTree {
    fn from(work_tree: &WorkTree) -> Self {
        Self { changed: work_tree.changed.clone(), untracked: work_tree.untracked.clone() }
    }
}

impl From<&PatchCandidate> for wit::PatchCandidate {
    fn from(patch: &PatchCandidate) -> Self {
        Self {
            source: match patch.source {
                PatchSource::Submitted => wit::PatchSource::Submitted,
                PatchSource::WorkTree => wit::PatchSource::WorkTree,
            },
            bytes: patch.bytes,
            files: patch.files.clone(),
            applies: patch.applies,
        }
    }
}

impl From<&Submission> for guest::on_submit::Submission {
    fn from(submission: &Submission) -> Self {
        Self {
            patch: (&submission.patch).into(),
            work_tree: (&submission.work_tree).into(),
            deferrals: submission.deferrals,
        }
    }
}

impl From<FormatError> for guest::on_format_error::FormatError {
    fn from(error: FormatError) -> Self {
        match error {
            FormatError::NoAction => Self::NoAction,
            FormatError::SeveralActions => Self::SeveralActions,
            FormatError::UnknownTool => Self::UnknownTool,
            FormatError::BadArguments => Self::BadArguments,
            FormatError::CutOff => Self::CutOff,
        }
    }
}

impl From<Repetition> for guest::on_loop::Repetition {
    fn from(repetition: Repetition) -> Self {
        match repetition {
            Repetition::SameCall => Self::SameCall,
            Repetition::SameError => Self::SameError,
            Repetition::Alternating => Self::Alternating,
            Repetition::NoAction => Self::NoAction,
        }
    }
}

impl From<LimitKind> for guest::on_limit::Limit {
    fn from(limit: LimitKind) -> Self {
        match limit {
            LimitKind::Turns => Self::Turns,
            // What was released of the contract is frozen; both are what tokens there are.
            LimitKind::Tokens | LimitKind::Money | LimitKind::Context => Self::Tokens,
            LimitKind::Seconds => Self::Seconds,
            LimitKind::FormatErrors => Self::FormatErrors,
        }
    }
}

impl From<guest::on_model_call::Effect> for NoteOrStop {
    fn from(effect: guest::on_model_call::Effect) -> Self {
        match effect {
            guest::on_model_call::Effect::Note(text) => Self::Note(text),
            guest::on_model_call::Effect::Stop(reason) => Self::Stop(reason),
        }
    }
}

impl From<guest::on_loop::Effect> for NoteOrStop {
    fn from(effect: guest::on_loop::Effect) -> Self {
        match effect {
            guest::on_loop::Effect::Note(text) => Self::Note(text),
            guest::on_loop::Effect::Stop(reason) => Self::Stop(reason),
        }
    }
}

impl From<guest::on_tool_result::Effect> for AnnotateOrReplace {
    fn from(effect: guest::on_tool_result::Effect) -> Self {
        match effect {
            guest::on_tool_result::Effect::Annotate(text) => Self::Annotate(text),
            guest::on_tool_result::Effect::Replace(text) => Self::Replace(text),
        }
    }
}

impl TryFrom<guest::on_tool_call::Effect> for RewriteOrRefuse {
    type Error = PluginFault;

    fn try_from(effect: guest::on_tool_call::Effect) -> Result<Self, PluginFault> {
        match effect {
            guest::on_tool_call::Effect::Rewrite(json) => {
                Ok(Self::Rewrite(json_object("the rewritten arguments", &json)?))
            }
            guest::on_tool_call::Effect::Refuse(reason) => Ok(Self::Refuse(reason)),
        }
    }
}

impl TryFrom<guest::tools::ToolDefinition> for ToolDefinition {
    type Error = PluginFault;

    fn try_from(tool: guest::tools::ToolDefinition) -> Result<Self, PluginFault> {
        let what = format!("the input schema of the tool `{}`", spelled(&tool.name, 80));
        Ok(Self {
            input_schema: json_object(&what, &tool.input_schema)?,
            name: tool.name,
            description: tool.description,
        })
    }
}

impl TryFrom<guest::tools::ToolOutput> for ToolOutput {
    type Error = PluginFault;

    fn try_from(output: guest::tools::ToolOutput) -> Result<Self, PluginFault> {
        let content = output.content.into_iter().map(|block| match block {
            guest::tools::Content::Text(text) => Content::Text(text),
            guest::tools::Content::Image(image) => {
                Content::Image(Image { media_type: image.media_type, data: image.data })
            }
        });
        let structured = output.structured.map(|json| {
            let what = "its structured answer";
            within_json_cap(what, &json)?;
            serde_json::from_str(&json)
                .map_err(|error| PluginFault::WrongValue { what: format!("{what} is not JSON: {error}") })
        });
        Ok(Self {
            content: content.collect(),
            structured: structured.transpose()?,
            is_error: output.is_error,
        })
    }
}

/// Refuses JSON that is too long to be parsed.
fn within_json_cap(what: &str, json: &str) -> Result<(), PluginFault> {
    match json.len() {
        len if len > JSON_BYTES => Err(PluginFault::WrongValue {
            what: format!("{what}: {len} bytes of JSON, limit {JSON_BYTES} bytes"),
        }),
        _ => Ok(()),
    }
}

/// Parses what has to be a JSON object.
fn json_object(what: &str, json: &str) -> Result<serde_json::Value, PluginFault> {
    let wrong = |why: &dyn std::fmt::Display| PluginFault::WrongValue {
        what: format!("{what} should be a JSON object: {why}"),
    };
    within_json_cap(what, json)?;
    let value: serde_json::Value = serde_json::from_str(json).map_err(|error| wrong(&error))?;
    match value.is_object() {
        true => Ok(value),
        false => Err(wrong(&"it is another JSON value")),
    }
}

impl From<WorkspaceError> for host::workspace_types::WorkspaceError {
    fn from(error: WorkspaceError) -> Self {
        match error {
            WorkspaceError::NotFound(what) => Self::NotFound(what),
            WorkspaceError::Denied(what) => Self::Denied(what),
            WorkspaceError::TooLarge(what) => Self::TooLarge(what),
            WorkspaceError::Failed(what) => Self::Failed(what),
        }
    }
}
