//! What does the worker do next?

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, TryRecvError};
use std::sync::{Arc, OnceLock};

use burn::tensor::{Int, Tensor, TensorData};

use super::GenerateError;
use super::cache::KvCache;
use super::forward::{Inference, Row};
use super::job::{Finish, Job, Reply, SampleRequest};
use super::sampler::{self, Draw, Token};
use super::slots::{Slots, common};
use crate::model::CausalLm;

/// What the handles send.
pub(super) enum Command {
    Sample { sequence: u64, request: SampleRequest, reply: Reply },
    Close { sequence: u64 },
    Publish { model: Box<CausalLm>, version: u64, done: Sender<Result<(), GenerateError>> },
}

/// A publication that waits for the running requests.
struct Publication {
    model: Box<CausalLm>,
    version: u64,
    done: Sender<Result<(), GenerateError>>,
}

/// A prefix that a running request will soon have computed is worth waiting for if it
/// is that much longer than what is there.
const WORTH_WAITING: usize = 32;

/// Why a worker ended that could not start over; shared with its handles.
pub(super) type Ended = Arc<OnceLock<String>>;

pub(super) struct Worker {
    inference: Inference,
    version: u64,
    cache: KvCache,
    slots: Slots,
    count: usize,
    context: usize,
    /// The tokens of each sequence that has sampled.
    sequences: HashMap<u64, Vec<u32>>,
    jobs: Vec<Job>,
    publication: Option<Publication>,
    receiver: Receiver<Command>,
    ended: Ended,
}

impl Worker {
    pub fn new(
        model: &CausalLm,
        version: u64,
        count: usize,
        context: usize,
        receiver: Receiver<Command>,
        ended: Ended,
    ) -> Self {
        let inference = Inference::new(model, count, context);
        Self {
            cache: inference.cache(count, context),
            inference,
            version,
            slots: Slots::new(count),
            count,
            context,
            sequences: HashMap::new(),
            jobs: Vec::new(),
            publication: None,
            receiver,
            ended,
        }
    }

    /// Works until the last handle is gone.
    pub fn run(mut self) {
        loop {
            if self.jobs.is_empty() {
                if let Some(publication) = self.publication.take() {
                    self.publish(publication);
                }
                match self.receiver.recv() {
                    Ok(command) => self.take(command),
                    Err(_) => return,
                }
            }
            // What comes after a publication waits for it.
            while self.publication.is_none() {
                match self.receiver.try_recv() {
                    Ok(command) => self.take(command),
                    Err(TryRecvError::Empty | TryRecvError::Disconnected) => break,
                }
            }
            self.drop_cancelled();
            if self.jobs.is_empty() {
                continue;
            }
            // The backends report most errors by a panic.
            let stepped = catch_unwind(AssertUnwindSafe(|| self.step()));
            let error = match stepped {
                Ok(Ok(())) => continue,
                Ok(Err(error)) => error,
                Err(panic) => GenerateError::Failed { reason: panic_text(panic.as_ref()) },
            };
            tracing::error!("{error}");
            if !self.recover(error) {
                return;
            }
        }
    }

    /// Starts over with an empty cache, since after a failure nobody knows what is in it, and tells everybody.
    /// False when there is no room for one any more.
    fn recover(&mut self, error: GenerateError) -> bool {
        self.slots.forget();
        // What is there goes first: there may be no room for both.
        self.cache.release();
        let made = catch_unwind(AssertUnwindSafe(|| self.inference.cache(self.count, self.context)));
        let goes_on = made.map(|cache| self.cache = cache).is_ok();
        if !goes_on {
            // Before anybody hears of the failure, so that whoever does knows that it is the last one.
            let _ = self.ended.set(error.to_string());
        }
        self.jobs.drain(..).for_each(|job| job.fail(error.clone()));
        goes_on
    }

    /// Requests that were ended from outside leave before the next step. What was computed of
    /// them stays in the slot, where a later prompt may find a prefix.
    fn drop_cancelled(&mut self) {
        for job in self.jobs.extract_if(.., |job| job.is_cancelled()) {
            job.fail(GenerateError::Cancelled);
        }
    }

    fn take(&mut self, command: Command) {
        match command {
            Command::Sample { sequence, request, reply } => self.start(sequence, request, reply),
            Command::Close { sequence } => {
                self.sequences.remove(&sequence);
                self.slots.release(sequence);
                // Whoever closed it does not wait for its reply.
                self.jobs.retain(|job| job.sequence != sequence);
            }
            Command::Publish { model, version, done } => {
                self.publication = Some(Publication { model, version, done });
            }
        }
    }

    fn start(&mut self, sequence: u64, request: SampleRequest, reply: Reply) {
        if self.jobs.iter().any(|job| job.sequence == sequence) {
            return reply.send(Err(GenerateError::Busy));
        }
        let before = self.sequences.get(&sequence).map_or(&[][..], |ids| ids);
        let used = before.len() + request.append.len();
        if used == 0 {
            let reason = "the sequence has no token to continue from";
            return reply.send(Err(GenerateError::EmptyRequest { reason }));
        }
        if used >= self.context {
            return reply.send(Err(GenerateError::ContextFull { used, limit: self.context }));
        }
        self.jobs.push(Job::new(sequence, before, self.context, request, reply));
    }

    fn publish(&mut self, publication: Publication) {
        let Publication { model, version, done } = publication;
        if model.config() != self.inference.model().config() {
            let reason = "the published policy has another shape than the one before".into();
            let _ = done.send(Err(GenerateError::Failed { reason }));
            return;
        }
        let made = catch_unwind(AssertUnwindSafe(|| Inference::new(&model, self.count, self.context)));
        let result = match made {
            Ok(inference) => {
                self.inference = inference;
                self.version = version;
                // Keys and values of the old weights would mix two policies in one context.
                self.slots.forget();
                Ok(())
            }
            Err(panic) => Err(GenerateError::Failed { reason: panic_text(panic.as_ref()) }),
        };
        let _ = done.send(result);
    }

    /// One batch: prompts first, since a full batch of replies costs little more than a small one.
    fn step(&mut self) -> Result<(), GenerateError> {
        let prompts = self.prompt_rows();
        if prompts.is_empty() {
            return self.step_replies();
        }
        let (jobs, rows): (Vec<usize>, Vec<Row>) = prompts.into_iter().unzip();
        #[cfg(feature = "cuda")]
        if self.draw(&jobs, &rows)? {
            return Ok(());
        }
        let hidden = self.inference.advance(&mut self.cache, &rows);
        let mut complete = Vec::new();
        for (number, (job, row)) in jobs.iter().zip(&rows).enumerate() {
            self.slots.push(row.slot, &row.ids);
            if self.slots.filled(row.slot) == self.jobs[*job].prompt.len() {
                complete.push((number, *job));
            }
        }
        if complete.is_empty() {
            return Ok(());
        }
        let hidden = if complete.len() == rows.len() {
            hidden
        } else {
            let numbers: Vec<i64> = complete.iter().map(|(number, _)| *number as i64).collect();
            let numbers = TensorData::new(numbers, [complete.len()]);
            let numbers: Tensor<1, Int> = Tensor::from_data(numbers, &hidden.device());
            hidden.select(0, numbers)
        };
        self.sample(hidden, complete.into_iter().map(|(_, job)| job).collect())
    }

    /// The next tokens of prompts, as many as fit a batch.
    fn prompt_rows(&mut self) -> Vec<(usize, Row)> {
        let budget = self.inference.buckets.budget;
        let mut picked: Vec<(usize, Row)> = Vec::new();
        let mut longest = 0;
        for index in 0..self.jobs.len() {
            if !self.jobs[index].ids.is_empty() || !self.place(index) {
                continue;
            }
            let job = &self.jobs[index];
            let Some(slot) = self.slots.of(job.sequence) else { continue };
            let start = self.slots.filled(slot);
            let left = job.prompt.len() - start;
            // A few tokens are read one by one where that is faster than as a padded batch.
            let length = if left <= self.inference.reads_singly() { 1 } else { left.min(budget) };
            // Rows are padded to the longest, so only similar lengths go together.
            let padded = longest.max(length);
            let shortest = picked.iter().map(|(_, row)| row.ids.len()).fold(length, usize::min);
            if !picked.is_empty() && ((picked.len() + 1) * padded > budget || 2 * shortest < padded) {
                continue;
            }
            longest = padded;
            picked.push((index, Row { slot, start, ids: job.prompt[start..start + length].to_vec() }));
        }
        picked.sort_by_key(|(_, row)| row.slot);
        picked
    }

    /// Gives a job its slot. False if it should wait, for a prefix that another job is
    /// computing or for a slot.
    fn place(&mut self, index: usize) -> bool {
        let job = &self.jobs[index];
        if job.placed {
            return true;
        }
        let here = self.slots.longest(&job.prompt, job.salt);
        let coming = self
            .jobs
            .iter()
            .filter(|other| other.placed && other.ids.is_empty() && other.salt == job.salt)
            .map(|other| common(&other.prompt, &job.prompt))
            .max();
        if coming.is_some_and(|coming| coming >= here + WORTH_WAITING) {
            return false;
        }
        let Some((slot, copy)) = self.slots.place(job.sequence, &job.prompt, job.salt) else { return false };
        if let Some(shared) = copy {
            self.cache.copy(shared.from, slot, shared.tokens);
        }
        self.jobs[index].placed = true;
        true
    }

    /// The next token of every reply.
    fn step_replies(&mut self) -> Result<(), GenerateError> {
        let mut rows: Vec<(usize, Row)> = Vec::new();
        let slots = self.slots.by_owner();
        for (index, job) in self.jobs.iter().enumerate() {
            if let (Some(&slot), Some(last)) = (slots.get(&job.sequence), job.ids.last()) {
                rows.push((index, Row { slot, start: self.slots.filled(slot), ids: vec![*last] }));
            }
        }
        if rows.is_empty() {
            // Cannot be: open sequences are never more than slots.
            return Err(GenerateError::Failed { reason: "no request could get a slot".into() });
        }
        rows.sort_by_key(|(_, row)| row.slot);
        let (jobs, rows): (Vec<usize>, Vec<Row>) = rows.into_iter().unzip();
        #[cfg(feature = "cuda")]
        if self.draw(&jobs, &rows)? {
            return Ok(());
        }
        let hidden = self.inference.advance(&mut self.cache, &rows);
        rows.iter().for_each(|row| self.slots.push(row.slot, &row.ids));
        self.sample(hidden, jobs)
    }

    /// Computes the last tokens of `jobs` and draws the next ones in one go, where the device has a way of its own.
    /// False where it has none, or a row is more or something else than a last token.
    #[cfg(feature = "cuda")]
    fn draw(&mut self, jobs: &[usize], rows: &[Row]) -> Result<bool, GenerateError> {
        let is_last = |(job, row): (&usize, &Row)| {
            let job = &self.jobs[*job];
            row.ids.len() == 1 && row.start + 1 == job.prompt.len() + job.ids.len()
        };
        if !jobs.iter().zip(rows).all(is_last) {
            return Ok(false);
        }
        let mut draws = draws(&mut self.jobs, jobs);
        let Some(tokens) = self.inference.draw(&mut self.cache, rows, &mut draws) else {
            return Ok(false);
        };
        rows.iter().for_each(|row| self.slots.push(row.slot, &row.ids));
        self.append(jobs.to_vec(), tokens?);
        Ok(true)
    }

    /// Samples the next token of `jobs` from their hidden states.
    fn sample(&mut self, hidden: Tensor<2>, jobs: Vec<usize>) -> Result<(), GenerateError> {
        let logits = self.inference.logits(hidden);
        let tokens = sampler::sample(logits, &mut draws(&mut self.jobs, &jobs))?;
        self.append(jobs, tokens);
        Ok(())
    }

    /// Gives each of `jobs` its next token, and ends replies that are over.
    fn append(&mut self, jobs: Vec<usize>, tokens: Vec<Token>) {
        let mut over: Vec<(usize, Result<Finish, GenerateError>)> = Vec::new();
        for (index, token) in jobs.into_iter().zip(tokens) {
            match self.jobs[index].push(token.id, token.logprob) {
                Ok(None) => {}
                Ok(Some(finish)) => over.push((index, Ok(finish))),
                Err(error) => over.push((index, Err(error))),
            }
        }
        // From the back, so that the indices before stay right.
        over.sort_by_key(|(index, _)| std::cmp::Reverse(*index));
        for (index, result) in over {
            let job = self.jobs.remove(index);
            match result {
                Ok(finish) => {
                    let sequence = job.sequence;
                    let ids = job.finish(finish, self.version);
                    self.sequences.insert(sequence, ids);
                }
                Err(error) => job.fail(error),
            }
        }
    }
}

/// How the next token of each of `chosen` is drawn, in their order.
fn draws<'a>(jobs: &'a mut [Job], chosen: &[usize]) -> Vec<Draw<'a>> {
    let mut places = vec![None; jobs.len()];
    for (place, job) in chosen.iter().enumerate() {
        places[*job] = Some(place);
    }
    let mut ordered: Vec<(usize, Draw)> = jobs
        .iter_mut()
        .zip(places)
        .filter_map(|(job, place)| {
            let (temperature, top_k, top_p) = (job.temperature, job.top_k, job.top_p);
            Some((place?, Draw { temperature, top_k, top_p, random: &mut job.random }))
        })
        .collect();
    ordered.sort_by_key(|(place, _)| *place);
    ordered.into_iter().map(|(_, draw)| draw).collect()
}

/// The text of a panic.
pub(crate) fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text =
        panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("the device failed").to_string()
}
