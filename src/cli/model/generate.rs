//! `tandem model generate`: what does a policy say next?

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use std::sync::{Arc, mpsc};

use anyhow::{Context, Result, bail};
use serde::Serialize;
use tandem_trainer::checkpoint::Policy;
use tandem_trainer::generate::{
    Finish, GenerateError, Generator, GeneratorConfig, OnToken, SampleRequest, Sampled, Sequence,
    stop_at_texts,
};
use tandem_trainer::tokenizer::TextStream;

use super::prompts::{self, Ending, Line};
use super::{PolicyArguments, at_least_one};

#[derive(clap::Args)]
pub struct GenerateArguments {
    #[command(flatten)]
    policy: PolicyArguments,
    /// A text to go on with, without any chat template.
    #[arg(required_unless_present_any = ["chat", "prompts"], conflicts_with_all = ["chat", "prompts"])]
    prompt: Option<String>,
    /// A JSON file with the messages of a conversation; the policy's chat template is applied.
    #[arg(long, value_name = "FILE", conflicts_with = "prompts")]
    chat: Option<PathBuf>,
    /// A JSONL file with `text`, `messages` or `ids` on each line; `-` reads the standard input.
    #[arg(long, value_name = "FILE")]
    prompts: Option<PathBuf>,
    /// Most tokens of a reply.
    #[arg(long, default_value_t = 256, value_parser = at_least_one)]
    max_tokens: usize,
    /// 0 takes the likeliest token each time.
    #[arg(long, default_value_t = 1.0, allow_negative_numbers = true)]
    temperature: f32,
    /// Draw from this many of the likeliest tokens; 0 for all.
    #[arg(long, default_value_t = 0)]
    top_k: usize,
    /// Draw from the fewest likeliest tokens that together have this probability; 1 for all.
    #[arg(long, default_value_t = 1.0, allow_negative_numbers = true)]
    top_p: f32,
    /// The same seed gives the same replies on the CPU, whatever is sampled beside them.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// A text that ends a reply and is not shown; may be given more than once.
    #[arg(long, value_name = "TEXT")]
    stop: Vec<String>,
    /// A token id that ends a reply beside the policy's own; may be given more than once.
    #[arg(long, value_name = "ID")]
    stop_id: Vec<u32>,
    /// Show the text as it is sampled; with `--json`, one line for each token. For one reply.
    #[arg(long, conflicts_with = "prompts")]
    stream: bool,
    /// Replies to each prompt.
    #[arg(long, default_value_t = 1, value_parser = at_least_one)]
    samples: usize,
    /// Replies that are sampled at the same time.
    #[arg(long, default_value_t = 16, value_parser = at_least_one)]
    slots: usize,
    /// One JSON object for each reply, with token ids and log-probabilities.
    #[arg(long)]
    json: bool,
}

/// One reply, as `--json` writes it.
#[derive(Serialize)]
struct Reply<'a> {
    /// Number of the prompt, from 0.
    prompt: usize,
    /// Number of the reply to it, from 0.
    sample: usize,
    text: &'a str,
    prompt_tokens: usize,
    ids: &'a [u32],
    logprobs: &'a [f32],
    finish: &'static str,
}

pub fn run(arguments: &GenerateArguments) -> Result<()> {
    if arguments.stream && arguments.samples != 1 {
        bail!(
            "`--stream` shows one reply, and {} were asked for\nhelp: leave out `--stream`, or `--samples`",
            arguments.samples
        );
    }
    let policy = arguments.policy.load()?;
    let prompts = read_prompts(arguments, &policy)?;
    if let Some(number) = prompts.iter().position(Vec::is_empty) {
        bail!("prompt {number} has no token to go on from\nhelp: give a text of at least one letter");
    }
    let longest = prompts.iter().map(Vec::len).max().unwrap_or(0);
    let asked = prompts.len() * arguments.samples;
    let generator = Generator::spawn(
        policy.model.clone(),
        0,
        GeneratorConfig {
            slots: arguments.slots.min(asked).max(1),
            context: longest.saturating_add(arguments.max_tokens),
        },
    );
    if arguments.stream {
        return stream(arguments, &policy, &generator, &prompts[0]);
    }
    sample_all(arguments, &policy, &generator, &prompts)
}

fn read_prompts(arguments: &GenerateArguments, policy: &Policy) -> Result<Vec<Vec<u32>>> {
    let ids = |line: Line| line.ids(policy, Ending::Reply);
    if let Some(path) = &arguments.prompts {
        let lines = prompts::lines(path)?;
        let prompts: Vec<Vec<u32>> = lines
            .map(|line| {
                let (number, line) = line?;
                ids(line).with_context(|| format!("line {number} of {} cannot be used", path.display()))
            })
            .collect::<Result<_>>()?;
        if prompts.is_empty() {
            bail!("{} holds no prompt\nhelp: write one JSON object on each line", path.display());
        }
        return Ok(prompts);
    }
    let line = match &arguments.chat {
        Some(path) => prompts::chat(path)?,
        None => prompts::text(arguments.prompt.clone().unwrap_or_default()),
    };
    Ok(vec![ids(line).context("the prompt cannot be used")?])
}

/// The request for reply `number` of all.
fn request(arguments: &GenerateArguments, policy: &Policy, prompt: &[u32], number: usize) -> SampleRequest {
    let mut end_ids = policy.chat.end_ids();
    end_ids.extend_from_slice(&arguments.stop_id);
    SampleRequest {
        append: prompt.to_vec(),
        max_tokens: arguments.max_tokens,
        temperature: arguments.temperature,
        top_k: arguments.top_k,
        top_p: arguments.top_p,
        // A seed of its own for each reply; the constant is the golden ratio in 64 bits.
        seed: arguments.seed.wrapping_add((number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)),
        end_ids,
        stop: stop_at_texts(&arguments.stop, &policy.tokenizer),
        ..SampleRequest::default()
    }
}

/// The ids of a reply that are text: without the token that ended it.
fn said<'a>(arguments: &GenerateArguments, policy: &Policy, ids: &'a [u32]) -> &'a [u32] {
    match ids.split_last() {
        Some((last, before)) if policy.chat.end_ids().contains(last) || arguments.stop_id.contains(last) => {
            before
        }
        _ => ids,
    }
}

fn text_of(arguments: &GenerateArguments, policy: &Policy, sampled: &Sampled) -> Result<String> {
    let mut stream = TextStream::new(&policy.tokenizer, &arguments.stop);
    let mut text = String::new();
    for id in said(arguments, policy, &sampled.ids) {
        text.push_str(&stream.push(*id)?);
    }
    text.push_str(&stream.finish()?);
    Ok(text)
}

/// Shows a reply while it is sampled.
fn stream(
    arguments: &GenerateArguments,
    policy: &Policy,
    generator: &Generator,
    prompt: &[u32],
) -> Result<()> {
    let sequence = generator.open()?;
    let (sender, receiver) = mpsc::channel();
    let on_token: OnToken = Arc::new(move |token| {
        // The receiver is gone only when the output is.
        let _ = sender.send(token);
    });
    let request = SampleRequest { on_token: Some(on_token), ..request(arguments, policy, prompt, 0) };
    let (done, ended) = mpsc::channel();
    sequence.sample(
        request,
        Box::new(move |result| {
            let _ = done.send(result);
        }),
    );
    let mut text = TextStream::new(&policy.tokenizer, &arguments.stop);
    let mut out = std::io::stdout().lock();
    // The sender goes with the request, so the list ends with the reply.
    for token in receiver {
        let piece = match said(arguments, policy, &[token.id]).is_empty() {
            true => String::new(),
            false => text.push(token.id)?,
        };
        if arguments.json {
            let line = serde_json::json!({ "id": token.id, "logprob": token.logprob, "text": piece });
            writeln!(out, "{line}")?;
        } else {
            write!(out, "{piece}")?;
        }
        out.flush()?;
    }
    let sampled = ended.recv().unwrap_or(Err(GenerateError::Stopped))?;
    let rest = text.finish()?;
    if arguments.json {
        drop(out);
        return write_json(arguments, policy, 0, prompt.len(), &sampled);
    }
    writeln!(out, "{rest}")?;
    Ok(())
}

/// Samples all replies, as many at a time as there are slots, and writes them in order.
fn sample_all(
    arguments: &GenerateArguments,
    policy: &Policy,
    generator: &Generator,
    prompts: &[Vec<u32>],
) -> Result<()> {
    let asked = prompts.len() * arguments.samples;
    let (sender, receiver) = mpsc::channel::<(usize, Result<Sampled, GenerateError>)>();
    let mut running: BTreeMap<usize, Sequence> = BTreeMap::new();
    let mut done: BTreeMap<usize, Sampled> = BTreeMap::new();
    let (mut started, mut written) = (0, 0);
    while written < asked {
        while started < asked && running.len() < generator.slots() {
            let prompt = &prompts[started / arguments.samples];
            let sequence = generator.open()?;
            let (sender, number) = (sender.clone(), started);
            sequence.sample(
                request(arguments, policy, prompt, number),
                Box::new(move |result| {
                    let _ = sender.send((number, result));
                }),
            );
            running.insert(number, sequence);
            started += 1;
        }
        let (number, result) = receiver.recv().context("the generator stopped")?;
        running.remove(&number);
        let prompt = number / arguments.samples;
        let sampled = result.with_context(|| format!("prompt {prompt} got no reply"))?;
        done.insert(number, sampled);
        while let Some(sampled) = done.remove(&written) {
            let prompt = &prompts[written / arguments.samples];
            if arguments.json {
                write_json(arguments, policy, written, prompt.len(), &sampled)?;
            } else {
                write_text(arguments, policy, written, asked, &sampled)?;
            }
            written += 1;
        }
    }
    Ok(())
}

fn write_json(
    arguments: &GenerateArguments,
    policy: &Policy,
    number: usize,
    prompt_tokens: usize,
    sampled: &Sampled,
) -> Result<()> {
    let reply = Reply {
        prompt: number / arguments.samples,
        sample: number % arguments.samples,
        text: &text_of(arguments, policy, sampled)?,
        prompt_tokens,
        ids: &sampled.ids,
        logprobs: &sampled.logprobs,
        finish: match sampled.finish {
            Finish::Stop => "stop",
            Finish::Length => "length",
        },
    };
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}", serde_json::to_string(&reply)?)?;
    out.flush()?;
    Ok(())
}

fn write_text(
    arguments: &GenerateArguments,
    policy: &Policy,
    number: usize,
    asked: usize,
    sampled: &Sampled,
) -> Result<()> {
    let mut out = std::io::stdout().lock();
    if asked > 1 {
        let (prompt, sample) = (number / arguments.samples, number % arguments.samples);
        writeln!(out, "--- prompt {prompt}, reply {sample}")?;
    }
    writeln!(out, "{}", text_of(arguments, policy, sampled)?)?;
    out.flush()?;
    Ok(())
}
