//! What the plugins did, for the record of an episode.

use serde::{Deserialize, Serialize};

pub use crate::plugin::{
    Budget, Context, FormatError, HookPoint, LimitKind, PatchCandidate, PatchSource, Repetition, Submission,
    ToolResult, ToolStatus, Usage, WorkTree,
};
use crate::store::Digest;

/// What a hook did, for the record of the episode (contract rule 6).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Effect {
    pub plugin: Digest,
    /// The plugin's name in the harness manifest.
    pub name: String,
    pub point: HookPoint,
    pub turn: u32,
    pub kind: EffectKind,
    /// The text that it put in, if any.
    pub text: String,
}

/// The kinds of effect, over all points.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EffectKind {
    Note,
    Stop,
    Rewrite,
    Refuse,
    Annotate,
    Replace,
    Defer,
    Choose,
    Salvage,
    ToolCall,
    Log,
}

impl EffectKind {
    /// The word in [`crate::policy::Origin::Hook`].
    pub fn name(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Stop => "stop",
            Self::Rewrite => "rewrite",
            Self::Refuse => "refuse",
            Self::Annotate => "annotate",
            Self::Replace => "replace",
            Self::Defer => "defer",
            Self::Choose => "choose",
            Self::Salvage => "salvage",
            Self::ToolCall => "tool-call",
            Self::Log => "log",
        }
    }
}

/// A plugin fault: never a decision (contract rule 3).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    pub plugin: Digest,
    pub name: String,
    pub point: HookPoint,
    pub turn: u32,
    /// One sentence: what happened, with both numbers when a limit was hit.
    pub reason: String,
    /// True when this fault put the plugin out for the rest of the episode.
    pub barred: bool,
}
