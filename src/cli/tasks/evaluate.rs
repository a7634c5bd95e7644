//! `tandem tasks evaluate`: predictions to verdicts, and a report as SWE-bench's.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Result, bail};
use serde::Serialize;
use tandem_host::task::{EVALUATOR, ResultCache, TaskSet, read_predictions};

use crate::cli::{Exit, setup};
use crate::view::Progress;

#[derive(clap::Args)]
pub struct EvaluateArguments {
    /// A folder of tasks.
    tasks: PathBuf,
    /// Predictions as SWE-bench's evaluator reads them (`.jsonl` or `.json`).
    #[arg(long)]
    predictions: PathBuf,
    /// Folder in which verdicts are kept by patch, task and evaluator.
    #[arg(long)]
    cache: Option<PathBuf>,
    /// Where the report is written as JSON.
    #[arg(long)]
    report: Option<PathBuf>,
}

/// The report. Names and meaning of the fields are those of SWE-bench's, version 2;
/// a patch without a verdict is among the errors and in no other list.
#[derive(Debug, Default, Serialize)]
struct Report {
    total_instances: usize,
    submitted_instances: usize,
    completed_instances: usize,
    resolved_instances: usize,
    unresolved_instances: usize,
    empty_patch_instances: usize,
    error_instances: usize,
    completed_ids: Vec<String>,
    incomplete_ids: Vec<String>,
    empty_patch_ids: Vec<String>,
    submitted_ids: Vec<String>,
    resolved_ids: Vec<String>,
    unresolved_ids: Vec<String>,
    error_ids: Vec<String>,
    failure_reasons: BTreeMap<String, String>,
    schema_version: u32,
    evaluator: &'static str,
    /// Verdicts that were kept from before.
    cached_instances: usize,
}

pub async fn run(arguments: &EvaluateArguments) -> Result<Exit> {
    let set = TaskSet::load(&arguments.tasks)?;
    let predictions = read_predictions(&arguments.predictions)?;
    let known = |id: &str| set.tasks().iter().find(|task| task.instance_id() == id || task.name() == id);
    if let Some(unknown) = predictions.iter().find(|prediction| known(&prediction.instance_id).is_none()) {
        bail!(
            "there is no task for the prediction `{}`\nhelp: `tandem tasks list` shows the names",
            unknown.instance_id
        );
    }
    let config = setup::workspaces()?;
    let cache = arguments.cache.as_ref().map(ResultCache::new);
    let mut report = Report { schema_version: 2, evaluator: EVALUATOR, ..Report::default() };
    report.total_instances = set.tasks().len();
    report.submitted_instances = predictions.len();
    let bar = Progress::new().start("predictions", predictions.len());
    for prediction in &predictions {
        let id = prediction.instance_id.clone();
        report.submitted_ids.push(id.clone());
        let (Some(task), Some(patch)) = (known(&id), prediction.patch()) else {
            report.empty_patch_ids.push(id.clone());
            bar.step(&id);
            continue;
        };
        let judged = match &cache {
            Some(cache) => cache.verify(task, patch.as_bytes(), &config).await,
            None => task.verify(patch.as_bytes(), &config).await.map(|verdict| (verdict, false)),
        };
        match judged {
            Ok((verdict, kept)) => {
                report.cached_instances += usize::from(kept);
                report.completed_ids.push(id.clone());
                if verdict.solved {
                    report.resolved_ids.push(id.clone());
                } else {
                    let why = verdict.output.lines().next().unwrap_or_default();
                    report.failure_reasons.insert(id.clone(), why.to_owned());
                    report.unresolved_ids.push(id.clone());
                }
            }
            Err(error) => {
                let text = error.to_string();
                report.failure_reasons.insert(id.clone(), text.lines().next().unwrap_or_default().to_owned());
                report.error_ids.push(id.clone());
            }
        }
        bar.step(&id);
    }
    let submitted = |name: &str| predictions.iter().any(|prediction| prediction.instance_id == name);
    for task in set.tasks() {
        if !submitted(task.instance_id()) && !submitted(task.name()) {
            report.incomplete_ids.push(task.instance_id().to_owned());
        }
    }
    for ids in [
        &mut report.completed_ids,
        &mut report.incomplete_ids,
        &mut report.empty_patch_ids,
        &mut report.submitted_ids,
        &mut report.resolved_ids,
        &mut report.unresolved_ids,
        &mut report.error_ids,
    ] {
        ids.sort();
    }
    report.completed_instances = report.completed_ids.len();
    report.resolved_instances = report.resolved_ids.len();
    report.unresolved_instances = report.unresolved_ids.len();
    report.empty_patch_instances = report.empty_patch_ids.len();
    report.error_instances = report.error_ids.len();
    println!(
        "{} predictions for {} tasks: {} resolved, {} unresolved, {} empty, {} without a verdict",
        report.submitted_instances,
        report.total_instances,
        report.resolved_instances,
        report.unresolved_instances,
        report.empty_patch_instances,
        report.error_instances,
    );
    for id in &report.error_ids {
        println!("no verdict: {}", report.failure_reasons[id]);
    }
    if let Some(path) = &arguments.report {
        let text = serde_json::to_string_pretty(&report)? + "\n";
        tandem_host::store::write_whole(path, text.as_bytes())?;
    }
    Ok(if report.error_ids.is_empty() { Exit::Done } else { Exit::No })
}
