//! How do other devices take a part of each step?

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Builder, JoinHandle};

use burn::prelude::*;

use super::batch::input_length;
use super::gradient::{Aim, logprobs};
use super::report::Measured;
use super::{LearnError, Learner, Sample};
use crate::optimizer::{AdamW, StepGradients, trainable_lengths};
use crate::parallel::{Exchange, Link, ParallelError, connect, moved, split};

/// How far the changes of two replicas may differ in length: kernels that were tuned apart add up in
/// another order.
const APART: f64 = 1e-3;

/// The policy on further devices, each with a thread that alone uses it.
pub(super) struct Replicas {
    /// Of the first device. It is dropped before the others, so that none of them waits for it.
    link: Link,
    workers: Vec<Worker>,
    lengths: BTreeMap<String, usize>,
}

/// The thread of a device, as the others see it.
struct Worker {
    /// From 2: the first is the learner itself.
    number: usize,
    of: usize,
    /// None only while it is dropped.
    jobs: Option<Sender<Job>>,
    answers: Receiver<Answer>,
    thread: Option<JoinHandle<Result<(), LearnError>>>,
}

/// A step, for all devices.
struct Task {
    samples: Vec<Sample>,
    aim: Aim,
    denominator: f64,
}

enum Job {
    /// Log-probabilities of some of the samples.
    Logprobs(Arc<Vec<Sample>>, Vec<usize>),
    /// The gradient of some of the samples, added up with that of the others.
    Gradient(Arc<Task>, Vec<usize>),
    /// The step with the last gradient times a scale, at a learning rate.
    Update(f64, f64),
}

enum Answer {
    Ready,
    Logprobs(Vec<Vec<f32>>),
    Measured(Measured),
    /// Length of the change.
    Updated(f64),
}

impl Replicas {
    /// Copies the learner to `others` and waits until all are ready.
    pub fn start(learner: &Learner, others: &[Device], exchange: Exchange) -> Result<Self, LearnError> {
        let devices: Vec<Device> = std::iter::once(&learner.device).chain(others).cloned().collect();
        let mut links = connect(&devices, exchange)?;
        let link = links.remove(0);
        let lengths = trainable_lengths(&learner.model);
        let mut replicas = Self { link, workers: Vec::new(), lengths };
        for (number, (device, link)) in (2..).zip(others.iter().zip(links)) {
            let worker = Worker::start(learner, device.clone(), link, number, devices.len())?;
            replicas.workers.push(worker);
        }
        Ok(replicas)
    }

    pub fn others(&self) -> usize {
        self.workers.len()
    }

    /// The gradient of a step, summed over all devices, and what they measured.
    pub fn gradient(
        &mut self,
        learner: &Learner,
        samples: &[Sample],
        aim: &Aim,
        denominator: f64,
    ) -> Result<(StepGradients, Measured), LearnError> {
        let task = Arc::new(Task { samples: samples.to_vec(), aim: aim.clone(), denominator });
        let own = self.share_out(samples, |members| Job::Gradient(task.clone(), members))?;
        let mut pass = learner.gradient_of(samples, &own, aim, denominator);
        let summed = self.link.sum(&mut pass.gradients, &self.lengths, &learner.device);
        if let Err(gone) = summed {
            return Err(self.workers[gone.0 - 1].why());
        }
        let mut measured = Measured::of(&pass);
        for worker in &mut self.workers {
            if let Answer::Measured(other) = worker.answer()? {
                measured = measured.with(other);
            }
        }
        Ok((pass.gradients, measured))
    }

    /// Has the others take the step that the first one takes.
    pub fn begin_update(&mut self, scale: f64, learning_rate: f64) -> Result<(), LearnError> {
        self.workers.iter_mut().try_for_each(|worker| worker.ask(Job::Update(scale, learning_rate)))
    }

    /// Waits for them, and makes sure that they still are copies.
    pub fn end_update(&mut self, expected: f64) -> Result<(), LearnError> {
        for worker in &mut self.workers {
            let answer = worker.answer()?;
            let Answer::Updated(found) = answer else { continue };
            let alike = (found - expected).abs() <= APART * expected.abs().max(f64::MIN_POSITIVE);
            if !alike {
                let (replica, replicas) = (worker.number, worker.of);
                return Err(ParallelError::Apart { replica, replicas, expected, found }.into());
            }
        }
        Ok(())
    }

    /// Log-probabilities of the samples under the present policy.
    pub fn logprobs(&mut self, learner: &Learner, samples: &[Sample]) -> Result<Vec<Vec<f32>>, LearnError> {
        let shared = Arc::new(samples.to_vec());
        let own = self.share_out(samples, |members| Job::Logprobs(shared.clone(), members))?;
        let model = burn::module::Module::valid(&learner.model);
        let mut all = logprobs(&model, samples, &own, &learner.config, &learner.device);
        for worker in &mut self.workers {
            if let Answer::Logprobs(more) = worker.answer()? {
                // A sample's values are 0 but on the one device that computed them.
                for (sum, values) in all.iter_mut().zip(more) {
                    sum.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
                }
            }
        }
        Ok(all)
    }

    /// Divides samples by tokens; gives the others theirs, and returns the first one's.
    fn share_out(
        &mut self,
        samples: &[Sample],
        job: impl Fn(Vec<usize>) -> Job,
    ) -> Result<Vec<usize>, LearnError> {
        let costs: Vec<usize> = samples.iter().map(input_length).collect();
        let mut shares = split(&costs, 1 + self.workers.len()).into_iter();
        let own = shares.next().unwrap_or_default();
        for (worker, members) in self.workers.iter_mut().zip(shares) {
            worker.ask(job(members))?;
        }
        Ok(own)
    }
}

impl Worker {
    fn start(
        learner: &Learner,
        device: Device,
        link: Link,
        number: usize,
        of: usize,
    ) -> Result<Self, LearnError> {
        let (jobs, received) = channel();
        let (answer, answers) = channel();
        let (model, config) = (learner.model.clone(), learner.config.clone());
        let (steps, moments) = (learner.optimizer.steps(), learner.optimizer.moments());
        let work = move || -> Result<(), LearnError> {
            let model = moved(model, &device);
            let moments = moments.iter().map(|(path, state)| (path.clone(), state.moved(&device))).collect();
            let optimizer = AdamW::restore(config.adamw, steps, moments, &model)?;
            let replica = Learner::with_optimizer(model, config, optimizer, 0)?;
            work(replica, &link, &received, &answer)
        };
        let thread = Builder::new().name(format!("replica-{number}")).spawn(work);
        let thread = thread.map_err(|error| ParallelError::Stopped {
            replica: number,
            replicas: of,
            reason: error.to_string(),
        })?;
        let mut worker = Self { number, of, jobs: Some(jobs), answers, thread: Some(thread) };
        worker.answer()?;
        Ok(worker)
    }

    fn ask(&mut self, job: Job) -> Result<(), LearnError> {
        let sent = self.jobs.as_ref().is_some_and(|jobs| jobs.send(job).is_ok());
        if sent { Ok(()) } else { Err(self.why()) }
    }

    fn answer(&mut self) -> Result<Answer, LearnError> {
        self.answers.recv().map_err(|_| self.why())
    }

    /// Why the thread has ended.
    fn why(&mut self) -> LearnError {
        let reason = match self.thread.take().map(JoinHandle::join) {
            None => "it was stopped before".to_string(),
            Some(Ok(Ok(()))) => "it has nothing to do any more".to_string(),
            Some(Ok(Err(error))) => return error,
            Some(Err(panic)) => {
                let text = panic.downcast_ref::<String>().map(String::as_str);
                text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("it panicked").to_string()
            }
        };
        ParallelError::Stopped { replica: self.number, replicas: self.of, reason }.into()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // It ends when no job can come any more; its memory is free when it has ended.
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// What the thread of a device does until the learner is dropped.
fn work(
    mut replica: Learner,
    link: &Link,
    jobs: &Receiver<Job>,
    answers: &Sender<Answer>,
) -> Result<(), LearnError> {
    let lengths = trainable_lengths(&replica.model);
    let mut gradients = StepGradients::new();
    let mut next = Answer::Ready;
    while answers.send(next).is_ok() {
        let Ok(job) = jobs.recv() else { break };
        next = match job {
            Job::Logprobs(samples, members) => {
                let model = burn::module::Module::valid(&replica.model);
                Answer::Logprobs(logprobs(&model, &samples, &members, &replica.config, &replica.device))
            }
            Job::Gradient(task, members) => {
                // That of a step that was skipped.
                drop(std::mem::take(&mut gradients));
                let mut pass = replica.gradient_of(&task.samples, &members, &task.aim, task.denominator);
                // Without the first there is nobody to tell.
                let Ok(()) = link.sum(&mut pass.gradients, &lengths, &replica.device) else { break };
                let measured = Measured::of(&pass);
                gradients = pass.gradients;
                Answer::Measured(measured)
            }
            Job::Update(scale, learning_rate) => {
                Answer::Updated(replica.update(&gradients, scale, learning_rate))
            }
        };
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::tests::{adapted, all_objectives, full, samples};
    use super::*;
    use crate::learner::{LearnerConfig, Recompute, StepReport};
    use crate::model::{CausalLm, Family, LoraConfig, tiny_of};

    fn learner(model: &CausalLm, config: &LearnerConfig, others: usize) -> Learner {
        let others = vec![Device::flex(); others];
        let learner = Learner::new(model.clone(), config.clone()).unwrap();
        learner.with_replicas(&others, Exchange::usual(&others)).unwrap()
    }

    fn weights(learner: &Learner) -> Vec<f32> {
        let model = learner.model();
        let tensors = if model.lora().is_some() { model.lora_tensors() } else { model.named_tensors() };
        tensors.iter().flat_map(|(_, tensor)| tensor.data.clone()).collect()
    }

    fn check_close(what: &str, found: f64, expected: f64) {
        assert!((found - expected).abs() <= 1e-5 * expected.abs().max(1e-3), "{what}: {found}, {expected}");
    }

    fn check_same(found: &Learner, expected: &Learner, what: &str) {
        let (found, expected) = (weights(found), weights(expected));
        let length = |values: &mut dyn Iterator<Item = f32>| -> f64 {
            values.map(|value| f64::from(value).powi(2)).sum::<f64>().sqrt()
        };
        let apart = length(&mut found.iter().zip(&expected).map(|(found, expected)| found - expected));
        let relative = apart / length(&mut expected.iter().copied());
        assert!(relative < 1e-6, "{what}: weights are {relative} apart");
    }

    /// Steps on the same samples with one device and with several end with the same weights.
    fn check(model: &CausalLm, config: &LearnerConfig, others: usize) {
        let mut one = learner(model, config, 0);
        let mut several = learner(model, config, others);
        assert_eq!((one.devices(), several.devices()), (1, 1 + others));
        let start = weights(&one);
        for seed in 1..5 {
            let before = one.logprobs(&samples(seed)).unwrap();
            let also = several.logprobs(&samples(seed)).unwrap();
            for (found, expected) in also.iter().flatten().zip(before.iter().flatten()) {
                check_close("log-probability", f64::from(*found), f64::from(*expected));
            }
            let expected: StepReport = one.policy_step(&samples(seed)).unwrap();
            let found = several.policy_step(&samples(seed)).unwrap();
            assert_eq!((found.tokens, &found.skipped), (expected.tokens, &None));
            check_close("loss", found.loss, expected.loss);
            check_close("gradient", found.grad_norm, expected.grad_norm);
            check_close("change", found.update_norm, expected.update_norm);
            check_close("entropy", found.entropy, expected.entropy);
            let (found, expected) = (found.ratios.unwrap(), expected.ratios.unwrap());
            check_close("ratio", found.mean_ratio, expected.mean_ratio);
            check_close("clip share", found.clip_fraction, expected.clip_fraction);
        }
        assert_ne!(weights(&one), start);
        check_same(&several, &one, &format!("{:?} on {others} more", config.objective));
    }

    #[test]
    fn two_replicas_learn_what_one_learns_from_twice_the_samples() {
        for objective in all_objectives() {
            let config = LearnerConfig { objective, learning_rate: 1e-3, ..LearnerConfig::default() };
            check(&full(true), &config, 1);
            check(&adapted(), &config, 1);
        }
    }

    #[test]
    fn replicas_agree_with_more_devices_experts_and_layers_computed_again() {
        let config = LearnerConfig { micro_batch_tokens: 20, ..LearnerConfig::default() };
        check(&full(false), &config, 2);
        // Each device uses other experts, and some use none of an expert.
        let experts = CausalLm::random(tiny_of(Family::Qwen3Moe), 3, &Device::flex());
        check(&experts, &LearnerConfig { recompute: Recompute::Layer, ..config.clone() }, 2);
        // More devices than samples.
        let mut many = learner(&full(true), &config, 9);
        let mut one = learner(&full(true), &config, 0);
        many.supervised_step(&samples(1)).unwrap();
        one.supervised_step(&samples(1)).unwrap();
        check_same(&many, &one, "ten devices");
    }

    #[test]
    fn all_replicas_skip_a_step_that_is_not_finite_on_one_of_them() {
        let config = LearnerConfig::default();
        let mut learner = learner(&full(true), &config, 1);
        let before = weights(&learner);
        for bad in 0..2 {
            let mut batch = samples(3);
            batch[bad].advantage = f32::MAX;
            let report = learner.policy_step(&batch).unwrap();
            assert!(report.skipped.is_some());
            assert_eq!(report.skips_in_a_row, bad as u32 + 1);
        }
        assert_eq!(weights(&learner), before);
        // And go on as if nothing had happened.
        let mut one = self::learner(&full(true), &config, 0);
        learner.policy_step(&samples(4)).unwrap();
        one.policy_step(&samples(4)).unwrap();
        check_same(&learner, &one, "after skipped steps");
    }

    #[test]
    fn replicas_of_a_resumed_learner_have_its_moments() {
        let lora = LoraConfig { rank: 2, alpha: 4.0, first_layer: 1, ..LoraConfig::default() };
        for model in [full(true), full(true).with_lora(lora, 3)] {
            let config = LearnerConfig { learning_rate: 1e-3, ..LearnerConfig::default() };
            let folder = tempfile::tempdir().unwrap();
            let state = folder.path().join("state");
            let mut one = learner(&model, &config, 0);
            one.supervised_step(&samples(1)).unwrap();
            one.save_state(&state).unwrap();
            let others = [Device::flex()];
            let resumed = Learner::load_state(full(true), config.clone(), &state).unwrap();
            let mut two = resumed.with_replicas(&others, Exchange::Host).unwrap();
            for seed in 2..4 {
                one.supervised_step(&samples(seed)).unwrap();
                two.supervised_step(&samples(seed)).unwrap();
            }
            check_same(&two, &one, "resumed");
            assert_eq!(two.steps(), 3);
        }
    }

    #[test]
    fn a_replica_that_went_its_own_way_is_noticed() {
        let mut learner = learner(&full(true), &LearnerConfig::default(), 1);
        learner.supervised_step(&samples(1)).unwrap();
        let mut replicas = Replicas::start(&learner, &[Device::flex()], Exchange::Host).unwrap();
        let gradient = replicas.gradient(&learner, &samples(2), &Aim::Supervised, 10.0).unwrap().0;
        replicas.begin_update(1.0, 1e-3).unwrap();
        let changed = learner.update(&gradient, 0.5, 2e-3);
        let error = replicas.end_update(changed).unwrap_err().to_string();
        assert!(error.starts_with("replica 2 of 2 changed its weights by"), "{error}");
    }
}
