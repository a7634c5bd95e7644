//! `tandem model logprobs`: how likely does a policy find each token of a text?

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;

use anyhow::{Context, Result};
use serde::Serialize;
use tandem_trainer::checkpoint::Policy;
use tandem_trainer::learner::{LearnerConfig, Sample, policy_logprobs};

use super::prompts::{self, Ending};
use super::{PolicyArguments, at_least_one};

#[derive(clap::Args)]
pub struct LogprobsArguments {
    #[command(flatten)]
    policy: PolicyArguments,
    /// A JSONL file with `text`, `messages` or `ids` on each line; `-` reads the standard input.
    input: PathBuf,
    /// Write here instead of to the standard output.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Tokens, with padding, that go through the policy at once.
    #[arg(long, default_value_t = 2048, value_parser = at_least_one)]
    batch_tokens: usize,
}

/// What is written for each line.
#[derive(Serialize)]
struct Scored {
    /// Number of the input's line, from 1.
    line: usize,
    ids: Vec<u32>,
    /// For each token its log-probability after all before it; none for the first, which nothing precedes.
    logprobs: Vec<Option<f32>>,
    sum: f64,
}

pub fn run(arguments: &LogprobsArguments) -> Result<()> {
    // A wrong path is told before the weights are read.
    let lines = prompts::lines(&arguments.input)?;
    let policy = arguments.policy.load()?;
    let mut out: Box<dyn Write> = match &arguments.out {
        Some(path) => Box::new(BufWriter::new(
            File::create(path).with_context(|| format!("{} cannot be written", path.display()))?,
        )),
        None => Box::new(std::io::stdout().lock()),
    };
    let config = LearnerConfig { micro_batch_tokens: arguments.batch_tokens, ..LearnerConfig::default() };
    // A few batches are read at a time, so that lines of similar length can go together.
    let window = 4 * arguments.batch_tokens;
    let (mut waiting, mut tokens) = (Vec::new(), 0);
    for line in lines {
        let (number, line) = line?;
        let ids = line
            .ids(&policy, Ending::None)
            .with_context(|| format!("line {number} of {} cannot be used", arguments.input.display()))?;
        tokens += ids.len();
        waiting.push((number, ids));
        if tokens >= window {
            score(&policy, &config, std::mem::take(&mut waiting), &mut out)?;
            tokens = 0;
        }
    }
    score(&policy, &config, waiting, &mut out)
}

fn score(
    policy: &Policy,
    config: &LearnerConfig,
    lines: Vec<(usize, Vec<u32>)>,
    out: &mut dyn Write,
) -> Result<()> {
    let samples: Vec<Sample> = lines
        .iter()
        .map(|(_, ids)| Sample::demonstration(ids.clone(), (0..ids.len()).map(|at| at > 0).collect()))
        .collect();
    let scores = policy_logprobs(&policy.model, &samples, config)?;
    for ((line, ids), scores) in lines.into_iter().zip(scores) {
        let sum = scores.iter().map(|logprob| f64::from(*logprob)).sum();
        let logprobs =
            scores.into_iter().enumerate().map(|(at, logprob)| (at > 0).then_some(logprob)).collect();
        writeln!(out, "{}", serde_json::to_string(&Scored { line, ids, logprobs, sum })?)?;
    }
    out.flush()?;
    Ok(())
}
