//! What goes into a plugin and what comes out, as the host sees it. The types that really
//! cross are generated from `wit/` and stay in `bindings`.

use serde::{Deserialize, Serialize, Serializer};

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

    /// The point with this name in `wit/`.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|point| point.name() == name)
    }

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

/// The budget of an episode. Seconds are virtual.
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
    /// The contract has no word of its own for this one: `on-limit` is told `tokens`.
    Money,
    /// The conversation no longer fits into the policy's context. `on-limit` is told `tokens`.
    Context,
}

impl LimitKind {
    /// For people: what there is no more of.
    pub fn name(self) -> &'static str {
        match self {
            Self::Turns => "turns",
            Self::Tokens => "tokens",
            Self::Seconds => "seconds",
            Self::FormatErrors => "format errors",
            Self::Money => "money",
            Self::Context => "context",
        }
    }
}

/// What kept the output of the policy from being parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FormatError {
    NoAction,
    SeveralActions,
    UnknownTool,
    BadArguments,
    CutOff,
}

/// What the policy repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Repetition {
    /// The same call with the same result, 4 times.
    SameCall,
    /// The same error, 3 times.
    SameError,
    /// Two calls in turn, 6 times.
    Alternating,
    /// Output without an action, 3 times.
    NoAction,
}

/// A tool that a plugin brought.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolDefinition {
    pub name: String,
    pub description: String,
    /// JSON Schema of the arguments, an object at the top.
    pub input_schema: serde_json::Value,
}

/// What a plugin's tool answered: the result shape of the Model Context Protocol.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ToolOutput {
    pub content: Vec<Content>,
    pub structured: Option<serde_json::Value>,
    pub is_error: bool,
}

/// A content block of the Model Context Protocol.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Content {
    Text(String),
    Image(Image),
}

/// An image; written as JSON it shows size and digest instead of the data.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Image {
    pub media_type: String,
    #[serde(serialize_with = "size_and_digest")]
    pub data: Vec<u8>,
}

fn size_and_digest<S: Serializer>(data: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("{} bytes, {}", data.len(), Digest::of(data)))
}

/// What a plugin answered to `on-model-call` or `on-loop`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum NoteOrStop {
    Note(String),
    Stop(String),
}

/// What a plugin answered to `on-tool-call`. The rewritten arguments are a JSON object.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RewriteOrRefuse {
    Rewrite(serde_json::Value),
    Refuse(String),
}

/// What a plugin answered to `on-tool-result`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum AnnotateOrReplace {
    Annotate(String),
    Replace(String),
}
