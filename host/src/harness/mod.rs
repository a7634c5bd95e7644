//! Which plugins serve an episode, in which order, and what did they do?

mod effects;
mod generation;
mod hooks;
mod manifest;

pub use effects::{
    Budget, Context, Effect, EffectKind, Fault, HookPoint, LimitKind, PatchCandidate, PatchSource,
    Submission, ToolResult, ToolStatus, Usage, WorkTree,
};
pub use generation::{Generation, Generations, Lease};
pub use hooks::{EpisodeHooks, ModelCallEffect, SubmitEffect, ToolCallEffect, ToolDefinition};
pub use manifest::{CONTRACT, HarnessManifest, Limits, PluginEntry, Prompts, Protocol};
