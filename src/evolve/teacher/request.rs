//! What is a teacher asked, and what does it answer? One type each, for every kind of teacher.

use std::fmt;

use serde::{Deserialize, Serialize};
use tandem_host::policy::{self, Price};
use tandem_host::store::Digest;

use super::tokens;

/// What a teacher is asked to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum TeacherRole {
    /// Tools and hooks.
    Harness,
    /// A short text for one task.
    Skill,
}

impl TeacherRole {
    /// The name in the campaign file and in records.
    pub fn name(self) -> &'static str {
        match self {
            Self::Harness => "harness",
            Self::Skill => "skill",
        }
    }
}

impl fmt::Display for TeacherRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A reply that could not be used, and what the teacher was told about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Repair {
    pub reply: String,
    /// The rendered text of the next request.
    pub reason: String,
}

/// One request. Replies and reasons alternate after the first text, so that no
/// other order can be written down.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TeacherRequest {
    pub role: TeacherRole,
    pub system: String,
    pub user: String,
    #[serde(default)]
    pub repairs: Vec<Repair>,
}

impl TeacherRequest {
    /// SHA-256 of the request as JSON, by which a recorded exchange is found.
    pub fn digest(&self) -> Digest {
        Digest::of(self.to_json().as_bytes())
    }

    /// The request as the `command` kind reads it.
    pub fn to_json(&self) -> String {
        // Strings and a unit variant: nothing here can fail to be JSON.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// The conversation after the system text: (`user` or `assistant`, text).
    pub fn turns(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let first = [("user", self.user.as_str())];
        let repairs = self.repairs.iter();
        let repairs = repairs.flat_map(|r| [("assistant", r.reply.as_str()), ("user", r.reason.as_str())]);
        first.into_iter().chain(repairs)
    }

    /// Upper estimate of the prompt's tokens.
    pub fn estimated_tokens(&self) -> u64 {
        // Some tokens a message for the chat template's marks.
        let texts = self.turns().map(|(_, text)| text).chain([self.system.as_str()]);
        texts.map(|text| tokens::estimate(text) as u64 + 8).sum()
    }

    /// The same request after a reply that could not be used.
    pub fn repaired(&self, reply: &str, reason: String) -> Self {
        let mut next = self.clone();
        next.repairs.push(Repair { reply: reply.to_owned(), reason });
        next
    }
}

/// Why a reply ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Finish {
    #[default]
    End,
    /// The limit of tokens.
    Length,
    /// The endpoint says that the model declined, or a filter did.
    Refusal,
}

/// What an exchange used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenUsage {
    pub prompt: u64,
    pub reply: u64,
    /// The endpoint did not tell; these are upper estimates.
    #[serde(default)]
    pub estimated: bool,
}

impl TokenUsage {
    /// What it cost.
    pub fn cost(&self, price: &Price) -> f64 {
        price.of(policy::TokenUsage { prompt: self.prompt, reply: self.reply })
    }
}

/// One reply.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TeacherReply {
    pub text: String,
    #[serde(default)]
    pub finish: Finish,
    #[serde(default)]
    pub usage: TokenUsage,
}

impl TeacherReply {
    /// A reply whose usage nobody told.
    pub fn estimated(request: &TeacherRequest, text: String, finish: Finish) -> Self {
        let reply = tokens::estimate(&text) as u64;
        let usage = TokenUsage { prompt: request.estimated_tokens(), reply, estimated: true };
        Self { text, finish, usage }
    }
}
