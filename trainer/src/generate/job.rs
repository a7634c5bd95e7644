//! What is asked of the generator, and what comes back?

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rand::SeedableRng;
use rand::rngs::StdRng;

use super::GenerateError;

/// Decides after each token, from all ids sampled so far, whether the reply is over.
pub type StopWhen = Arc<dyn Fn(&[u32]) -> bool + Send + Sync>;

/// Sees each token as it is sampled. It is called on the worker's thread, so it should only
/// hand the token on.
pub type OnToken = Arc<dyn Fn(SampledToken) + Send + Sync>;

/// One token of a reply.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SampledToken {
    pub id: u32,
    /// As in [`Sampled::logprobs`].
    pub logprob: f32,
}

/// Ends a request from outside; clones end the same one.
#[derive(Clone, Debug, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// The request ends before the next step of the generator, with
    /// [`GenerateError::Cancelled`]; its sequence is as it was before. Nothing happens to one
    /// that is over.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Release);
    }

    pub(super) fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// A reply to be sampled. The default asks for one token at temperature 1 after what the
/// sequence holds.
#[derive(Clone)]
pub struct SampleRequest {
    /// Tokens that come after what the sequence holds already.
    pub append: Vec<u32>,
    /// Most tokens of the reply, at least 1.
    pub max_tokens: usize,
    /// What logits are divided by; 0 takes the likeliest token.
    pub temperature: f32,
    /// Only this many of the likeliest tokens can come; 0 for all. After temperature.
    pub top_k: usize,
    /// Only the fewest likeliest tokens that together have this probability, over 0 and at most
    /// 1, can come. After temperature and `top_k`.
    pub top_p: f32,
    /// The same seed, tokens and weights give the same reply, whatever else is running.
    pub seed: u64,
    /// What is computed of a prompt is shared between requests of the same salt only.
    pub salt: u64,
    /// Tokens that end the reply; the one sampled is part of it.
    pub end_ids: Vec<u32>,
    /// Another condition that ends the reply; the token that met it is part of it.
    pub stop: Option<StopWhen>,
    /// Sees the tokens one by one.
    pub on_token: Option<OnToken>,
    /// Ends the request from outside.
    pub cancel: Cancel,
}

impl Default for SampleRequest {
    fn default() -> Self {
        Self {
            append: Vec::new(),
            max_tokens: 1,
            temperature: 1.0,
            top_k: 0,
            top_p: 1.0,
            seed: 0,
            salt: 0,
            end_ids: Vec::new(),
            stop: None,
            on_token: None,
            cancel: Cancel::default(),
        }
    }
}

impl SampleRequest {
    /// Refuses what cannot be drawn from.
    pub(super) fn check(&self) -> Result<(), GenerateError> {
        let bad = |name, value: f32, wanted| {
            Err(GenerateError::BadSampling { name, value: value.to_string(), wanted })
        };
        if !(self.temperature.is_finite() && self.temperature >= 0.0) {
            return bad("temperature", self.temperature, "0 or a positive number");
        }
        if !(self.top_p > 0.0 && self.top_p <= 1.0) {
            return bad("top_p", self.top_p, "a number over 0 and at most 1");
        }
        if self.max_tokens == 0 {
            return Err(GenerateError::EmptyRequest { reason: "a reply of 0 tokens was asked for" });
        }
        Ok(())
    }
}

/// A sampled reply.
#[derive(Clone, Debug, PartialEq)]
pub struct Sampled {
    /// The reply, with the token that ended it.
    pub ids: Vec<u32>,
    /// Log-probability of each of `ids` under the distribution it was drawn from: after
    /// temperature, top-k and top-p, with what is left made to add up to 1. With temperature 0,
    /// where nothing is drawn: under the policy's own distribution.
    pub logprobs: Vec<f32>,
    pub finish: Finish,
    /// The version of the weights that sampled all of it.
    pub version: u64,
}

/// Why a reply ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    /// One of the end tokens, or the stop condition.
    Stop,
    /// `max_tokens`, or the end of the context.
    Length,
}

/// Gives a result to whoever waits for it, exactly once: also when it is dropped.
pub(super) struct Reply(Option<Box<dyn FnOnce(Result<Sampled, GenerateError>) + Send>>);

impl Reply {
    pub fn new(done: Box<dyn FnOnce(Result<Sampled, GenerateError>) + Send>) -> Self {
        Self(Some(done))
    }

    pub fn send(mut self, result: Result<Sampled, GenerateError>) {
        self.deliver(result);
    }

    fn deliver(&mut self, result: Result<Sampled, GenerateError>) {
        if let Some(done) = self.0.take() {
            // A receiver's panic is its own matter and must not end the worker.
            let delivered = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| done(result)));
            if delivered.is_err() {
                tracing::error!("what was to receive a sampled reply panicked");
            }
        }
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        self.deliver(Err(GenerateError::Stopped));
    }
}

/// A request that is being worked on.
pub(super) struct Job {
    pub sequence: u64,
    /// The whole sequence with the request's tokens.
    pub prompt: Vec<u32>,
    /// Of whose prompts it may share what is computed.
    pub salt: u64,
    /// Whether its slot holds all of it that can be copied from others.
    pub placed: bool,
    pub temperature: f32,
    pub top_k: usize,
    pub top_p: f32,
    pub random: StdRng,
    pub ids: Vec<u32>,
    logprobs: Vec<f32>,
    max_tokens: usize,
    end_ids: Vec<u32>,
    stop: Option<StopWhen>,
    on_token: Option<OnToken>,
    cancel: Cancel,
    reply: Reply,
}

impl Job {
    /// `before` is what the sequence holds; `context` is the most tokens it may hold.
    pub fn new(sequence: u64, before: &[u32], context: usize, request: SampleRequest, reply: Reply) -> Self {
        let prompt = [before, &request.append].concat();
        Self {
            sequence,
            salt: request.salt,
            placed: false,
            temperature: request.temperature,
            top_k: request.top_k,
            top_p: request.top_p,
            random: StdRng::seed_from_u64(request.seed),
            ids: Vec::new(),
            logprobs: Vec::new(),
            max_tokens: request.max_tokens.min(context - prompt.len()),
            prompt,
            end_ids: request.end_ids,
            stop: request.stop,
            on_token: request.on_token,
            cancel: request.cancel,
            reply,
        }
    }

    /// Whether it was ended from outside.
    pub fn is_cancelled(&self) -> bool {
        self.cancel.is_set()
    }

    /// Adds a sampled token; says whether the reply is over.
    pub fn push(&mut self, id: u32, logprob: f32) -> Result<Option<Finish>, GenerateError> {
        self.ids.push(id);
        self.logprobs.push(logprob);
        if let Some(on_token) = &self.on_token {
            let seen = || on_token(SampledToken { id, logprob });
            if std::panic::catch_unwind(std::panic::AssertUnwindSafe(seen)).is_err() {
                return Err(GenerateError::Failed { reason: "the receiver of tokens panicked".into() });
            }
        }
        if self.end_ids.contains(&id) {
            return Ok(Some(Finish::Stop));
        }
        if let Some(stop) = &self.stop {
            let met = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| stop(&self.ids)));
            match met {
                Ok(true) => return Ok(Some(Finish::Stop)),
                Ok(false) => {}
                Err(_) => return Err(GenerateError::Failed { reason: "the stop condition panicked".into() }),
            }
        }
        Ok((self.ids.len() >= self.max_tokens).then_some(Finish::Length))
    }

    /// Gives the reply. Returns the sequence's tokens.
    pub fn finish(mut self, finish: Finish, version: u64) -> Vec<u32> {
        let mut all = std::mem::take(&mut self.prompt);
        all.extend_from_slice(&self.ids);
        self.reply.send(Ok(Sampled { ids: self.ids, logprobs: self.logprobs, finish, version }));
        all
    }

    /// Gives an error instead.
    pub fn fail(self, error: GenerateError) {
        self.reply.send(Err(error));
    }
}
