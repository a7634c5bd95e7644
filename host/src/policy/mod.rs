//! What answers a model call? The trait, and the policies that need no trainer.

mod http;
#[cfg(test)]
mod http_tests;
mod message;
mod price;
mod sampling;
mod scripted;

pub use http::{HttpConfig, HttpPolicy, message_of, root_message};
pub use message::{Message, Origin, Piece, Role, ToolCall};
pub use price::{Price, TokenUsage};
pub use sampling::{FinishReason, Sampling};
pub use scripted::{Script, ScriptError, ScriptedPolicy};

use async_trait::async_trait;

use crate::store::Digest;

/// A model that episodes can talk to. The local policy of the program, an HTTP
/// endpoint and a script are all one of these.
#[async_trait]
pub trait Policy: Send + Sync {
    /// Opens the token stream of one episode. `tools` are offered to the model
    /// if the policy speaks native tool calls; the text protocol passes none.
    async fn open(&self, request: OpenSession) -> Result<Box<dyn Session>, PolicyError>;

    /// The version that a session opened now would sample from.
    fn version(&self) -> u64;

    /// A name for people and records, such as `smollm2-135m`.
    fn name(&self) -> String;

    /// What its tokens cost: nothing, unless it says so. None when it costs, and nobody said how much.
    fn price(&self) -> Option<Price> {
        Some(Price::default())
    }

    /// Tokens that a conversation may have, replies included, where that is known.
    fn context(&self) -> Option<u64> {
        None
    }

    /// Why no session will ever get a reply again, once that is so: episodes end then, instead of failing one
    /// after the other.
    fn lost(&self) -> Option<String> {
        None
    }
}

/// What a session is opened with.
#[derive(Clone, Debug)]
pub struct OpenSession {
    /// Which episode asks; a scripted policy answers by it.
    pub episode: String,
    /// The task's name; likewise.
    pub task: String,
    /// Seed of the episode's sampling; the same seed, prompt and version give the same reply.
    pub seed: u64,
    /// The harness that wrote the prompt: what a policy keeps of a prompt is shared between episodes of one
    /// harness only. None where there is no harness.
    pub harness: Option<Digest>,
    /// How to sample.
    pub sampling: Sampling,
    /// JSON-Schema tool definitions in the OpenAI function shape; empty for the text protocol.
    pub tools: Vec<serde_json::Value>,
    /// Replies that this episode had before. More than 0 when its history was shortened: the first
    /// messages of the session then hold what is left of it, replies included.
    pub after: usize,
}

/// One episode's conversation with a policy version.
///
/// Token-in, token-out: the session owns the ids; text is a view. `reply` is
/// given only what is new since the last call, so nothing that was sampled can
/// be tokenised again.
#[async_trait]
pub trait Session: Send {
    /// Appends `new` messages and samples a reply.
    async fn reply(&mut self, new: &[Message]) -> Result<Reply, PolicyError>;
}

/// One sampled reply.
#[derive(Clone, Debug, Default)]
pub struct Reply {
    /// What the model wrote, without end-of-turn tokens.
    pub text: String,
    /// Native tool calls, for policies that have them; empty in the text protocol.
    pub tool_calls: Vec<ToolCall>,
    /// Why it stopped.
    pub finish: FinishReason,
    /// Ids that the host put before the reply since the last one (loss mask 0).
    /// Empty when the policy does not tell ids.
    pub prompt_ids: Vec<u32>,
    /// Sampled ids, end-of-turn included (loss mask 1). Empty when not told.
    pub ids: Vec<u32>,
    /// Log-probability of each of `ids` under the distribution sampled from.
    pub logprobs: Vec<f32>,
    /// The version that sampled it.
    pub policy_version: u64,
    /// Tokens as the endpoint counted them, where it says so.
    pub usage: Option<TokenUsage>,
}

/// Why a policy could not answer. An episode that ends with [`Self::Failed`] is
/// invalid, never unsolved; a context that the policy filled itself is a limit.
#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    /// The conversation is longer than the model's context.
    #[error("the conversation has {used} tokens and the context of `{policy}` holds {limit}")]
    ContextFull { policy: String, used: usize, limit: usize },
    /// The model or its endpoint failed.
    #[error("policy `{policy}` failed: {reason}")]
    Failed { policy: String, reason: String },
}
