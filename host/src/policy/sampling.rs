//! How a reply is sampled.

use serde::{Deserialize, Serialize};

/// Sampling parameters of one session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Sampling {
    /// 1 by default, as the importance ratios of training need; 0 takes the likeliest token.
    pub temperature: f32,
    /// Most tokens of one reply.
    pub max_tokens: usize,
    /// Texts that end a reply as soon as they appear; they stay part of it.
    pub stop: Vec<String>,
}

impl Default for Sampling {
    fn default() -> Self {
        Self { temperature: 1.0, max_tokens: 256, stop: Vec::new() }
    }
}

/// Why a reply ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FinishReason {
    /// End-of-turn token or stop text.
    #[default]
    Stop,
    /// The token limit of the reply.
    Length,
}
