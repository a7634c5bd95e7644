//! `tandem eval`: what did a run bring on tasks that it has not seen?

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use tandem_host::harness::{Generation, HarnessManifest};
use tandem_host::plugin::AdmissionOptions;
use tandem_host::rollout::Cancel;
use tandem_host::store::{BlobStore, Digest, write_whole};
use tandem_host::task::{ResultCache, Task};

use super::{Exit, setup, train};
use crate::campaign::{RunLock, RunRecord, draw_order};
use crate::evaluate::{
    ARMS, Arm, Bench, Choice, Kinds, Machine, Part, Pinned, Source, TaskUse, adopt, arms, check_disjoint,
    differences, evaluation, html, markdown, tasks_in, tasks_of,
};
use crate::model::Devices;
use crate::view::{Progress, first_change};

/// What an evaluation began with, in its folder.
const PLAN: &str = "evaluation.json";

#[derive(clap::Args)]
pub struct EvalArguments {
    /// The run folder. The run may go on meanwhile.
    run: PathBuf,
    /// Held-out tasks; those of `tasks.evaluation` of the campaign if absent.
    #[arg(long, value_name = "DIR")]
    tasks: Option<PathBuf>,
    /// Where the evaluation is kept and its report written; RUN/evaluation if absent. One that was
    /// interrupted goes on.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Arms by name, such as `base,joint`; all that apply if absent.
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    arms: Vec<String>,
    /// Episodes of a task in each arm; pass@k is told up to it.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1024))]
    episodes: u32,
    /// Most held-out tasks, drawn by the seed; 0 takes all.
    #[arg(long, default_value_t = 0)]
    most_tasks: usize,
    /// A human-designed harness to compare with: a manifest in TOML.
    #[arg(long, value_name = "FILE")]
    human: Option<PathBuf>,
    /// Folder of blobs with the components of `--human`.
    #[arg(long, value_name = "DIR", requires = "human")]
    blobs: Option<PathBuf>,
    /// A run that trained the policy under the first harness alone.
    #[arg(long, value_name = "RUN")]
    policy_only: Option<PathBuf>,
    /// A run that evolved the harness for the first policy alone.
    #[arg(long, value_name = "RUN")]
    harness_only: Option<PathBuf>,
    /// Take these runs although they began with another policy, sampling or harness; the report says so.
    #[arg(long)]
    allow_mismatch: bool,
    /// The round after which the harness of the arm `frozen` was in force.
    #[arg(long, default_value_t = 1)]
    frozen_after: u32,
    /// Of the episodes, and of the draws of tasks and intervals.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// `cpu`, or `cuda:N` in a program built for it.
    #[arg(long, default_value = "cpu")]
    device: String,
    /// Tell which arms apply, and run nothing.
    #[arg(long, conflicts_with = "report")]
    list: bool,
    /// Write the report of what is there, and run nothing.
    #[arg(long)]
    report: bool,
    /// JSON instead of Markdown.
    #[arg(long)]
    json: bool,
}

/// What is fixed before the first episode.
#[derive(Serialize, Deserialize)]
struct Plan {
    settings: Settings,
    arms: Vec<Arm>,
    pinned: Pinned,
    /// In what the runs of other arms began otherwise.
    mismatches: Vec<String>,
    /// The run's newest event at that time.
    run_head: Option<Digest>,
}

/// What must be asked for again to go on.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
struct Settings {
    run: String,
    /// The runs of other arms: of an option, its folder.
    others: BTreeMap<String, String>,
    choice: Choice,
    episodes: u32,
    seed: u64,
    tasks: BTreeSet<String>,
}

pub async fn run(arguments: EvalArguments) -> Result<Exit> {
    let mut sources = vec![Source::open(&arguments.run)?];
    let mut place = |run: &Option<PathBuf>| -> Result<Option<usize>> {
        let Some(run) = run else { return Ok(None) };
        sources.push(Source::open(run)?);
        Ok(Some(sources.len() - 1))
    };
    let (policy_only, harness_only) = (place(&arguments.policy_only)?, place(&arguments.harness_only)?);
    let others = [("--policy-only", policy_only), ("--harness-only", harness_only)];
    let mismatches = mismatches(&sources, others)?;
    if !mismatches.is_empty() && !arguments.allow_mismatch {
        bail!(
            "{}\nhelp: take a run that began as the evaluated one did; `--allow-mismatch` takes it all the same, and the report says so",
            mismatches.join("; ")
        );
    }
    let (held_out, training) = tasks(&arguments, &sources)?;
    let out = arguments.out.clone().unwrap_or_else(|| arguments.run.join("evaluation"));
    let _lock = RunLock::take(&out, Duration::from_secs(5))?;
    let own = RunRecord::open(&out)?;
    // The same patch of the same task is judged once, in whichever arm it is handed in.
    let verdicts = ResultCache::new(out.join("verdicts"));
    held_out.values().chain(training.values()).for_each(|task| task.keep_verdicts(verdicts.clone()));
    let choice = Choice {
        arms: arguments.arms.iter().cloned().collect(),
        human: human(&arguments, &own)?,
        policy_only,
        harness_only,
        frozen_after: arguments.frozen_after,
    };
    let admission = setup::admission()?;
    let forbidden = held_out.keys().chain(training.keys()).cloned().collect();
    let workspaces = setup::workspaces_or(sources[0].config.workspaces.clone())?;
    let machine = Machine {
        engine: setup::engine()?,
        // No plugin may hold the name of a task.
        admission: AdmissionOptions { forbidden, ..admission },
        workspaces,
        cancel: Cancel::new(),
        progress: Progress::new(),
        devices: Devices::parse(&arguments.device, None)?,
    };
    let settings = Settings {
        run: arguments.run.display().to_string(),
        others: [("--policy-only", &arguments.policy_only), ("--harness-only", &arguments.harness_only)]
            .into_iter()
            .filter_map(|(option, run)| Some((option.to_owned(), run.as_ref()?.display().to_string())))
            .collect(),
        choice,
        episodes: arguments.episodes,
        seed: arguments.seed,
        tasks: held_out.keys().cloned().collect(),
    };
    let plan = plan(&out, settings, mismatches, &sources, &own, &machine).await?;
    if arguments.list {
        plan.arms.iter().for_each(|arm| println!("{:14} {}", arm.name, arm.told));
        return Ok(Exit::Done);
    }
    write_whole(&out.join(PLAN), &serde_json::to_vec_pretty(&plan)?)?;
    let episodes = plan.settings.episodes as usize;
    let bench = Bench {
        own: &own,
        sources: &sources,
        machine: &machine,
        held_out,
        training,
        pinned: &plan.pinned,
        episodes,
        seed: plan.settings.seed,
    };
    if !arguments.report {
        train::stop_on_signal(&machine.cancel, &machine.progress);
        bench.run(&plan.arms).await.with_context(|| {
            format!(
                "the evaluation stopped; nothing recorded is lost\nhelp: the same command goes on with {}",
                out.display()
            )
        })?;
    }
    let mut sizes = BTreeMap::new();
    for part in Part::ALL {
        sizes.insert(part, bench.tasks(part).len());
    }
    let about = (sources[0].config.name.clone(), plan.settings.run.clone(), plan.run_head);
    let mut found = evaluation(&own, &plan.arms, &sizes, about, (episodes, plan.settings.seed))?;
    found.mismatches = plan.mismatches;
    let (page, text) = (html(&found), markdown(&found));
    write_whole(&out.join("report.md"), text.as_bytes())?;
    write_whole(&out.join("report.html"), page.as_bytes())?;
    match arguments.json {
        true => println!("{}", serde_json::to_string_pretty(&found)?),
        false => print!("{text}"),
    }
    machine.progress.say(&format!("report.md and report.html are in {}", out.display()));
    Ok(Exit::Done)
}

/// In what the runs that options named began otherwise than the first one.
fn mismatches(sources: &[Source], others: [(&str, Option<usize>); 2]) -> Result<Vec<String>> {
    let mut all = Vec::new();
    for (option, at) in others {
        let Some(at) = at else { continue };
        let found = differences(&sources[0], &sources[at])?;
        all.extend(found.iter().map(|difference| difference.told(option)));
    }
    Ok(all)
}

type Tasks = BTreeMap<String, Arc<Task>>;

/// The held-out tasks and those that the run was trained on, once it is clear that they are apart.
fn tasks(arguments: &EvalArguments, sources: &[Source]) -> Result<(Tasks, Tasks)> {
    let config = &sources[0].config;
    let training = tasks_of(&config.tasks.train)?;
    let folder = arguments.tasks.clone().or_else(|| config.tasks.evaluation.clone()).context(
        "the campaign names no tasks for an evaluation\nhelp: name held-out tasks with `--tasks DIR`",
    )?;
    let mut held_out = tasks_of(&folder)?;
    let used = |name, tasks: &Tasks| TaskUse { name, tasks: tasks.values().cloned().collect() };
    // Gates draw from the training tasks.
    let mut uses = vec![used("training", &training), used("held-out", &held_out)];
    if let Some(holdout) = &config.evolve.holdout {
        uses.push(TaskUse { name: "hold-out", tasks: tasks_in(&holdout.tasks)? });
    }
    check_disjoint(&uses)?;
    for source in &sources[1..] {
        let others = tasks_of(&source.config.tasks.train)?;
        check_disjoint(&[used("training", &others), used("held-out", &held_out)])?;
    }
    if arguments.most_tasks > 0 {
        let names: Vec<_> = held_out.keys().cloned().collect();
        let drawn = draw_order(arguments.seed, "evaluate", &names);
        held_out.retain(|name, _| drawn[..arguments.most_tasks.min(drawn.len())].contains(name));
    }
    Ok((held_out, training))
}

/// Keeps the given harness with its components.
fn human(arguments: &EvalArguments, own: &RunRecord) -> Result<Option<Digest>> {
    let Some(file) = &arguments.human else { return Ok(None) };
    let manifest = HarnessManifest::read(file)?;
    if let Some(blobs) = &arguments.blobs {
        let blobs = BlobStore::open(blobs)?;
        for plugin in &manifest.plugins {
            own.blobs().put(&blobs.get(&plugin.digest)?)?;
        }
    }
    Ok(Some(own.add_harness(&manifest)?))
}

/// The plan of the folder, or a new one.
async fn plan(
    out: &Path,
    settings: Settings,
    mismatches: Vec<String>,
    sources: &[Source],
    own: &RunRecord,
    machine: &Machine,
) -> Result<Plan> {
    let kept = out.join(PLAN);
    if kept.exists() {
        let text =
            std::fs::read_to_string(&kept).with_context(|| format!("{} cannot be read", kept.display()))?;
        let plan: Plan = serde_json::from_str(&text).with_context(|| {
            format!("{} is no plan of this version\nhelp: take another folder with `--out`", kept.display())
        })?;
        if plan.settings != settings {
            let texts = (serde_json::to_string(&plan.settings)?, serde_json::to_string(&settings)?);
            let change = first_change(&texts.0, &texts.1).map(|change| format!(": {change}"));
            bail!(
                "{} holds an evaluation that was begun with other settings{}\nhelp: give the same arguments to go on with it, or take another folder with `--out`",
                out.display(),
                change.unwrap_or_default()
            );
        }
        return Ok(plan);
    }
    // Of a run that goes on, all that follows is read as of one moment.
    let _moments = sources.iter().map(|source| source.record.moment()).collect::<Result<Vec<_>>>()?;
    let record = &sources[0].record;
    let run_head = record.head()?.map(|head| head.digest);
    for source in sources {
        let all: BTreeSet<Digest> =
            source.record.publications()?.into_iter().map(|publication| publication.digest).collect();
        for digest in all {
            adopt(own, &digest, sources)?;
        }
    }
    let mut with_tools = BTreeSet::new();
    if let Some(last) = record.publications()?.last() {
        let manifest = own.harness(&last.digest)?;
        let generation =
            Generation::build_with(&machine.engine, manifest, own.blobs(), &machine.admission).await?;
        let facts = generation.facts().into_iter().filter(|plugin| !plugin.tools.is_empty());
        with_tools.extend(facts.map(|plugin| plugin.name));
    }
    let records: Vec<&RunRecord> = sources.iter().map(|source| &source.record).collect();
    let kinds = Kinds { with_tools: &with_tools };
    let pinned = Pinned::of(record, own)?;
    let arms = arms(&records, &sources[0].config, &settings.choice, &kinds, &pinned, own)?;
    debug_assert!(arms.iter().all(|arm| ARMS.iter().any(|(name, _)| *name == arm.name)));
    Ok(Plan { settings, arms, pinned, mismatches, run_head })
}
