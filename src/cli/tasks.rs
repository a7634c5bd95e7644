//! `tandem tasks`: what is in a task set, and can its outcomes be trusted?

use std::path::PathBuf;

use anyhow::Result;
use clap::Subcommand;
use tandem_host::task::{TaskSet, validate_folder};

use super::{Exit, setup};
use crate::view::Progress;

#[derive(Subcommand)]
pub enum TasksCommand {
    /// List the tasks of a folder.
    List {
        /// A folder of Harbor tasks.
        tasks: PathBuf,
    },
    /// Show that each task's reference patch passes and the empty patch fails.
    Validate {
        /// A folder of Harbor tasks.
        tasks: PathBuf,
        /// Times that each patch is verified; a task whose verdicts differ is flaky.
        #[arg(long, default_value_t = 1)]
        times: u32,
        /// JSON instead of text.
        #[arg(long)]
        json: bool,
    },
}

pub async fn run(command: TasksCommand) -> Result<Exit> {
    match command {
        TasksCommand::List { tasks } => {
            for task in TaskSet::load(&tasks)?.tasks() {
                println!("{}  {}", task.name(), task.difficulty().unwrap_or("-"));
            }
            Ok(Exit::Done)
        }
        TasksCommand::Validate { tasks, times, json } => {
            let bar =
                Progress::new().start("tasks", TaskSet::load(&tasks).map_or(0, |set| set.tasks().len()));
            let report =
                validate_folder(&tasks, times, &setup::workspaces()?, |report| bar.step(&report.task))
                    .await?;
            if json {
                println!("{}", serde_json::to_string_pretty(&report)?);
            } else {
                print!("{report}");
            }
            Ok(if report.is_fit() { Exit::Done } else { Exit::No })
        }
    }
}
