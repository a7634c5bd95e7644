//! `tandem run bisect`: which publication changed what is solved of these tasks?

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tandem_host::plugin::AdmissionOptions;
use tandem_host::rollout::Cancel;

use super::{Exit, setup, train};
use crate::campaign::{RunLock, RunRecord, UpdateReport};
use crate::evaluate::{
    Asked, Bench, Bisected, Machine, Pinned, Source, adopt, bisect_places, bisect_recorded, bisect_search,
    culprit, tasks_of,
};
use crate::model::Devices;
use crate::view::Progress;

#[derive(clap::Args)]
pub struct BisectArguments {
    /// The run folder.
    run: PathBuf,
    /// Two published harnesses, by the first digits of their digests.
    #[arg(long, num_args = 2, value_names = ["FROM", "TO"], required = true)]
    between: Vec<String>,
    /// Tasks by name.
    #[arg(long, value_delimiter = ',', required = true, value_name = "NAMES")]
    tasks: Vec<String>,
    /// Fewest episodes on each side of a publication, and with `--rerun` the episodes of each task.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1024))]
    episodes: u32,
    /// Run episodes where too few are recorded.
    #[arg(long)]
    rerun: bool,
    /// The policy that is asked with `--rerun`; the newest if absent.
    #[arg(long, value_name = "VERSION", requires = "rerun")]
    policy: Option<u64>,
    /// `cpu`, or `cuda:N` in a program built for it.
    #[arg(long, default_value = "cpu")]
    device: String,
    /// JSON instead of text.
    #[arg(long)]
    json: bool,
}

pub async fn run(arguments: BisectArguments) -> Result<Exit> {
    let record = setup::existing_record(&arguments.run)?;
    let tasks: BTreeSet<String> = arguments.tasks.iter().cloned().collect();
    let known: BTreeSet<String> = record.episodes()?.into_iter().map(|row| row.task).collect();
    if let Some(task) = tasks.iter().find(|task| !known.contains(*task)) {
        bail!(
            "the run has no episode of a task `{task}`\nhelp: `tandem run events RUN --kind episode` tells them"
        );
    }
    let (from, to) = bisect_places(&record, &arguments.between[0], &arguments.between[1])?;
    let need = arguments.episodes as usize;
    let asked = Asked { record: &record, tasks: &tasks, from, to, need };
    let steps = bisect_recorded(&asked)?;
    let open = steps.iter().filter(|step| step.evidence.is_none()).count();
    let found = match (open, arguments.rerun) {
        (0, _) => {
            Bisected { tasks: tasks.iter().cloned().collect(), culprit: culprit(&steps), steps, run: 0 }
        }
        (_, true) => rerun(&arguments, &asked).await?,
        (_, false) => {
            eprint!("{}", Bisected { tasks: Vec::new(), culprit: None, steps, run: 0 }.steps_told());
            bail!(
                "{open} of {} publications have fewer than {need} recorded episodes of these tasks on a side\nhelp: add `--rerun` to run some, or lower `--episodes`",
                to - from
            );
        }
    };
    match arguments.json {
        true => println!("{}", serde_json::to_string_pretty(&found)?),
        false => print!("{found}"),
    }
    Ok(if found.culprit.is_some() { Exit::Done } else { Exit::No })
}

/// Runs what is needed, in a record of its own below the run.
async fn rerun(arguments: &BisectArguments, asked: &Asked<'_>) -> Result<Bisected> {
    let sources = vec![Source::open(&arguments.run)?];
    let out = arguments.run.join("bisect");
    let _lock = RunLock::take(&out, Duration::from_secs(5))?;
    let own = RunRecord::open(&out)?;
    let config = &sources[0].config;
    let mut all = tasks_of(&config.tasks.train)?;
    if let Some(folder) = &config.tasks.evaluation {
        all.extend(tasks_of(folder)?);
    }
    all.retain(|name, _| asked.tasks.contains(name));
    if let Some(task) = asked.tasks.iter().find(|task| !all.contains_key(*task)) {
        bail!("the task `{task}` is not in the task sets of the run any more\nhelp: bring it back");
    }
    let publications = asked.record.publications()?;
    for publication in &publications[asked.from..=asked.to] {
        adopt(&own, &publication.digest, &sources)?;
    }
    let newest = asked.record.phases::<UpdateReport>("update")?;
    let newest = newest.iter().map(|(.., update)| update.version).max().unwrap_or(0);
    let machine = Machine {
        engine: setup::engine()?,
        admission: AdmissionOptions { forbidden: all.keys().cloned().collect(), ..setup::admission()? },
        workspaces: setup::workspaces_or(config.workspaces.clone())?,
        cancel: Cancel::new(),
        progress: Progress::new(),
        devices: Devices::parse(&arguments.device, None)?,
    };
    train::stop_on_signal(&machine.cancel, &machine.progress);
    let bench = Bench {
        own: &own,
        sources: &sources,
        machine: &machine,
        held_out: all,
        training: BTreeMap::new(),
        pinned: &Pinned::default(),
        episodes: asked.need,
        seed: config.seed,
    };
    let version = arguments.policy.unwrap_or(newest);
    bisect_search(&bench, asked, version)
        .await
        .context("the bisection stopped; the same command goes on with it")
}
