//! Which plugins serve an episode, in which order, and what did they do?

mod cut;
mod effects;
mod error;
#[cfg(test)]
mod fuzz;
mod generation;
mod hooks;
mod manifest;
#[cfg(test)]
mod rules;
#[cfg(test)]
mod testkit;
#[cfg(test)]
mod tests;

pub use cut::cut;
pub use effects::{
    Budget, Context, Effect, EffectKind, Fault, FormatError, HookPoint, LimitKind, PatchCandidate,
    PatchSource, Repetition, Submission, ToolResult, ToolStatus, Usage, WorkTree,
};
pub use error::HarnessError;
pub use generation::{Generation, Generations, Lease};
pub use hooks::{EpisodeHooks, ModelCallEffect, SubmitEffect, ToolCallEffect};
pub use manifest::{CONTRACT, HarnessManifest, Limits, PluginEntry, Prompts, Protocol};

pub use crate::plugin::ToolDefinition;
