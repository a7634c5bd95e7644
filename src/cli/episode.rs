//! `tandem episode`: one task, one policy, one harness.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use tandem_host::agent::{Branch, Condensed, EpisodeRecord, Exit as Ended, Outcome, money, skill_of};
use tandem_host::harness::{Generation, HarnessHome, HarnessManifest};
use tandem_host::policy::{HttpConfig, HttpPolicy, Policy, Price, Sampling, ScriptedPolicy};
use tandem_host::rollout::{Cancel, EpisodeSpec, RolloutConfig, run_many};
use tandem_host::store::BlobStore;
use tandem_host::task::Task;

use super::pair::{HalvesArguments, warn};
use super::{Exit, export, setup};
use crate::pair::Pair;

#[derive(clap::Args)]
pub struct EpisodeArguments {
    /// The task's folder.
    task: PathBuf,
    /// Replies from a file: `{"replies": [...]}`.
    #[arg(long, conflicts_with = "endpoint")]
    script: Option<PathBuf>,
    /// An OpenAI-compatible endpoint, such as `http://localhost:8000/v1`.
    #[arg(long)]
    endpoint: Option<String>,
    /// The model's name at the endpoint.
    #[arg(long, default_value = "default")]
    model: String,
    /// Environment variable that holds the endpoint's key.
    #[arg(long)]
    key_env: Option<String>,
    /// Go on with a recorded episode: its first turns are given again, in a new workspace. A file that
    /// `--json` wrote, or the folder of a run.
    #[arg(long, value_name = "RECORD", requires = "after")]
    from: Option<PathBuf>,
    /// Which episode of the run in `--from`.
    #[arg(long, value_name = "ID", requires = "from")]
    episode: Option<String>,
    /// The last turn of `--from` that is given again; the policy says what follows.
    #[arg(long, value_name = "TURN", requires = "from")]
    after: Option<usize>,
    /// Money for a million tokens of the prompt and of the reply, such as `3,15`.
    #[arg(long, value_name = "PROMPT,REPLY", value_parser = parse_price)]
    price: Option<Price>,
    /// Tokens that the model's context holds, so that hooks know how many are left.
    #[arg(long, value_name = "TOKENS", default_value_t = 0, hide_default_value = true)]
    context: u64,
    /// A harness manifest in TOML.
    #[arg(long, conflicts_with = "pair")]
    harness: Option<PathBuf>,
    /// Folder of blobs in which the manifest's plugins lie.
    #[arg(long, requires = "harness")]
    blobs: Option<PathBuf>,
    /// Take the harness of this pair, and its policy if neither `--endpoint` nor `--script` is given.
    #[arg(long)]
    pair: Option<PathBuf>,
    #[command(flatten)]
    halves: HalvesArguments,
    /// Take the current harness of this harness home.
    #[arg(long, conflicts_with_all = ["harness", "pair"])]
    home: Option<PathBuf>,
    /// Another seed samples other replies.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// 1 if absent, or that of the pair.
    #[arg(long)]
    temperature: Option<f32>,
    /// Most tokens of one reply; 1024 if absent, or those of the pair.
    #[arg(long)]
    max_tokens: Option<usize>,
    /// The whole record as JSON instead of a summary.
    #[arg(long)]
    json: bool,
}

pub async fn run(arguments: EpisodeArguments) -> Result<Exit> {
    let task = Arc::new(Task::load(&arguments.task)?);
    let pair = arguments.pair.as_ref().map(|pair| arguments.halves.open(pair)).transpose()?;
    let policy: Arc<dyn Policy> = match (&arguments.script, &arguments.endpoint) {
        (Some(script), _) => {
            let replies = ScriptedPolicy::read_replies(script)?;
            let policy = ScriptedPolicy::new(move |_| replies.clone());
            let policy = policy.with_price(arguments.price.unwrap_or_default());
            match usize::try_from(arguments.context) {
                Ok(tokens) if tokens > 0 => Arc::new(policy.with_context(tokens)),
                _ => Arc::new(policy),
            }
        }
        (None, Some(endpoint)) => {
            pair.iter().for_each(|pair| super::run::tell_endpoint(endpoint, pair));
            Arc::new(HttpPolicy::new(HttpConfig {
                url: endpoint.clone(),
                model: arguments.model.clone(),
                key_env: arguments.key_env.clone(),
                price: arguments.price,
                context: arguments.context,
                ..HttpConfig::default()
            })?)
        }
        (None, None) => match &pair {
            Some(pair) => {
                let chosen = arguments.halves.chosen();
                let (policy, mismatches) =
                    tokio::task::block_in_place(|| crate::pair::policy(pair, &chosen))?;
                warn(&mismatches);
                policy
            }
            None => {
                bail!("no policy was named\nhelp: give `--endpoint URL`, `--script FILE` or `--pair PAIR`")
            }
        },
    };
    let recorded =
        arguments.from.as_ref().map(|from| recorded(from, arguments.episode.clone())).transpose()?;
    let policy = match (&recorded, arguments.after) {
        (Some(record), Some(after)) => Arc::new(Branch::new(record, after, policy)?),
        _ => policy,
    };
    // Blobs of a pair live as long as this folder.
    let scratch = tempfile::tempdir()?;
    let generation = generation(&arguments, pair.as_ref(), scratch.path()).await?;
    let told = pair.map_or_else(
        || Sampling { max_tokens: 1024, ..Sampling::default() },
        |pair| pair.manifest.policy.sampling,
    );
    let spec = EpisodeSpec {
        id: task.name().to_owned(),
        group: task.name().to_owned(),
        task: task.clone(),
        seed: recorded.as_ref().map_or(arguments.seed, |record| record.seed),
        sampling: Sampling {
            temperature: arguments.temperature.unwrap_or(told.temperature),
            max_tokens: arguments.max_tokens.unwrap_or(told.max_tokens),
            ..told
        },
        skill: recorded.as_ref().and_then(skill_of),
    };
    let config = RolloutConfig { concurrency: 1, retries: 0, workspaces: setup::workspaces()? };
    let mut records = Vec::new();
    run_many::<anyhow::Error>(
        vec![spec],
        policy,
        |_| generation.lease(),
        &config,
        &Cancel::new(),
        |episode| {
            records.push(episode);
            Ok(())
        },
    )
    .await?;
    let record = records.pop().context("the episode left no record")?;
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&record)?);
    } else {
        print!("{}", summary(&record));
    }
    Ok(match record.outcome {
        Outcome::Solved => Exit::Done,
        Outcome::Unsolved => Exit::No,
        Outcome::Invalid(_) => Exit::Failed,
    })
}

/// The one episode that is meant.
fn recorded(from: &Path, id: Option<String>) -> Result<EpisodeRecord> {
    let ids = Vec::from_iter(id);
    if ids.is_empty() && !from.is_file() {
        bail!("{} holds many episodes\nhelp: name one with `--episode ID`", from.display());
    }
    let mut found = None;
    export::each(from, &ids, |record| {
        found = Some(record);
        Ok(())
    })?;
    found.with_context(|| format!("{} holds no episode", from.display()))
}

fn parse_price(text: &str) -> Result<Price, String> {
    let number = |text: &str| text.trim().parse::<f64>().ok();
    let parts: Option<Vec<f64>> = text.split(',').map(number).collect();
    let price = match parts.as_deref() {
        Some([prompt, reply]) => Price { prompt: *prompt, reply: *reply },
        _ => return Err("two numbers are needed, such as `3,15`".into()),
    };
    price.is_an_amount().then_some(price).ok_or_else(|| "a price is a number from 0 on".into())
}

async fn generation(
    arguments: &EpisodeArguments,
    pair: Option<&Pair>,
    scratch: &Path,
) -> Result<Arc<Generation>> {
    let (manifest, blobs) = match (&arguments.home, pair, &arguments.harness) {
        (Some(home), ..) => {
            let home = HarnessHome::open(home)?;
            (home.manifest(&home.resolve("current")?)?, home.blobs().clone())
        }
        (None, Some(pair), _) => {
            let blobs = BlobStore::open(scratch)?;
            (pair.harness_in(&blobs)?, blobs)
        }
        (None, None, Some(path)) => {
            let blobs = arguments.blobs.clone().unwrap_or_else(|| scratch.to_owned());
            (HarnessManifest::read(path)?, BlobStore::open(blobs)?)
        }
        (None, None, None) => (HarnessManifest::bare(), BlobStore::open(scratch)?),
    };
    Ok(Generation::build_with(&setup::engine()?, manifest, &blobs, &setup::admission()?).await?)
}

fn summary(record: &EpisodeRecord) -> String {
    let mut text = String::new();
    for (number, turn) in record.turns.iter().enumerate() {
        if let Some(Condensed { from, to, .. }) = &turn.condensed {
            text.push_str(&format!("--- a summary stands for turns {from} to {to}; a new segment begins\n"));
        }
        let cost = if turn.cost > 0.0 { format!(", {} of money", money(turn.cost)) } else { String::new() };
        text.push_str(&format!("--- turn {}{cost}\n{}\n", number + 1, turn.reply.text().trim_end()));
        for call in &turn.calls {
            text.push_str(&format!("> {}\n", call.result.text.trim_end().replace('\n', "\n> ")));
        }
    }
    for effect in &record.effects {
        text.push_str(&format!(
            "hook: turn {}, {} at {}: {}\n",
            effect.turn,
            effect.name,
            effect.point.name(),
            effect.text
        ));
    }
    for fault in &record.faults {
        text.push_str(&format!(
            "fault: turn {}, {} at {}: {}\n",
            fault.turn,
            fault.name,
            fault.point.name(),
            fault.reason
        ));
    }
    let outcome = match record.outcome {
        Outcome::Solved => "solved",
        Outcome::Unsolved => "unsolved",
        Outcome::Invalid(_) => "no verdict",
    };
    text.push_str(&format!(
        "{outcome} after {} turns, harness {}\n",
        record.turns.len(),
        record.harness.short()
    ));
    if record.spent.price != Price::default() {
        let (used, tokens) = (money(record.spent.money.used), record.spent.tokens.used);
        let prompt = record.spent.prompt_tokens;
        text.push_str(&format!("it cost {used}: {prompt} tokens of prompts, {tokens} of replies\n"));
    }
    if let Some(why) = why(record) {
        text.push_str(&format!("because: {why}\n"));
    }
    text
}

/// Why an episode ended otherwise than by a hand-in, in a sentence.
pub(super) fn why(record: &EpisodeRecord) -> Option<String> {
    match &record.exit {
        Ended::Limit { limit, salvaged } => {
            let kept = if *salvaged { "; a hook handed in the work tree" } else { "" };
            Some(format!("{}{kept}", record.spent.told(*limit)))
        }
        Ended::Failed { reason, .. } => Some(reason.clone()),
        Ended::Submitted | Ended::Stopped { .. } => None,
    }
}
