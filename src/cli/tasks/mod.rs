//! `tandem tasks`: what is in a task set, can its outcomes be trusted, and how do
//! published data sets and predictions come in and go out? How are tasks made?

mod evaluate;
mod import;
mod mutate;
mod predictions;
mod show;

use std::path::PathBuf;

use anyhow::Result;
use clap::Subcommand;
use tandem_host::task::{Quarantine, TaskSet, validate_folder};

use super::{Exit, setup};
use crate::view::Progress;

#[derive(Subcommand)]
pub enum TasksCommand {
    /// Make task folders from a published data set.
    Import(import::ImportArguments),
    /// Make repair tasks from Python packages with tests, by putting faults into them.
    Mutate(mutate::MutateArguments),
    /// List the tasks of a folder.
    List {
        /// A folder of Harbor tasks.
        tasks: PathBuf,
    },
    /// Show what a task asks for and how it is judged.
    Show {
        /// A folder of Harbor tasks.
        tasks: PathBuf,
        /// The name of the task; may be left out where there is one.
        name: Option<String>,
    },
    /// Show that each task's reference patch passes and the empty patch fails.
    Validate {
        /// A folder of Harbor tasks.
        tasks: PathBuf,
        /// Times that each patch is verified; a task whose verdicts differ is flaky.
        #[arg(long, default_value_t = 1)]
        times: u32,
        /// Write the tasks that are not fit into `quarantine.json` in the folder, so
        /// that no run uses them.
        #[arg(long)]
        quarantine: bool,
        /// JSON instead of text.
        #[arg(long)]
        json: bool,
    },
    /// Judge a file of predictions.
    Evaluate(evaluate::EvaluateArguments),
    /// Write the patches of a run as predictions that SWE-bench's evaluator reads.
    Predictions(predictions::PredictionsArguments),
}

pub async fn run(command: TasksCommand) -> Result<Exit> {
    match command {
        TasksCommand::Import(arguments) => import::run(&arguments),
        TasksCommand::Mutate(arguments) => mutate::run(arguments).await,
        TasksCommand::List { tasks } => {
            let set = TaskSet::load(&tasks)?;
            for task in set.tasks() {
                let place = task.image().map(|image| format!("  {image}")).unwrap_or_default();
                println!("{}  {}{place}", task.name(), task.difficulty().unwrap_or("-"));
            }
            for (name, reason) in &set.quarantine().tasks {
                println!("{name}  in quarantine: {reason}");
            }
            Ok(Exit::Done)
        }
        TasksCommand::Show { tasks, name } => show::run(&tasks, name.as_deref()),
        TasksCommand::Validate { tasks, times, quarantine, json } => {
            let bar =
                Progress::new().start("tasks", TaskSet::load(&tasks).map_or(0, |set| set.tasks().len()));
            let report =
                validate_folder(&tasks, times, &setup::workspaces()?, |report| bar.step(&report.task))
                    .await?;
            if quarantine {
                let path = Quarantine::from_report(&report).write(&tasks)?;
                eprintln!("{} tasks are in `{}`", report.unfit(), path.display());
            }
            if json {
                println!("{}", serde_json::to_string_pretty(&report)?);
            } else {
                println!("{}", report.to_string().trim_end());
            }
            Ok(if report.is_fit() { Exit::Done } else { Exit::No })
        }
        TasksCommand::Evaluate(arguments) => evaluate::run(&arguments).await,
        TasksCommand::Predictions(arguments) => predictions::run(&arguments),
    }
}
