//! One plugin: is it admitted, and what does it answer when it is called?

mod admission;
mod bindings;
#[cfg(test)]
mod bombs;
mod canary;
mod capabilities;
mod check;
mod clock;
mod code_cache;
mod compile;
mod contract;
mod engine;
#[cfg(test)]
mod engine_tests;
mod fault;
mod function_cache;
#[cfg(test)]
mod fuzz;
mod grants;
#[cfg(test)]
mod hostile;
#[cfg(test)]
mod hostile_values;
mod instance;
mod json;
mod limits;
mod meters;
mod no_workspace;
mod points;
#[cfg(test)]
mod rules;
mod settings;
mod state;
#[cfg(test)]
pub(crate) mod testkit;
#[cfg(test)]
mod tests;
mod wasi;
mod workspace_access;

pub(crate) use admission::with_settings;
pub use admission::{AdmissionError, AdmissionOptions, Admitted, Step, admit};
pub use canary::CanaryCall;
pub use check::{Report, RunError, RunOutput, RunPoint, admit_as_asked, check, run_point};
pub use code_cache::{CodeCache, CodeCacheError};
pub use compile::{CompileCaps, CompileIn, compile_child};
pub use engine::{Engine, EngineConfig, EngineError};
pub use fault::PluginFault;
pub use grants::{Capability, Grants, UnknownGrant};
pub use instance::{Instance, InstanceConfig};
pub use json::{CallError, InputError, call_json, sample};
pub use limits::PluginLimits;
pub use no_workspace::NoWorkspace;
pub use points::{
    AnnotateOrReplace, Budget, Content, Context, FormatError, HookPoint, Image, LimitKind, NoteOrStop,
    PatchCandidate, PatchSource, Repetition, RewriteOrRefuse, Submission, ToolDefinition, ToolOutput,
    ToolResult, ToolStatus, Usage, WorkTree,
};
pub use settings::SettingsSchema;
pub use state::LogLine;
pub use workspace_access::{ExecOutput, SearchHit, WorkspaceAccess, WorkspaceEntry, WorkspaceError};
