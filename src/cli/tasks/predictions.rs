//! `tandem tasks predictions`: the patches of a run, for SWE-bench's own evaluator.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Result, bail};
use tandem_host::task::{Prediction, TaskSet};

use crate::campaign::Arm;
use crate::cli::{Exit, setup};

#[derive(clap::Args)]
pub struct PredictionsArguments {
    /// The run folder.
    run: PathBuf,
    /// The name that the predictions carry as `model_name_or_path`.
    #[arg(long)]
    model: String,
    /// The file to write: one prediction on each line.
    #[arg(long)]
    out: PathBuf,
    /// The policy version; the newest that was evaluated when not given.
    #[arg(long)]
    policy_version: Option<u64>,
    /// The first digits of the harness digest; the last one published when not given.
    #[arg(long)]
    harness: Option<String>,
    /// Take a task's episode of this number instead of its first, where there are several.
    #[arg(long, default_value_t = 1)]
    episode: usize,
    /// The folder of tasks, for the names that the data set gives them.
    #[arg(long)]
    tasks: Option<PathBuf>,
}

pub fn run(arguments: &PredictionsArguments) -> Result<Exit> {
    let record = setup::existing_record(&arguments.run)?;
    let names: BTreeMap<String, String> = match &arguments.tasks {
        Some(folder) => {
            let set = TaskSet::load(folder)?;
            let named = |task: &std::sync::Arc<tandem_host::task::Task>| {
                (task.name().to_owned(), task.instance_id().to_owned())
            };
            set.tasks().iter().map(named).collect()
        }
        None => BTreeMap::new(),
    };
    // The cells of the final table where there is one; else what was collected.
    let mut rows = record.episodes()?;
    let evaluated = rows.iter().any(|row| row.arm == Arm::Evaluate.name());
    let arm = if evaluated { Arm::Evaluate } else { Arm::Collect };
    rows.retain(|row| row.arm == arm.name());
    let newest = rows.iter().map(|row| row.policy_version).max();
    let version = arguments.policy_version.or(newest);
    rows.retain(|row| Some(row.policy_version) == version);
    match (&arguments.harness, record.publications()?.last()) {
        (Some(wanted), _) => {
            let wanted = wanted.trim_start_matches("sha256:");
            rows.retain(|row| row.harness.hex().starts_with(wanted));
        }
        (None, Some(last)) if rows.iter().any(|row| row.harness == last.digest) => {
            rows.retain(|row| row.harness == last.digest);
        }
        _ => {}
    }
    let mut by_task: BTreeMap<&str, Vec<_>> = BTreeMap::new();
    for row in &rows {
        by_task.entry(&row.task).or_default().push(row);
    }
    if by_task.is_empty() {
        bail!(
            "the run `{}` has no such episode\nhelp: `tandem report` shows its policy versions and harnesses",
            arguments.run.display()
        );
    }
    let (mut lines, mut without) = (String::new(), 0);
    for (task, episodes) in by_task {
        // An episode without an outcome says nothing of the policy; the next one may.
        let valid: Vec<_> = episodes.into_iter().filter(|row| row.valid()).collect();
        let Some(row) = valid.get(arguments.episode.max(1) - 1).or(valid.last()) else {
            without += 1;
            continue;
        };
        let episode = record.episode_facts(row)?;
        let name = names.get(task).map_or(task, String::as_str);
        let prediction = Prediction::new(name, &arguments.model, &episode.patch)?;
        lines.push_str(&serde_json::to_string(&prediction)?);
        lines.push('\n');
    }
    tandem_host::store::write_whole(&arguments.out, lines.as_bytes())?;
    println!("{} predictions in `{}`", lines.lines().count(), arguments.out.display());
    if without > 0 {
        println!("{without} tasks have no episode with an outcome and are left out");
    }
    Ok(Exit::Done)
}
