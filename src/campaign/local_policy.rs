//! How does an episode talk to a policy of our own? Joins the host's [`Policy`]
//! to the trainer's generator: the session owns the token ids, text is a view.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Result;
use async_trait::async_trait;
use tandem_host::policy::{
    FinishReason, Message, OpenSession, Policy, PolicyError, Reply, Role, Sampling, Session,
};
use tandem_host::store::Digest;
use tandem_trainer::generate::{Finish, GenerateError, Generator, SampleRequest, Sequence, stop_at_texts};
use tandem_trainer::tokenizer::{ChatMessage, ChatRole, ChatTemplate, Tokenizer};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// A policy on this machine.
pub struct LocalPolicy {
    name: String,
    generator: Generator,
    tokenizer: Arc<Tokenizer>,
    chat: Arc<ChatTemplate>,
    version: AtomicU64,
    /// Sessions beyond the generator's slots wait here; phases that overlap share it.
    slots: Arc<Semaphore>,
}

impl LocalPolicy {
    pub fn new(
        name: String,
        generator: Generator,
        tokenizer: Arc<Tokenizer>,
        chat: Arc<ChatTemplate>,
        version: u64,
        slots: usize,
    ) -> Self {
        let slots = Arc::new(Semaphore::new(slots));
        Self { name, generator, tokenizer, chat, version: AtomicU64::new(version), slots }
    }

    /// The ids of a first prompt of `messages`, as an episode would have them.
    pub fn prompt_ids(&self, messages: &[Message]) -> Result<Vec<u32>> {
        let messages: Vec<_> = messages.iter().map(chat_message).collect();
        Ok(self.chat.first(&messages)?)
    }

    /// Says which version the generator serves from now on.
    pub fn set_version(&self, version: u64) {
        self.version.store(version, Ordering::SeqCst);
    }
}

#[async_trait]
impl Policy for LocalPolicy {
    async fn open(&self, request: OpenSession) -> Result<Box<dyn Session>, PolicyError> {
        let permit = self.slots.clone().acquire_owned().await.map_err(|_| PolicyError::Failed {
            policy: self.name.clone(),
            reason: "the generator is closed".into(),
        })?;
        let sequence = self
            .generator
            .open()
            .map_err(|error| PolicyError::Failed { policy: self.name.clone(), reason: error.to_string() })?;
        Ok(Box::new(LocalSession {
            name: self.name.clone(),
            sequence,
            _permit: permit,
            tokenizer: self.tokenizer.clone(),
            chat: self.chat.clone(),
            sampling: request.sampling,
            seed: request.seed,
            salt: salt(request.harness),
            before: request.after as u64,
            turn: 0,
            ended_by_eos: true,
        }))
    }

    fn version(&self) -> u64 {
        self.version.load(Ordering::SeqCst)
    }

    fn name(&self) -> String {
        self.name.clone()
    }

    fn context(&self) -> Option<u64> {
        Some(self.generator.context() as u64)
    }

    fn lost(&self) -> Option<String> {
        self.generator.ended()
    }
}

/// The first bytes of a harness digest; the version needs no part in it, since new weights forget all.
fn salt(harness: Option<Digest>) -> u64 {
    harness.and_then(|digest| digest.bytes().first_chunk().copied()).map_or(0, u64::from_be_bytes)
}

struct LocalSession {
    name: String,
    // Fields drop in order: the slot is free before the next session is let in.
    sequence: Sequence,
    _permit: OwnedSemaphorePermit,
    tokenizer: Arc<Tokenizer>,
    chat: Arc<ChatTemplate>,
    sampling: Sampling,
    seed: u64,
    salt: u64,
    /// Replies of the episode before this session.
    before: u64,
    turn: u64,
    /// Whether the newest reply ended with the end-of-turn token; if not, the host adds it.
    ended_by_eos: bool,
}

#[async_trait]
impl Session for LocalSession {
    async fn reply(&mut self, new: &[Message]) -> Result<Reply, PolicyError> {
        let messages: Vec<_> = new.iter().map(chat_message).collect();
        let rendered = match self.turn {
            0 => self.chat.first(&messages),
            _ => self.chat.suffix(&messages, self.ended_by_eos),
        };
        let prompt_ids = rendered.map_err(|error| self.failed(&error))?;
        let end_ids = self.chat.end_ids();
        let (send, receive) = tokio::sync::oneshot::channel();
        self.sequence.sample(
            SampleRequest {
                append: prompt_ids.clone(),
                max_tokens: self.sampling.max_tokens,
                temperature: self.sampling.temperature,
                // A seed of its own for each turn; the constant is the golden ratio in 64 bits.
                seed: self.seed.wrapping_add((self.before + self.turn).wrapping_mul(0x9e37_79b9_7f4a_7c15)),
                salt: self.salt,
                end_ids: end_ids.clone(),
                stop: stop_at_texts(&self.sampling.stop, &self.tokenizer),
                // Nothing is left out of the distribution: importance ratios need all of it.
                ..SampleRequest::default()
            },
            Box::new(move |sampled| {
                // The episode may have been cancelled; then nobody waits.
                let _ = send.send(sampled);
            }),
        );
        let sampled = receive.await.map_err(|_| self.failed(&"the generator stopped"))?;
        let sampled = sampled.map_err(|error| match error {
            GenerateError::ContextFull { used, limit } => {
                PolicyError::ContextFull { policy: self.name.clone(), used, limit }
            }
            other => self.failed(&other),
        })?;
        self.turn += 1;
        self.ended_by_eos = sampled.ids.last().is_some_and(|last| end_ids.contains(last));
        let content =
            if self.ended_by_eos { &sampled.ids[..sampled.ids.len() - 1] } else { &sampled.ids[..] };
        Ok(Reply {
            text: self.tokenizer.decode(content).map_err(|error| self.failed(&error))?,
            tool_calls: Vec::new(),
            finish: match sampled.finish {
                Finish::Stop => FinishReason::Stop,
                Finish::Length => FinishReason::Length,
            },
            prompt_ids,
            ids: sampled.ids,
            logprobs: sampled.logprobs,
            policy_version: sampled.version,
            usage: None,
        })
    }
}

impl LocalSession {
    fn failed(&self, reason: &dyn std::fmt::Display) -> PolicyError {
        PolicyError::Failed { policy: self.name.clone(), reason: reason.to_string() }
    }
}

fn chat_message(message: &Message) -> ChatMessage {
    ChatMessage::new(chat_role(message.role), message.text())
}

/// A role of the host as the trainer names it.
pub(super) fn chat_role(role: Role) -> ChatRole {
    match role {
        Role::System => ChatRole::System,
        Role::User => ChatRole::User,
        Role::Assistant => ChatRole::Assistant,
        Role::Tool => ChatRole::Tool,
    }
}
