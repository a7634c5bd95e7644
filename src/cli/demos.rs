//! `tandem demos`: record demonstrations from tasks that carry scripted replies.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Result, bail};
use tandem_host::harness::{Generation, HarnessManifest};
use tandem_host::policy::{Sampling, ScriptedPolicy};
use tandem_host::rollout::{Cancel, EpisodeSpec, RolloutConfig, run_many};
use tandem_host::task::TaskSet;

use super::{Exit, setup};
use crate::campaign::demos::{self, Demonstration};
use crate::view::Progress;

#[derive(clap::Args)]
pub struct DemosArguments {
    /// A folder of tasks with `solution/demo.json`.
    tasks: PathBuf,
    /// The harness manifest whose prompts and limits the demonstrations have.
    #[arg(long)]
    harness: PathBuf,
    /// The file to write, one conversation a line.
    #[arg(long)]
    out: PathBuf,
    /// Episodes at once.
    #[arg(long, default_value_t = 4)]
    concurrency: usize,
}

pub async fn run(arguments: DemosArguments) -> Result<Exit> {
    let set = TaskSet::load(&arguments.tasks)?;
    let mut manifest = HarnessManifest::read(&arguments.harness)?;
    manifest.plugins.clear();
    let mut replies = BTreeMap::new();
    let mut specs = Vec::new();
    for task in set.tasks() {
        let path = task.folder().join("solution/demo.json");
        if !path.exists() {
            continue;
        }
        replies.insert(task.name().to_owned(), ScriptedPolicy::read_replies(&path)?);
        specs.push(EpisodeSpec {
            id: task.name().to_owned(),
            group: task.name().to_owned(),
            task: task.clone(),
            seed: 0,
            sampling: Sampling::default(),
            skill: None,
        });
    }
    if specs.is_empty() {
        bail!(
            "no task in {} has scripted replies\nhelp: put {{\"replies\": [...]}} into solution/demo.json of a task",
            arguments.tasks.display()
        );
    }
    // A script that is longer than the limit would be cut off and count as failed.
    let longest = replies.values().map(Vec::len).max().unwrap_or(0) as u64;
    manifest.limits.turns = manifest.limits.turns.max(longest);
    let generation = Arc::new(Generation::bare(manifest));
    let config =
        RolloutConfig { concurrency: arguments.concurrency, retries: 2, workspaces: setup::workspaces()? };
    let total = specs.len();
    let bar = Progress::new().start("demonstrations", total);
    let mut found: BTreeMap<String, Demonstration> = BTreeMap::new();
    let policy = Arc::new(ScriptedPolicy::by_task(replies));
    run_many::<anyhow::Error>(
        specs,
        policy,
        |_| generation.lease(),
        &config,
        &Cancel::new(),
        |episode| {
            if let Some(demonstration) = Demonstration::of(&episode) {
                found.insert(episode.task.clone(), demonstration);
            }
            bar.advance(&episode);
            Ok(())
        },
    )
    .await?;
    bar.finish();
    let solved: Vec<_> = found.into_values().collect();
    demos::write(&arguments.out, &solved)?;
    println!(
        "{} of {total} scripted episodes solved their task; written to {}",
        solved.len(),
        arguments.out.display()
    );
    Ok(Exit::Done)
}
