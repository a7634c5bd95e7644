//! How fast does the trainer train and sample, and how much memory does it use?
//!
//! ```sh
//! cargo run --release -p tandem-trainer --features cuda --example bench -- [--device cuda:0] [--tiny]
//!     [--steps N] [--only NAME] [WORK ...]
//! ```
//! Work: `check` (what `tandem doctor` examines; the rest is not measured if something is off; `--only` takes
//! those with a word in their name), `kernels`, `train-135m`, `train-1.5b`, `lora-9b`, `decode-256`, `decode-1`,
//! `loop-200`, `matmul`; all unless some are named. With two GPUs also `parallel-same`, `parallel-135m`,
//! `parallel-1.5b`, `parallel-host`. Prints a line of JSON each, like `trainer/reference/bench_pytorch.py`, which
//! does the same work in PyTorch. `--tiny` runs the same code on shapes for a CPU. Weights are random.

use std::error::Error;
use std::process::Command;
use std::sync::mpsc;
use std::time::Instant;

use burn::tensor::{DType, Device, Distribution, Tensor};
use tandem_trainer::generate::{Generator, GeneratorConfig, SampleRequest, Sequence};
use tandem_trainer::learner::{Learner, LearnerConfig, Sample};
use tandem_trainer::model::{Biases, CausalLm, ComputeType, Family, LoraConfig, ModelConfig};
use tandem_trainer::parallel::Exchange;

type Outcome = Result<(), Box<dyn Error>>;

struct Bench {
    device: Device,
    compute: ComputeType,
    tiny: bool,
    /// Timed steps of training, where not the usual number.
    steps: Option<usize>,
    only: String,
}

const WORK: [&str; 9] = [
    "check",
    "kernels",
    "train-135m",
    "train-1.5b",
    "lora-9b",
    "decode-256",
    "decode-1",
    "loop-200",
    "matmul",
];

/// Work for two devices.
const PARALLEL: [&str; 4] = ["parallel-same", "parallel-135m", "parallel-1.5b", "parallel-host"];

fn main() -> Outcome {
    let mut arguments = std::env::args().skip(1);
    let (mut device, mut tiny, mut work) = (usual_device(), false, Vec::new());
    let (mut steps, mut only) = (None, String::new());
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--device" => device = parse(&arguments.next().ok_or("--device needs a value")?)?,
            "--tiny" => tiny = true,
            "--steps" => steps = Some(arguments.next().ok_or("--steps needs a value")?.parse()?),
            "--only" => only = arguments.next().ok_or("--only needs a value")?,
            name if WORK.contains(&name) || PARALLEL.contains(&name) => work.push(name.to_string()),
            other => {
                let known = [&WORK[..], &PARALLEL].concat().join(", ");
                return Err(format!("`{other}` is no work; {known} are").into());
            }
        }
    }
    if work.is_empty() {
        work = WORK.map(String::from).to_vec();
    }
    let bench = Bench { compute: ComputeType::usual(&device), device, tiny, steps, only };
    for name in work {
        match name.as_str() {
            "check" => bench.check()?,
            "kernels" => bench.kernels(),
            "train-135m" => bench.train(&name, smollm2(), [16, 1024], false)?,
            "train-1.5b" => bench.train(&name, qwen_1b5(), [8, 2048], false)?,
            "lora-9b" => bench.train(&name, dense_9b(), [2, 4096], true)?,
            "decode-256" => bench.decode(&name, 256)?,
            "decode-1" => bench.decode(&name, 1)?,
            "loop-200" => bench.sample_and_update(&name, 200)?,
            "parallel-same" => bench.same_on_two(&name)?,
            "parallel-135m" => bench.two(&name, smollm2(), [16, 1024], bench.usual_exchange())?,
            "parallel-1.5b" => bench.two(&name, qwen_1b5(), [8, 2048], bench.usual_exchange())?,
            "parallel-host" => bench.two(&name, smollm2(), [16, 1024], Exchange::Host)?,
            _ => bench.products(&name),
        }
        bench.device.memory_cleanup();
    }
    Ok(())
}

fn smollm2() -> ModelConfig {
    ModelConfig {
        rope_theta: 100_000.0,
        max_position_embeddings: 8192,
        ..ModelConfig::llama(576, 1536, 30, [9, 3], 49152)
    }
}

fn qwen_1b5() -> ModelConfig {
    let bias = Biases { qkv: true, ..Biases::default() };
    let shape = ModelConfig::llama(1536, 8960, 28, [12, 2], 151_936);
    ModelConfig { family: Family::Qwen2, bias, max_position_embeddings: 4096, ..shape }
}

fn dense_9b() -> ModelConfig {
    let shape = ModelConfig::llama(4096, 14336, 36, [32, 8], 151_936);
    ModelConfig { tie_word_embeddings: false, max_position_embeddings: 8192, ..shape }
}

impl Bench {
    /// The shape, or one with the same proportions of heads for a CPU.
    fn shape(&self, config: ModelConfig) -> ModelConfig {
        if !self.tiny {
            return config;
        }
        let heads = config.num_attention_heads / config.query_group();
        ModelConfig {
            hidden_size: 48,
            intermediate_size: 96,
            num_hidden_layers: 2,
            num_attention_heads: config.query_group() * heads.min(2),
            num_key_value_heads: heads.min(2),
            head_dim: 16,
            vocab_size: 500,
            ..config
        }
    }

    /// Compares every operation with the CPU, in the format that is measured.
    fn check(&self) -> Outcome {
        let start = Instant::now();
        let mut bad = 0;
        tandem_trainer::doctor::examine_in(&[self.compute], &self.device, &self.only, |check| {
            let found = match &check.error {
                Ok(error) => format!("{error:.1e}"),
                Err(reason) => reason.clone(),
            };
            let mark = if check.passed() { "right" } else { "OFF" };
            eprintln!("check: {mark} {:>7} {} ({})", found, check.name, check.compute);
            bad += usize::from(!check.passed());
        });
        println!(r#"{{"work": "check", "off": {bad}, "seconds": {:.1}}}"#, start.elapsed().as_secs_f64());
        if bad > 0 { Err(format!("{bad} checks are off; nothing else is measured").into()) } else { Ok(()) }
    }

    /// Times own kernels alone.
    #[cfg(feature = "cuda")]
    fn kernels(&self) {
        tandem_trainer::doctor::timings(&self.device, |timing| {
            println!(
                r#"{{"work": "kernels", "name": "{}", "ms": {:.3}, "tera_per_s": {:.1}}}"#,
                timing.name,
                1e3 * timing.seconds,
                timing.rate
            );
        });
    }

    #[cfg(not(feature = "cuda"))]
    fn kernels(&self) {
        eprintln!("kernels: this build has none of its own");
    }

    fn train(&self, name: &str, config: ModelConfig, [batch, length]: [usize; 2], lora: bool) -> Outcome {
        let (batch, length) = if self.tiny { (2, 32) } else { (batch, length) };
        let model = CausalLm::random_on_device(self.shape(config), self.compute, &self.device);
        let model = match lora {
            true => model
                .with_lora(LoraConfig { rank: 16, alpha: 32.0, first_layer: 0, ..LoraConfig::default() }, 1),
            false => model,
        };
        let vocabulary = model.config().vocab_size;
        let settings = LearnerConfig {
            learning_rate: 1e-5,
            micro_batch_tokens: batch * length,
            head_rows: if lora { 4096 } else { 16384 },
            ..LearnerConfig::default()
        };
        let mut learner = Learner::new(model, settings)?;
        let seconds = self.steps(name, &mut learner, &rows(batch, length, vocabulary))?;
        self.report(name, batch * length, seconds, &format!(r#""batch": {batch}, "length": {length}"#));
        Ok(())
    }

    /// The times of the same step again and again, after a few to warm up.
    fn steps(
        &self,
        name: &str,
        learner: &mut Learner,
        samples: &[Sample],
    ) -> Result<Vec<f64>, Box<dyn Error>> {
        let (warm, count) = if self.tiny { (1, 2) } else { (3, self.steps.unwrap_or(8)) };
        let mut seconds = Vec::new();
        for step in 0..warm + count {
            let start = Instant::now();
            let report = learner.supervised_step(samples)?;
            let took = start.elapsed().as_secs_f64();
            if let Some(reason) = report.skipped {
                return Err(format!("{name}: step {step} was skipped: {reason}").into());
            }
            eprintln!(
                "{name}: step {step}: {took:.3} s, loss {:.4}, gradient {:.3}",
                report.loss, report.grad_norm
            );
            if step >= warm {
                seconds.push(took);
            }
        }
        Ok(seconds)
    }

    fn second_device(&self) -> Device {
        #[cfg(feature = "cuda")]
        if self.device != Device::flex() {
            return Device::cuda(1);
        }
        self.device.clone()
    }

    fn usual_exchange(&self) -> Exchange {
        Exchange::usual(&[self.device.clone(), self.second_device()])
    }

    /// One device with `batch` sequences, then two with twice as many.
    fn two(
        &self,
        name: &str,
        config: ModelConfig,
        [batch, length]: [usize; 2],
        exchange: Exchange,
    ) -> Outcome {
        let (batch, length) = if self.tiny { (2, 32) } else { (batch, length) };
        let model = CausalLm::random_on_device(self.shape(config), self.compute, &self.device);
        let vocabulary = model.config().vocab_size;
        let settings = LearnerConfig {
            learning_rate: 1e-5,
            micro_batch_tokens: batch * length,
            ..LearnerConfig::default()
        };
        let mut rates = Vec::new();
        for devices in [1, 2] {
            let others = vec![self.second_device(); devices - 1];
            let learner = Learner::new(model.clone(), settings.clone())?;
            let mut learner = learner.with_replicas(&others, exchange)?;
            let samples = rows(devices * batch, length, vocabulary);
            let mut seconds = self.steps(name, &mut learner, &samples)?;
            seconds.sort_by(f64::total_cmp);
            rates.push((devices * batch * length) as f64 / seconds[seconds.len() / 2]);
            self.report(
                name,
                devices * batch * length,
                seconds,
                &format!(
                    r#""devices": {devices}, "exchange": "{exchange:?}", "batch": {}, "length": {length}"#,
                    devices * batch
                ),
            );
        }
        println!(r#"{{"work": "{name}", "two_over_one": {:.3}}}"#, rates[1] / rates[0]);
        Ok(())
    }

    /// The same steps on one device and on two, in f32 and in the usual format: how far apart do they end?
    fn same_on_two(&self, name: &str) -> Outcome {
        let [batch, length] = if self.tiny { [4, 16] } else { [16, 256] };
        for (compute, lora) in [(ComputeType::F32, false), (ComputeType::F32, true), (self.compute, false)] {
            let model = CausalLm::random_on_device(self.shape(smollm2()), compute, &self.device);
            let model = match lora {
                true => model.with_lora(LoraConfig { rank: 16, alpha: 32.0, ..LoraConfig::default() }, 1),
                false => model,
            };
            let settings = LearnerConfig {
                learning_rate: 1e-5,
                micro_batch_tokens: batch * length / 2,
                ..LearnerConfig::default()
            };
            let samples = rows(batch, length, model.config().vocab_size);
            let mut ends = Vec::new();
            for others in [vec![], vec![self.second_device()]] {
                let learner = Learner::new(model.clone(), settings.clone())?;
                let mut learner = learner.with_replicas(&others, self.usual_exchange())?;
                let mut last = None;
                for _ in 0..4 {
                    last = Some(learner.supervised_step(&samples)?);
                }
                let trained = learner.model();
                let weights = if lora { trained.lora_tensors() } else { trained.named_tensors() };
                ends.push((last.ok_or("no step was taken")?, weights));
            }
            let (mut apart, mut changed) = (0.0f64, 0.0f64);
            let start = if lora { model.lora_tensors() } else { model.named_tensors() };
            for (name, before) in start.iter() {
                let (Some(one), Some(two)) = (ends[0].1.get(name), ends[1].1.get(name)) else { continue };
                for ((one, two), before) in one.data.iter().zip(&two.data).zip(&before.data) {
                    apart += f64::from(one - two).powi(2);
                    changed += f64::from(one - before).powi(2);
                }
            }
            let (one, two) = (&ends[0].0, &ends[1].0);
            println!(
                r#"{{"work": "{name}", "compute": "{compute}", "lora": {lora}, "loss": [{:.7}, {:.7}], "gradient": [{:.7}, {:.7}], "apart_over_change": {:.3e}}}"#,
                one.loss,
                two.loss,
                one.grad_norm,
                two.grad_norm,
                (apart / changed).sqrt()
            );
        }
        Ok(())
    }

    fn decode(&self, name: &str, sequences: usize) -> Outcome {
        let (sequences, prompt, reply) =
            if self.tiny { (sequences.min(3), 20, 6) } else { (sequences, 480, 64) };
        let model = CausalLm::random_on_device(self.shape(smollm2()), self.compute, &self.device);
        let vocabulary = model.config().vocab_size;
        let generator = Generator::spawn(model, 0, GeneratorConfig { slots: sequences, context: 1024 });
        let open = (0..sequences).map(|_| generator.open()).collect::<Result<Vec<_>, _>>()?;
        let prefill = Instant::now();
        replies(&open, vocabulary, prompt, 1)?;
        eprintln!(
            "{name}: {sequences} prompts of {prompt} tokens in {:.2} s",
            prefill.elapsed().as_secs_f64()
        );
        replies(&open, vocabulary, 1, 8)?;
        // Reading the turn's token and the first draw are taken off, as the script for PyTorch does it.
        let (mut seconds, mut whole) = (Vec::new(), Vec::new());
        for _ in 0..3 {
            let timed = |reply: usize| -> Result<f64, Box<dyn Error>> {
                let start = Instant::now();
                replies(&open, vocabulary, 1, reply)?;
                Ok(start.elapsed().as_secs_f64())
            };
            let (short, long) = (timed(1)?, timed(reply + 1)?);
            seconds.push((long - short) / reply as f64);
            whole.push((reply + 1) as f64 * sequences as f64 / long);
        }
        whole.sort_by(f64::total_cmp);
        let more = format!(
            r#""sequences": {sequences}, "prompt": {prompt}, "with_turn_tokens_per_s": {:.0}"#,
            whole[1]
        );
        self.report(name, sequences, seconds, &more);
        Ok(())
    }

    /// Samples replies, trains on them and publishes, many times; memory must not grow.
    fn sample_and_update(&self, name: &str, steps: usize) -> Outcome {
        let steps = self.steps.unwrap_or(steps);
        let (steps, sequences, prompt, reply) = if self.tiny { (3, 2, 8, 4) } else { (steps, 64, 128, 32) };
        let model = CausalLm::random_on_device(self.shape(smollm2()), self.compute, &self.device);
        let vocabulary = model.config().vocab_size;
        let settings = LearnerConfig {
            learning_rate: 1e-6,
            micro_batch_tokens: 16384,
            pad_to_multiple_of: 32,
            head_rows: 4096,
            ..LearnerConfig::default()
        };
        let mut learner = Learner::new(model, settings)?;
        let slots = GeneratorConfig { slots: sequences, context: 512 };
        let generator = Generator::spawn(learner.model(), 0, slots);
        let (mut seconds, mut memory) = (Vec::new(), Vec::new());
        for step in 0..steps {
            let start = Instant::now();
            let open = (0..sequences).map(|_| generator.open()).collect::<Result<Vec<_>, _>>()?;
            let samples = replies(&open, vocabulary, prompt, reply)?;
            drop(open);
            let report = learner.policy_step(&samples)?;
            if let Some(reason) = report.skipped {
                return Err(format!("{name}: step {step} was skipped: {reason}").into());
            }
            generator.publish(learner.model(), step as u64 + 1)?;
            seconds.push(start.elapsed().as_secs_f64());
            if step % 20 == 5 || step + 1 == steps {
                memory.push(memory_mib(&self.device));
                eprintln!(
                    "{name}: step {step}: {:.3} s, memory {:?} MiB, {:?}",
                    seconds[step],
                    memory.last(),
                    report.ratios
                );
            }
        }
        let slowest = seconds.iter().skip(5).copied().fold(0.0, f64::max);
        let more = format!(r#""memory_mib": {memory:?}, "slowest_after_5_s": {slowest:.4}"#);
        self.report(name, sequences * (prompt + reply), seconds, &more);
        Ok(())
    }

    /// Burn's own product beside ours is part of `tandem doctor`; here only its speed.
    fn products(&self, name: &str) {
        let sizes = [[16384, 576, 960], [16384, 576, 3072], [16384, 1536, 576], [8192, 8192, 8192]];
        for [m, k, n] in sizes.map(|size| if self.tiny { [16, 8, 12] } else { size }) {
            let random = |shape: [usize; 2]| {
                let options = (&self.device, DType::F32);
                Tensor::<2>::random(shape, Distribution::Normal(0.0, 1.0), options).cast(DType::BF16)
            };
            let (left, right) = (random([m, k]), random([k, n]));
            let run = || {
                let start = Instant::now();
                for _ in 0..10 {
                    let _ = left.clone().matmul(right.clone());
                }
                let _ = self.device.sync();
                start.elapsed().as_secs_f64() / 10.0
            };
            run();
            let mut seconds = [run(), run(), run()];
            seconds.sort_by(f64::total_cmp);
            let rate = 2.0 * (m * k * n) as f64 / seconds[1] / 1e12;
            println!(
                r#"{{"work": "{name}", "by": "burn", "size": [{m}, {k}, {n}], "median_s": {:.6}, "tflops": {rate:.1}}}"#,
                seconds[1]
            );
        }
    }

    fn report(&self, name: &str, tokens: usize, mut seconds: Vec<f64>, more: &str) {
        seconds.sort_by(f64::total_cmp);
        let median = seconds[seconds.len() / 2];
        let memory =
            memory_mib(&self.device).map_or("null".into(), |mib| format!("{:.2}", mib as f64 / 1024.0));
        println!(
            r#"{{"work": "{name}", "by": "tandem", "compute": "{}", "tokens_per_s": {:.0}, "median_s": {median:.5}, "fastest_s": {:.5}, "runs": {}, "held_gib": {memory}, {more}}}"#,
            self.compute,
            tokens as f64 / median,
            seconds[0],
            seconds.len(),
        );
    }
}

/// Sequences to learn from, all tokens trained.
fn rows(batch: usize, length: usize, vocabulary: usize) -> Vec<Sample> {
    let row = |row: usize| {
        // A token more than goes through the model: the last one is only predicted.
        let ids = (0..=length).map(|at| ((at * 7919 + row * 104_729 + at * at) % vocabulary) as u32);
        Sample::demonstration(ids.collect(), (0..=length).map(|at| at > 0).collect())
    };
    (0..batch).map(row).collect()
}

/// A reply of each sequence, as a sample to learn from. The prompt is what it reads before.
fn replies(
    open: &[Sequence],
    vocabulary: usize,
    prompt: usize,
    reply: usize,
) -> Result<Vec<Sample>, Box<dyn Error>> {
    let (sender, receiver) = mpsc::channel();
    for (index, sequence) in open.iter().enumerate() {
        let append: Vec<u32> =
            (0..prompt).map(|at| ((at * 7919 + index * 104_729) % vocabulary) as u32).collect();
        let request = SampleRequest {
            append: append.clone(),
            max_tokens: reply,
            temperature: 1.0,
            seed: index as u64,
            ..SampleRequest::default()
        };
        let sender = sender.clone();
        sequence.sample(
            request,
            Box::new(move |result| {
                let _ = sender.send((index, append, result));
            }),
        );
    }
    drop(sender);
    let mut samples = Vec::new();
    for (index, mut ids, result) in receiver {
        let sampled = result?;
        let mut logprobs = vec![0.0; ids.len()];
        logprobs.extend_from_slice(&sampled.logprobs);
        let mut mask = vec![false; ids.len()];
        mask.resize(ids.len() + sampled.ids.len(), true);
        ids.extend_from_slice(&sampled.ids);
        let advantage = if index % 2 == 0 { 0.5 } else { -0.5 };
        samples.push(Sample::new(ids, mask, logprobs, advantage));
    }
    Ok(samples)
}

/// What the driver says that is in use; the allocator keeps what it had, so at the end this is the peak.
fn memory_mib(device: &Device) -> Option<u64> {
    if *device == Device::flex() {
        return None;
    }
    let out = Command::new("nvidia-smi")
        .args(["--query-gpu=memory.used", "--format=csv,noheader,nounits"])
        .output();
    String::from_utf8(out.ok()?.stdout).ok()?.lines().next()?.trim().parse().ok()
}

#[cfg(feature = "cuda")]
fn usual_device() -> Device {
    Device::cuda(0)
}

#[cfg(not(feature = "cuda"))]
fn usual_device() -> Device {
    Device::flex()
}

fn parse(text: &str) -> Result<Device, Box<dyn Error>> {
    #[cfg(feature = "cuda")]
    if let Some(index) = text.strip_prefix("cuda:") {
        return Ok(Device::cuda(index.parse::<usize>()?));
    }
    match text {
        "cpu" => Ok(Device::flex()),
        other => Err(format!("`{other}` is no device of this build").into()),
    }
}
