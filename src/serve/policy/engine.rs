//! Who is next? Requests wait for a slot of the generator, in a queue with an end.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::http::StatusCode;
use tandem_host::policy::Sampling;
use tandem_trainer::generate::{
    GenerateError, Generator, SampleRequest, Sampled, SampledToken, stop_at_texts,
};
use tandem_trainer::tokenizer::{ChatTemplate, Tokenizer};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{Semaphore, oneshot};
use tokio::task::JoinSet;

use super::dialect::Dialect;
use super::meters::Meters;
use super::request::Common;
use crate::serve::refusal::Refusal;

/// A policy that is served.
pub struct Engine {
    /// The model's name in requests.
    pub name: String,
    pub generator: Generator,
    pub tokenizer: Tokenizer,
    pub chat: ChatTemplate,
    pub dialect: Dialect,
    pub defaults: Sampling,
    /// The most tokens of a reply of which nobody says how long it may be; none for all that fit.
    pub reply_tokens: Option<usize>,
    pub meters: Arc<Meters>,
    slots: Arc<Semaphore>,
    /// Replies that wait or are sampled.
    taken: Arc<AtomicUsize>,
    /// Most replies that may wait.
    queue: usize,
}

/// What is told of a reply while it is sampled.
pub enum Event {
    Token(SampledToken),
    Done(Result<Sampled, GenerateError>),
}

/// One reply to sample.
pub struct Wanted {
    pub prompt: Vec<u32>,
    pub max_tokens: usize,
    pub seed: u64,
}

/// Replies that are being sampled. Dropped, they end at once and give their slots back.
pub struct Running {
    /// The number of the reply with each event.
    pub events: UnboundedReceiver<(usize, Event)>,
    _tasks: JoinSet<()>,
    _admission: Admission,
}

/// A share of the queue.
struct Admission {
    taken: Arc<AtomicUsize>,
    count: usize,
}

impl Drop for Admission {
    fn drop(&mut self) {
        self.taken.fetch_sub(self.count, Ordering::AcqRel);
    }
}

impl Engine {
    pub fn new(
        name: String,
        generator: Generator,
        tokenizer: Tokenizer,
        chat: ChatTemplate,
        defaults: Sampling,
        reply_tokens: Option<usize>,
        queue: usize,
    ) -> Self {
        let slots = Arc::new(Semaphore::new(generator.slots()));
        let dialect = Dialect::of(&chat);
        let meters = Arc::default();
        let taken = Arc::default();
        Self {
            name,
            generator,
            tokenizer,
            chat,
            dialect,
            defaults,
            reply_tokens,
            meters,
            slots,
            taken,
            queue,
        }
    }

    /// How many tokens a reply may have, when the prompt has so many.
    ///
    /// # Errors
    /// When prompt and reply do not fit the context.
    pub fn reply_tokens(&self, prompt: usize, asked: Option<usize>) -> Result<usize, Refusal> {
        let limit = self.generator.context();
        let least = asked.unwrap_or(1);
        let needed = prompt.saturating_add(least);
        if needed > limit {
            // Clients look for these words.
            let said = format!(
                "this model's maximum context length is {limit} tokens, and the request needs {needed}: {prompt} of the prompt and {least} of the reply"
            );
            return Err(Refusal::new(StatusCode::BAD_REQUEST, "context_length_exceeded", said));
        }
        let room = limit - prompt;
        Ok(asked.unwrap_or_else(|| self.reply_tokens.unwrap_or(room).min(room)))
    }

    /// Samples replies, as many at once as there are slots; the others wait.
    ///
    /// # Errors
    /// When so many wait already that these have no place in the queue.
    pub fn start(&self, wanted: Vec<Wanted>, how: &Common) -> Result<Running, Refusal> {
        let admission = self.admit(wanted.len())?;
        let (sender, events) = unbounded_channel();
        let mut tasks = JoinSet::new();
        for (number, wanted) in wanted.into_iter().enumerate() {
            let request = SampleRequest {
                append: wanted.prompt,
                max_tokens: wanted.max_tokens,
                temperature: how.temperature,
                top_k: how.top_k,
                top_p: how.top_p,
                seed: wanted.seed,
                end_ids: if how.ignore_eos { Vec::new() } else { self.chat.end_ids() },
                stop: stop_at_texts(&how.stop, &self.tokenizer),
                ..SampleRequest::default()
            };
            tasks.spawn(one(self.generator.clone(), self.slots.clone(), number, request, sender.clone()));
        }
        Ok(Running { events, _tasks: tasks, _admission: admission })
    }

    fn admit(&self, count: usize) -> Result<Admission, Refusal> {
        let limit = self.generator.slots() + self.queue;
        if count > limit {
            let said = format!("{count} replies are asked for, and at most {limit} can be waited for here");
            return Err(Refusal::of_parameter("n", said));
        }
        let room = |taken: usize| (taken + count <= limit).then_some(taken + count);
        match self.taken.fetch_update(Ordering::AcqRel, Ordering::Acquire, room) {
            Ok(_) => Ok(Admission { taken: self.taken.clone(), count }),
            Err(taken) => {
                let said = format!(
                    "the queue is full: {taken} replies are sampled or wait, and {limit} may; try again soon"
                );
                Err(Refusal::new(StatusCode::TOO_MANY_REQUESTS, "queue_full", said).retry_after(1))
            }
        }
    }

    /// Replies that are sampled now, and those that wait.
    pub fn load(&self) -> (usize, usize) {
        let slots = self.generator.slots();
        let running = slots - self.slots.available_permits().min(slots);
        (running, self.taken.load(Ordering::Acquire).saturating_sub(running))
    }
}

/// Samples one reply once a slot is free. Dropped at any point, it leaves nothing behind.
async fn one(
    generator: Generator,
    slots: Arc<Semaphore>,
    number: usize,
    mut request: SampleRequest,
    sender: UnboundedSender<(usize, Event)>,
) {
    let result = async {
        let _place = slots.acquire_owned().await.map_err(|_| GenerateError::Stopped)?;
        // Declared after the place, so dropped before it: whoever comes next finds the slot closed.
        let sequence = generator.open()?;
        let tokens = sender.clone();
        request.on_token = Some(Arc::new(move |token| {
            let _ = tokens.send((number, Event::Token(token)));
        }));
        let (done, result) = oneshot::channel();
        sequence.sample(
            request,
            Box::new(move |sampled| {
                let _ = done.send(sampled);
            }),
        );
        result.await.unwrap_or(Err(GenerateError::Stopped))
    };
    let result = result.await;
    let _ = sender.send((number, Event::Done(result)));
}

/// The refusal that an error of the generator is.
pub fn failed(error: &GenerateError) -> Refusal {
    let text = error.to_string();
    let sentence = text.split("\nhelp: ").next().unwrap_or_default().trim_start_matches("generate: ");
    match error {
        GenerateError::UnknownToken { .. } => Refusal::of_parameter("prompt", sentence),
        GenerateError::ContextFull { .. } => {
            Refusal::new(StatusCode::BAD_REQUEST, "context_length_exceeded", sentence)
        }
        GenerateError::EmptyRequest { .. } => Refusal::of_parameter("prompt", "the prompt is empty"),
        GenerateError::BadSampling { name, .. } => Refusal::of_parameter(*name, sentence),
        _ => {
            tracing::error!("{sentence}");
            Refusal::internal(sentence)
        }
    }
}
