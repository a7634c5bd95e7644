//! What is kept of an episode. One type, one writer, one reader.

use serde::{Deserialize, Serialize};

use super::spent::Spent;
use crate::harness::{Effect, Fault, LimitKind, PatchSource};
use crate::policy::{FinishReason, Message};
use crate::store::Digest;

/// Solved, unsolved, or no verdict. An invalid episode never enters an advantage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "outcome", content = "cause")]
pub enum Outcome {
    Solved,
    Unsolved,
    Invalid(InvalidCause),
}

/// Trouble that the policy could not have caused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum InvalidCause {
    /// The workspace could not be made or broke down.
    Workspace,
    /// The policy or its endpoint failed.
    Policy,
    /// The verifier could not start, or left no reward.
    Verifier,
    /// The harness could not be used: a prompt that is no template.
    Harness,
    /// The program was asked to stop.
    Cancelled,
}

/// How the loop ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Exit {
    /// The policy handed in.
    Submitted,
    /// A limit ended it; `salvaged` when a hook handed in the work tree.
    Limit { limit: LimitKind, salvaged: bool },
    /// A hook stopped it.
    Stopped { plugin: Digest, reason: String },
    /// Infrastructure trouble; the sentence says what and what to do.
    Failed { cause: InvalidCause, reason: String },
}

/// A stretch of tokens with nothing rewritten inside: the training input.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Segment {
    pub ids: Vec<u32>,
    /// True where the policy sampled the token.
    pub mask: Vec<bool>,
    /// Log-probability of the sampler; 0 where `mask` is false.
    pub logprobs: Vec<f32>,
}

/// One model call with the results that follow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TurnRecord {
    /// Messages that the host put before this reply, hook text named in its pieces.
    pub input: Vec<Message>,
    /// What the policy wrote.
    pub reply: Message,
    pub policy_version: u64,
    pub sampled_tokens: u64,
    /// Tokens of the whole conversation before the reply; an estimate where the policy tells none.
    #[serde(default)]
    pub prompt_tokens: u64,
    /// What the call cost, in the currency of the policy's price.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub cost: f64,
    /// What was left out of the history before this reply, with which a new segment begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub condensed: Option<Condensed>,
    /// Why the reply ended.
    #[serde(default)]
    pub finish: FinishReason,
    /// Commands that were run, after rewriting, with exit code and raw length of the result.
    pub calls: Vec<CallRecord>,
}

/// Turns of the history that a summary stands for from here on. They stay in the record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Condensed {
    /// First and last of them, counted from 1.
    pub from: u32,
    pub to: u32,
    pub summary: String,
}

fn is_nothing(cost: &f64) -> bool {
    *cost == 0.0
}

/// One executed or refused tool call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CallRecord {
    pub name: String,
    pub arguments: serde_json::Value,
    pub result: crate::harness::ToolResult,
    pub seconds: f64,
}

/// Everything that is kept of one episode.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EpisodeRecord {
    /// Unique in the run; the same work asked for again has the same id.
    pub id: String,
    pub task: String,
    pub seed: u64,
    pub policy: String,
    pub policy_version: u64,
    pub harness: Digest,
    pub turns: Vec<TurnRecord>,
    pub segments: Vec<Segment>,
    pub effects: Vec<Effect>,
    pub faults: Vec<Fault>,
    pub exit: Exit,
    /// Which candidate was handed in; none when nothing was.
    pub patch_source: Option<PatchSource>,
    /// The patch that was verified. Bytes, since work trees are not always UTF-8.
    #[serde(with = "patch_bytes")]
    pub patch: Vec<u8>,
    /// State of the work tree at the end, for diagnosis.
    pub work_tree: crate::harness::WorkTree,
    /// Whether the text that the policy handed in applies; none when it handed in nothing.
    pub submitted_applies: Option<bool>,
    pub outcome: Outcome,
    /// Wall-clock seconds, for people; nothing is decided by it.
    pub seconds: f64,
    /// What it used up, beside its limits.
    #[serde(default)]
    pub spent: Spent,
}

/// Patches as text where they are UTF-8, as hexadecimal digits behind a mark where not.
mod patch_bytes {
    use serde::{Deserialize, Deserializer, Serializer};

    const MARK: &str = "hex:";

    pub fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        match std::str::from_utf8(bytes) {
            Ok(text) if !text.starts_with(MARK) => serializer.serialize_str(text),
            _ => serializer.serialize_str(&format!("{MARK}{}", hex::encode(bytes))),
        }
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        let text = String::deserialize(deserializer)?;
        match text.strip_prefix(MARK) {
            Some(digits) => hex::decode(digits).map_err(serde::de::Error::custom),
            None => Ok(text.into_bytes()),
        }
    }
}
