//! `tandem episode`: one task, one policy, one harness.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use tandem_host::agent::{EpisodeRecord, Outcome};
use tandem_host::harness::{Generation, HarnessHome, HarnessManifest};
use tandem_host::policy::{HttpConfig, HttpPolicy, Policy, Sampling, ScriptedPolicy};
use tandem_host::rollout::{Cancel, EpisodeSpec, RolloutConfig, run_many};
use tandem_host::store::BlobStore;
use tandem_host::task::Task;

use super::{Exit, setup};

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
    /// A harness manifest in TOML.
    #[arg(long, conflicts_with = "pair")]
    harness: Option<PathBuf>,
    /// Folder of blobs in which the manifest's plugins lie.
    #[arg(long, requires = "harness")]
    blobs: Option<PathBuf>,
    /// Take the harness of this pair.
    #[arg(long)]
    pair: Option<PathBuf>,
    /// Take the current harness of this harness home.
    #[arg(long, conflicts_with_all = ["harness", "pair"])]
    home: Option<PathBuf>,
    #[arg(long, default_value_t = 0)]
    seed: u64,
    #[arg(long, default_value_t = 1.0)]
    temperature: f32,
    /// Most tokens of one reply.
    #[arg(long, default_value_t = 1024)]
    max_tokens: usize,
    /// The whole record as JSON instead of a summary.
    #[arg(long)]
    json: bool,
}

pub async fn run(arguments: EpisodeArguments) -> Result<Exit> {
    let task = Arc::new(Task::load(&arguments.task)?);
    let policy: Arc<dyn Policy> = match (&arguments.script, &arguments.endpoint) {
        (Some(script), _) => {
            let replies = ScriptedPolicy::read_replies(script)?;
            Arc::new(ScriptedPolicy::new(move |_| replies.clone()))
        }
        (None, Some(endpoint)) => Arc::new(HttpPolicy::new(HttpConfig {
            url: endpoint.clone(),
            model: arguments.model.clone(),
            key_env: arguments.key_env.clone(),
            ..HttpConfig::default()
        })?),
        (None, None) => bail!("no policy was named\nhelp: give `--endpoint URL` or `--script FILE`"),
    };
    // Blobs of a pair live as long as this folder.
    let scratch = tempfile::tempdir()?;
    let generation = generation(&arguments, scratch.path()).await?;
    let spec = EpisodeSpec {
        id: task.name().to_owned(),
        group: task.name().to_owned(),
        task: task.clone(),
        seed: arguments.seed,
        sampling: Sampling {
            temperature: arguments.temperature,
            max_tokens: arguments.max_tokens,
            ..Sampling::default()
        },
        skill: None,
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

async fn generation(arguments: &EpisodeArguments, scratch: &Path) -> Result<Arc<Generation>> {
    let (manifest, blobs) = match (&arguments.home, &arguments.pair, &arguments.harness) {
        (Some(home), ..) => {
            let home = HarnessHome::open(home)?;
            (home.manifest(&home.resolve("current")?)?, home.blobs().clone())
        }
        (None, Some(pair), _) => {
            let blobs = BlobStore::open(scratch)?;
            (crate::pair::harness(pair, &blobs)?, blobs)
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
        text.push_str(&format!("--- turn {}\n{}\n", number + 1, turn.reply.text().trim_end()));
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
    if let tandem_host::agent::Exit::Failed { reason, .. } = &record.exit {
        text.push_str(&format!("because: {reason}\n"));
    }
    text
}
