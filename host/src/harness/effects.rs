//! What goes into a hook and what comes out, as the agent loop and the records
//! see it. The types that cross into a plugin are generated from `wit/` and live
//! in the room `plugin`.

use serde::{Deserialize, Serialize};

use crate::store::Digest;

/// The hook points and the tools interface of the contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HookPoint {
    Tools,
    OnEpisodeStart,
    OnModelCall,
    OnFormatError,
    OnToolCall,
    OnToolResult,
    OnLoop,
    OnSubmit,
    OnChoosePatch,
    OnLimit,
    Observe,
}

impl HookPoint {
    /// All of them, in the order of the contract.
    pub const ALL: [Self; 11] = [
        Self::Tools,
        Self::OnEpisodeStart,
        Self::OnModelCall,
        Self::OnFormatError,
        Self::OnToolCall,
        Self::OnToolResult,
        Self::OnLoop,
        Self::OnSubmit,
        Self::OnChoosePatch,
        Self::OnLimit,
        Self::Observe,
    ];

    /// The interface's name in `wit/`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::OnEpisodeStart => "on-episode-start",
            Self::OnModelCall => "on-model-call",
            Self::OnFormatError => "on-format-error",
            Self::OnToolCall => "on-tool-call",
            Self::OnToolResult => "on-tool-result",
            Self::OnLoop => "on-loop",
            Self::OnSubmit => "on-submit",
            Self::OnChoosePatch => "on-choose-patch",
            Self::OnLimit => "on-limit",
            Self::Observe => "observe",
        }
    }
}

/// How much of a resource is used, and its limit if it has one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    pub used: u64,
    pub limit: Option<u64>,
}

/// The budget of an episode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Budget {
    pub turns: Usage,
    pub tokens: Usage,
    pub seconds: Usage,
}

/// Where in the episode a hook is called. Turns count from 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Context {
    pub turn: u32,
    pub budget: Budget,
    /// Virtual time: milliseconds since the episode started, as recorded.
    pub now_ms: u64,
}

/// How a tool call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ToolStatus {
    Finished,
    Failed,
    TimedOut,
    Refused,
}

/// What the policy is about to be shown of a tool call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolResult {
    pub status: ToolStatus,
    pub exit_code: Option<i32>,
    pub text: String,
    /// Bytes of output before the model-visible cap.
    pub raw_bytes: u64,
}

/// The work tree against the base commit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkTree {
    pub changed: Vec<String>,
    pub untracked: Vec<String>,
}

/// Where a patch came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PatchSource {
    Submitted,
    WorkTree,
}

/// One patch that could be handed in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PatchCandidate {
    pub source: PatchSource,
    pub bytes: u64,
    pub files: Vec<String>,
    pub applies: bool,
}

/// What the policy hands in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Submission {
    pub patch: PatchCandidate,
    pub work_tree: WorkTree,
    pub deferrals: u32,
}

/// Which limit ended an episode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LimitKind {
    Turns,
    Tokens,
    Seconds,
    FormatErrors,
}

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
