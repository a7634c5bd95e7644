//! How many tokens a second does the learner train, and how many for a second of CPU time?
//!
//! ```sh
//! cargo run -p tandem-trainer --example learn_speed -- MODEL.gguf [--layers 0,20,full] [--tokens 512] \
//!     [--sequences 4] [--trained 0.25] [--steps 3]
//! ```
//! `--layers` lists the first adapted layer of each run, or `full` for all weights.

use std::path::PathBuf;
use std::time::Instant;

use burn::tensor::Device;
use tandem_trainer::checkpoint::load_policy;
use tandem_trainer::learner::{Learner, LearnerConfig, Sample};
use tandem_trainer::model::LoraConfig;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = PathBuf::from(arguments.next().ok_or("usage: learn_speed MODEL.gguf [--layers …]")?);
    let (mut layers, mut tokens, mut sequences) = ("0,20,full".to_string(), 512, 4);
    let (mut trained, mut steps) = (0.25, 3);
    while let Some(name) = arguments.next() {
        let value = arguments.next().ok_or(format!("{name} needs a value"))?;
        match name.as_str() {
            "--layers" => layers = value,
            "--tokens" => tokens = value.parse()?,
            "--sequences" => sequences = value.parse()?,
            "--trained" => trained = value.parse()?,
            "--steps" => steps = value.parse()?,
            other => return Err(format!("unknown option {other}").into()),
        }
    }
    let policy = load_policy(&path, None, &device())?;
    let vocabulary = policy.model.config().vocab_size as u32;
    println!("{sequences} sequences of {tokens} tokens, {:.0} % trained", 100.0 * trained);
    for first_layer in layers.split(',') {
        let model = policy.model.clone();
        let model = match first_layer {
            "full" => model,
            layer => model.with_lora(
                LoraConfig { rank: 8, alpha: 16.0, first_layer: layer.parse()?, ..LoraConfig::default() },
                1,
            ),
        };
        let mut learner = Learner::new(model, LearnerConfig::default())?;
        let mut samples: Vec<Sample> = (0..sequences)
            .map(|index| {
                let ids = (0..tokens).map(|at| (at * 7919 + index * 104_729) as u32 % vocabulary);
                let start = ((1.0 - trained) * tokens as f64) as usize;
                let mask = (0..tokens).map(|at| at > 0 && at >= start).collect();
                Sample::new(ids.collect(), mask, vec![0.0; tokens], 1.0)
            })
            .collect();
        let count = (sequences * tokens) as f64;
        let clock = Clock::start();
        let logprobs = learner.logprobs(&samples)?;
        println!("first layer {first_layer}, forward: {}", clock.rate(count));
        for (sample, logp) in samples.iter_mut().zip(logprobs) {
            sample.logprobs = logp;
        }
        for step in 0..steps {
            let clock = Clock::start();
            let report = learner.policy_step(&samples)?;
            println!(
                "first layer {first_layer}, step {step}: {}; gradient {:.3}, update {:.4}",
                clock.rate(count),
                report.grad_norm,
                report.update_norm,
            );
        }
    }
    Ok(())
}

/// Wall-clock time, and the CPU time of all threads: the figure to trust on a busy machine.
struct Clock {
    wall: Instant,
    cpu: Option<f64>,
}

impl Clock {
    fn start() -> Self {
        Self { wall: Instant::now(), cpu: cpu_seconds() }
    }

    fn rate(&self, tokens: f64) -> String {
        let wall = tokens / self.wall.elapsed().as_secs_f64();
        match (self.cpu, cpu_seconds()) {
            (Some(start), Some(end)) => {
                format!("{wall:.0} tokens/s, {:.0} per CPU second", tokens / (end - start))
            }
            _ => format!("{wall:.0} tokens/s"),
        }
    }
}

/// User and system time of this process, where /proc says it (in hundredths of a second).
fn cpu_seconds() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = |index: usize| fields.get(index)?.parse::<f64>().ok();
    Some((ticks(11)? + ticks(12)?) / 100.0)
}

fn device() -> Device {
    #[cfg(feature = "cuda")]
    if std::env::var_os("TANDEM_CPU").is_none() {
        return Device::cuda(0);
    }
    Device::flex()
}
