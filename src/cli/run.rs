//! `tandem run`: the agent of a pair on a repository of yours. It works on a copy; what comes out is a patch.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use tandem_host::agent::{EpisodeRecord, Outcome};
use tandem_host::harness::Generation;
use tandem_host::policy::{HttpConfig, HttpPolicy, Policy, Sampling, ScriptedPolicy};
use tandem_host::rollout::{Cancel, EpisodeSpec, RolloutConfig, run_many};
use tandem_host::store::BlobStore;
use tandem_host::task::Task;

use super::pair::{HalvesArguments, warn};
use super::{Exit, episode, setup};
use crate::view::{Progress, Watched};

#[derive(clap::Args)]
pub struct RunArguments {
    /// The pair's folder.
    // Absent with a subcommand alone.
    #[arg(long, required = true)]
    pair: Option<PathBuf>,
    /// The repository: its files as they are now, without `.git`, are copied into a workspace.
    #[arg(long, value_name = "DIR", default_value = ".")]
    repo: PathBuf,
    /// What to do, or a file that says it.
    #[arg(long, value_name = "TEXT|FILE", required = true)]
    task: Option<String>,
    /// A command that must succeed with the patch, in a fresh copy, such as `pytest -q`.
    #[arg(long, value_name = "COMMAND")]
    check: Option<String>,
    /// Write the patch, if there is one, to this file instead of standard output.
    #[arg(long, value_name = "FILE", conflicts_with = "apply")]
    out: Option<PathBuf>,
    /// Apply the patch to the repository, if it applies to a fresh copy and the check succeeds.
    #[arg(long)]
    apply: bool,
    /// Ask an OpenAI-compatible endpoint that serves the pair's policy, instead of loading it.
    #[arg(long, value_name = "URL", conflicts_with = "policy")]
    endpoint: Option<String>,
    /// The model's name at the endpoint.
    #[arg(long, default_value = "default")]
    model: String,
    /// Environment variable that holds the endpoint's key.
    #[arg(long)]
    key_env: Option<String>,
    /// Replies from a file, `{"replies": [...]}`, instead of a policy.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["endpoint", "policy"])]
    script: Option<PathBuf>,
    #[command(flatten)]
    halves: HalvesArguments,
    /// Another seed samples other replies.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Print the whole record as JSON instead of the patch.
    #[arg(long, conflicts_with_all = ["apply", "out"])]
    json: bool,
}

pub async fn run(arguments: RunArguments) -> Result<Exit> {
    let named = arguments.pair.as_deref().context("no pair was named\nhelp: name one with `--pair`")?;
    let pair = arguments.halves.open(named)?;
    let scratch = tempfile::tempdir().context("a scratch folder cannot be made")?;
    let task = task_of(&arguments, &scratch.path().join("task"))?;
    let blobs = BlobStore::open(scratch.path().join("blobs"))?;
    let harness = pair.harness_in(&blobs)?;
    let generation = Generation::build_with(&setup::engine()?, harness, &blobs, &setup::admission()?).await?;
    let progress = Progress::new();
    let policy: Arc<dyn Policy> = match (&arguments.script, &arguments.endpoint) {
        (Some(script), _) => {
            let replies = ScriptedPolicy::read_replies(script)?;
            Arc::new(ScriptedPolicy::new(move |_| replies.clone()))
        }
        (None, Some(url)) => {
            tell_endpoint(url, &pair);
            Arc::new(HttpPolicy::new(HttpConfig {
                url: url.clone(),
                model: arguments.model.clone(),
                key_env: arguments.key_env.clone(),
                ..HttpConfig::default()
            })?)
        }
        (None, None) => {
            let chosen = arguments.halves.chosen();
            let life = progress.sign_of_life("loading the policy");
            let (policy, mismatches) = tokio::task::block_in_place(|| crate::pair::policy(&pair, &chosen))?;
            drop(life);
            warn(&mismatches);
            policy
        }
    };
    let sampling = pair.manifest.policy.sampling.clone();
    let record =
        attend(&arguments, task, Watched::over(policy, progress.clone()), sampling, &generation).await?;
    hand_over(&arguments, &record, &progress)
}

/// What answers at an endpoint has no digest.
pub fn tell_endpoint(url: &str, pair: &crate::pair::Pair) {
    eprintln!(
        "note: what answers at {url} cannot be compared with the policy of the pair, {}",
        pair.manifest.policy.digest
    );
}

/// One episode, on the path that training and evaluation take.
async fn attend(
    arguments: &RunArguments,
    task: Task,
    policy: Watched,
    sampling: Sampling,
    generation: &Arc<Generation>,
) -> Result<EpisodeRecord> {
    let task = Arc::new(task);
    let spec = EpisodeSpec {
        id: task.name().to_owned(),
        group: task.name().to_owned(),
        task,
        seed: arguments.seed,
        sampling,
        skill: None,
    };
    let cancel = Cancel::new();
    let stop = cancel.clone();
    let listening = tokio::spawn(async move {
        if tokio::signal::ctrl_c().await.is_ok() {
            stop.cancel();
        }
    });
    let config = RolloutConfig { concurrency: 1, retries: 0, workspaces: setup::workspaces()? };
    let mut records = Vec::new();
    run_many::<anyhow::Error>(
        vec![spec],
        Arc::new(policy),
        |_| generation.lease(),
        &config,
        &cancel,
        |record| {
            records.push(record);
            Ok(())
        },
    )
    .await?;
    listening.abort();
    records.pop().context("the episode left no record")
}

/// The repository and the text as a task, whose test is the check.
fn task_of(arguments: &RunArguments, folder: &Path) -> Result<Task> {
    let repo = fs::canonicalize(&arguments.repo).with_context(|| {
        format!("the repository {} cannot be opened\nhelp: check `--repo`", arguments.repo.display())
    })?;
    if !repo.is_dir() {
        bail!("{} is no folder\nhelp: give the repository's folder with `--repo`", repo.display());
    }
    let told = arguments.task.as_deref().unwrap_or_default();
    let file = Path::new(told);
    // Words of a language that writes no spaces are no path either.
    let is_word = told.is_ascii() && !told.contains(char::is_whitespace);
    let is_a_path = is_word && (told.contains('/') || file.extension().is_some());
    if is_a_path && !file.is_file() {
        bail!(
            "there is no file `{told}` with a task\nhelp: check the path; a task in words has spaces in it"
        );
    }
    let text = match file.is_file() {
        true => fs::read_to_string(file).with_context(|| format!("{} cannot be read", file.display()))?,
        false => told.to_owned(),
    };
    if text.trim().is_empty() {
        bail!("the task is empty\nhelp: say with `--task` what to do, or name a file that says it");
    }
    let write = |name: &str, text: &str| -> Result<()> {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap_or(folder))?;
        fs::write(&path, text).with_context(|| format!("{} cannot be written", path.display()))
    };
    write("task.toml", "schema_version = \"1.4\"\n[task]\nname = \"run\"\n")?;
    write("instruction.md", &text)?;
    // The verifier applies the patch to a fresh copy before it comes to this.
    write("tests/check.sh", arguments.check.as_deref().unwrap_or("true"))?;
    write(
        "tests/test.sh",
        "if bash /tests/check.sh >&2; then reward=1; else reward=0; fi\necho $reward > /logs/verifier/reward.txt\n",
    )?;
    fs::create_dir_all(folder.join("environment"))?;
    std::os::unix::fs::symlink(&repo, folder.join("environment/workspace"))?;
    Ok(Task::load(folder)?)
}

fn hand_over(arguments: &RunArguments, record: &EpisodeRecord, progress: &Progress) -> Result<Exit> {
    let why = episode::why(record).map(|why| format!(": {why}")).unwrap_or_default();
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(record)?);
    } else if let Some(out) = arguments.out.as_ref().filter(|_| !record.patch.is_empty()) {
        tandem_host::store::write_whole(out, &record.patch)
            .with_context(|| format!("{} cannot be written", out.display()))?;
    } else if !arguments.apply && arguments.out.is_none() {
        std::io::stdout().write_all(&record.patch).context("the patch cannot be written")?;
    }
    let turns = record.turns.len();
    if let Outcome::Invalid(_) = record.outcome {
        bail!("the agent could not work{why}");
    }
    if record.patch.is_empty() {
        let kept = arguments.out.as_ref().map(|out| format!("; {} was not written", out.display()));
        progress.say(&format!("no patch after {turns} turns{}{why}", kept.unwrap_or_default()));
        return Ok(Exit::No);
    }
    if record.outcome == Outcome::Unsolved {
        let what = match arguments.check {
            Some(_) => "does not apply to a fresh copy, or the check fails with it",
            None => "does not apply to a fresh copy",
        };
        progress.say(&format!("the patch {what}; the repository was not touched{why}"));
        return Ok(Exit::No);
    }
    if arguments.apply {
        apply(&arguments.repo, &record.patch)?;
    }
    let done = if arguments.apply { "applied to the repository" } else { "the repository was not touched" };
    progress.say(&format!("a patch of {} bytes after {turns} turns; {done}", record.patch.len()));
    Ok(Exit::Done)
}

/// All of the patch or nothing of it.
fn apply(repo: &Path, patch: &[u8]) -> Result<()> {
    let repo = fs::canonicalize(repo)?;
    let mut git = Command::new("git");
    git.args([
        "-c",
        "core.fsmonitor=false",
        "-c",
        "core.hooksPath=/dev/null",
        "apply",
        "--whitespace=nowarn",
    ]);
    // A folder below another repository is not a part of it here.
    git.env("GIT_CEILING_DIRECTORIES", repo.parent().unwrap_or(&repo)).current_dir(&repo);
    let mut child = git
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .context("git cannot be started\nhelp: install git, or take the patch with `--out FILE`")?;
    let written = child.stdin.take().map(|mut stdin| stdin.write_all(patch));
    let output = child.wait_with_output().context("git did not end")?;
    if !output.status.success() || !matches!(written, Some(Ok(()))) {
        bail!(
            "the patch does not apply to {} as it is now: {}\nhelp: it was changed meanwhile, and nothing of the patch was applied; take the patch with `--out FILE`",
            repo.display(),
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    Ok(())
}
