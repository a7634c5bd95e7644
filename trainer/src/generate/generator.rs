//! How does the rest of the program talk to the worker?

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, OnceLock};

use super::GenerateError;
use super::job::{Reply, SampleRequest, Sampled};
use super::worker::{Command, Ended, Worker, panic_text};
use crate::model::CausalLm;

/// Sizes of a generator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GeneratorConfig {
    /// Most sequences that may be open at once.
    pub slots: usize,
    /// Most tokens of a sequence, replies included. Memory grows with `slots · context`
    /// as far as contexts are used. At most the policy's own context.
    pub context: usize,
}

/// A handle of the generator; clones share it. The worker ends with the last handle
/// and the last sequence.
#[derive(Clone)]
pub struct Generator {
    shared: Arc<Shared>,
}

struct Shared {
    sender: Sender<Command>,
    open: AtomicUsize,
    next: AtomicU64,
    version: AtomicU64,
    slots: usize,
    context: usize,
    vocabulary: usize,
    ended: Ended,
}

impl Generator {
    /// Starts a worker that samples from a copy of `model`, its adapter folded in.
    pub fn spawn(model: CausalLm, version: u64, config: GeneratorConfig) -> Self {
        let slots = config.slots.max(1);
        let context = config.context.min(model.config().max_position_embeddings).max(2);
        let vocabulary = model.config().vocab_size;
        let (sender, receiver) = mpsc::channel();
        // One long-lived thread: devices keep a stream of work for each thread.
        let ended: Ended = Arc::new(OnceLock::new());
        let told = ended.clone();
        std::thread::spawn(move || {
            let work = || Worker::new(&model, version, slots, context, receiver, told.clone()).run();
            if let Err(panic) = catch_unwind(AssertUnwindSafe(work)) {
                let error = GenerateError::Failed { reason: panic_text(panic.as_ref()) };
                tracing::error!("{error}");
                let _ = told.set(error.to_string());
            }
        });
        Self {
            shared: Arc::new(Shared {
                sender,
                open: AtomicUsize::new(0),
                next: AtomicU64::new(0),
                version: AtomicU64::new(version),
                slots,
                context,
                vocabulary,
                ended,
            }),
        }
    }

    /// Opens an empty sequence. It is closed when it is dropped.
    ///
    /// # Errors
    /// When as many sequences are open as there are slots.
    pub fn open(&self) -> Result<Sequence, GenerateError> {
        let slots = self.shared.slots;
        self.shared
            .open
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |open| (open < slots).then_some(open + 1))
            .map_err(|open| GenerateError::SlotsInUse { open, slots })?;
        let id = self.shared.next.fetch_add(1, Ordering::Relaxed);
        Ok(Sequence { shared: self.shared.clone(), id })
    }

    /// Replaces the weights: waits for running requests, then drops every cached key and
    /// value, since those of one version mean nothing to another. Requests made after
    /// this call are sampled from the new version; open sequences keep their tokens.
    /// Blocks until the new version is in place.
    ///
    /// # Errors
    /// When the policy has another shape, or does not fit the device. The old version stays.
    pub fn publish(&self, model: CausalLm, version: u64) -> Result<(), GenerateError> {
        let (done, result) = mpsc::channel();
        self.shared
            .sender
            .send(Command::Publish { model: Box::new(model), version, done })
            .map_err(|_| GenerateError::Stopped)?;
        result.recv().map_err(|_| GenerateError::Stopped)??;
        self.shared.version.store(version, Ordering::Release);
        Ok(())
    }

    /// The version that was published last.
    pub fn version(&self) -> u64 {
        self.shared.version.load(Ordering::Acquire)
    }

    /// Why the worker has ended before its handles did: no request will be answered any more.
    pub fn ended(&self) -> Option<String> {
        self.shared.ended.get().cloned()
    }

    /// Most tokens of a sequence.
    pub fn context(&self) -> usize {
        self.shared.context
    }

    /// Most sequences that may be open at once.
    pub fn slots(&self) -> usize {
        self.shared.slots
    }
}

/// One conversation's tokens: what was appended and what was sampled, in order.
pub struct Sequence {
    shared: Arc<Shared>,
    id: u64,
}

impl Sequence {
    /// Appends tokens and samples a reply. `done` is called exactly once, on the worker's
    /// thread, so it should only hand the result on. After an error the sequence is as it
    /// was before.
    pub fn sample(
        &self,
        request: SampleRequest,
        done: Box<dyn FnOnce(Result<Sampled, GenerateError>) + Send>,
    ) {
        let reply = Reply::new(done);
        // Devices do not check ids: one past the vocabulary would read foreign memory.
        let vocabulary = self.shared.vocabulary;
        if let Some(id) = request.append.iter().find(|id| **id as usize >= vocabulary) {
            return reply.send(Err(GenerateError::UnknownToken { id: *id, vocabulary }));
        }
        if let Err(error) = request.check() {
            return reply.send(Err(error));
        }
        // If the worker is gone, the reply comes back unsent and says so when it is dropped.
        let _ = self.shared.sender.send(Command::Sample { sequence: self.id, request, reply });
    }

    /// [`sample`](Self::sample), waiting for the reply.
    pub fn sample_blocking(&self, request: SampleRequest) -> Result<Sampled, GenerateError> {
        let (sender, receiver) = mpsc::channel();
        self.sample(
            request,
            Box::new(move |result| {
                let _ = sender.send(result);
            }),
        );
        receiver.recv().unwrap_or(Err(GenerateError::Stopped))
    }
}

impl Drop for Sequence {
    fn drop(&mut self) {
        // In this order: whoever takes the freed place must come after the close.
        let _ = self.shared.sender.send(Command::Close { sequence: self.id });
        self.shared.open.fetch_sub(1, Ordering::AcqRel);
    }
}
