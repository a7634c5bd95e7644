//! Is a task fit for use? Its reference patch must pass and the empty patch fail.

use std::fmt;
use std::path::Path;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::error::TaskError;
use super::load::{Reference, Task, task_folders};
use crate::workspace::{Mount, SandboxCommand, Workspace, WorkspaceConfig};

/// How often a patch solved a task.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Check {
    pub solved: u32,
    pub runs: u32,
}

/// What validation found of one task.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TaskReport {
    pub task: String,
    pub difficulty: Option<String>,
    /// The reference patch; it must be solved in every run.
    pub reference: Check,
    /// The empty patch; it must be solved in none.
    pub empty: Check,
    /// What is wrong, with the next step; none if the task is fit.
    pub trouble: Option<String>,
    /// What the task asks for and this host does not do.
    pub notes: Vec<String>,
    /// Wall-clock seconds of all runs.
    pub seconds: f64,
}

impl TaskReport {
    /// Whether the task is fit for use.
    pub fn is_fit(&self) -> bool {
        self.trouble.is_none()
    }
}

/// What validation found of a folder of tasks. Its `Display` is a table.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ValidationReport {
    pub tasks: Vec<TaskReport>,
}

impl ValidationReport {
    /// Whether every task is fit for use.
    pub fn is_fit(&self) -> bool {
        self.unfit() == 0
    }

    /// How many tasks are not.
    pub fn unfit(&self) -> usize {
        self.tasks.iter().filter(|task| !task.is_fit()).count()
    }
}

/// Runs reference and empty patch `times` times each.
pub async fn validate(task: &Task, times: u32, config: &WorkspaceConfig) -> TaskReport {
    let start = Instant::now();
    let mut report = TaskReport {
        task: task.name().to_owned(),
        difficulty: task.difficulty().map(str::to_owned),
        reference: Check::default(),
        empty: Check::default(),
        trouble: None,
        notes: task.notes().to_vec(),
        seconds: 0.0,
    };
    report.trouble = judge(task, times, config, &mut report).await.err();
    report.seconds = start.elapsed().as_secs_f64();
    report
}

/// Validates every task of a folder, broken ones too; `on_report` is called after each.
///
/// # Errors
/// A folder that cannot be read or holds no tasks.
pub async fn validate_folder(
    folder: &Path,
    times: u32,
    config: &WorkspaceConfig,
    mut on_report: impl FnMut(&TaskReport),
) -> Result<ValidationReport, TaskError> {
    let mut tasks = Vec::new();
    for folder in task_folders(folder)? {
        let unread = match Task::load_all(&folder) {
            Ok(found) => {
                for task in found {
                    let report = validate(&task, times, config).await;
                    on_report(&report);
                    tasks.push(report);
                }
                continue;
            }
            Err(error) => TaskReport {
                task: folder.file_name().unwrap_or(folder.as_os_str()).to_string_lossy().into_owned(),
                difficulty: None,
                reference: Check::default(),
                empty: Check::default(),
                trouble: Some(error.to_string()),
                notes: Vec::new(),
                seconds: 0.0,
            },
        };
        on_report(&unread);
        tasks.push(unread);
    }
    Ok(ValidationReport { tasks })
}

/// Fills in the counts; the error is the trouble to report.
async fn judge(
    task: &Task,
    times: u32,
    config: &WorkspaceConfig,
    report: &mut TaskReport,
) -> Result<(), String> {
    let reference = match task.reference().map_err(|error| error.to_string())? {
        Some(Reference::Patch(patch)) => patch,
        Some(Reference::Script(script)) => solve(task, &script, config).await?,
        None => {
            return Err("there is no reference solution\n\
                 help: add `solution/patch.diff` or `solution/solve.sh`"
                .into());
        }
    };
    let mut last = None;
    for _ in 0..times {
        let verdict = task.verify_afresh(&reference, config).await.map_err(|error| error.to_string())?;
        report.reference.runs += 1;
        report.reference.solved += u32::from(verdict.solved);
        if !verdict.applied {
            return Err(format!(
                "the reference patch does not apply\n\
                 help: make it again with `git diff` in a copy of `environment/workspace`; {}",
                verdict.output
            ));
        }
        if !verdict.solved {
            last = Some(verdict);
        }
    }
    if let Some(verdict) = last {
        flaky("the reference patch", &report.reference)?;
        return Err(format!(
            "the reference patch is not solved (reward {})\n\
             help: the tests' output ends with:\n{}",
            verdict.reward, verdict.output
        ));
    }
    for _ in 0..times {
        let verdict = task.verify_afresh(b"", config).await.map_err(|error| error.to_string())?;
        report.empty.runs += 1;
        report.empty.solved += u32::from(verdict.solved);
    }
    if report.empty.solved > 0 {
        flaky("the empty patch", &report.empty)?;
        return Err("the empty patch is solved\n\
             help: add a test that fails on the files as they are"
            .into());
    }
    Ok(())
}

/// An error where a patch is solved in some runs and not in others.
pub(super) fn flaky(patch: &str, check: &Check) -> Result<(), String> {
    if check.solved == 0 || check.solved == check.runs {
        return Ok(());
    }
    Err(format!(
        "the task is flaky: {patch} is solved in {} of {} runs\n\
         help: mend what depends on time, order or chance, or keep the task out with `--quarantine`",
        check.solved, check.runs
    ))
}

/// Runs `solve.sh` in a workspace as the oracle agent does, and takes its patch.
async fn solve(task: &Task, script: &Path, config: &WorkspaceConfig) -> Result<Vec<u8>, String> {
    let snapshot = task.snapshot(config).await.map_err(|error| error.to_string())?;
    let folder = script.parent().unwrap_or(script);
    let solution = crate::workspace::Folder::copy_of(folder, config).map_err(|error| error.to_string())?;
    let mounts = vec![Mount::read_only(solution.path(), "/solution")];
    let workspace =
        Workspace::create_with(snapshot, config, mounts).await.map_err(|error| error.to_string())?;
    let command = SandboxCommand::argv(["/bin/bash", "/solution/solve.sh"], Duration::from_secs(600));
    let output = workspace.run(&command).await.map_err(|error| error.to_string())?;
    if output.exit_code != Some(0) {
        let text = String::from_utf8_lossy(&output.output.bytes()).trim().to_owned();
        return Err(format!("`solution/solve.sh` failed\nhelp: its output is:\n{text}"));
    }
    Ok(workspace.extract().await.map_err(|error| error.to_string())?.patch)
}

impl fmt::Display for ValidationReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.tasks.iter().map(|task| task.task.chars().count()).max().unwrap_or(0).max(4);
        writeln!(
            f,
            "{:width$}  {:10}  {:>9}  {:>6}  {:>7}  verdict",
            "task", "difficulty", "reference", "empty", "seconds"
        )?;
        for task in &self.tasks {
            let count = |check: &Check| format!("{}/{}", check.solved, check.runs);
            writeln!(
                f,
                "{:width$}  {:10}  {:>9}  {:>6}  {:>7.2}  {}",
                task.task,
                task.difficulty.as_deref().unwrap_or("-"),
                count(&task.reference),
                count(&task.empty),
                task.seconds,
                if task.is_fit() { "fit" } else { "NOT FIT" },
            )?;
        }
        let unfit = self.unfit();
        write!(f, "\n{} tasks, {} fit, {unfit} not fit", self.tasks.len(), self.tasks.len() - unfit)?;
        for task in &self.tasks {
            if let Some(trouble) = &task.trouble {
                write!(f, "\n\n{}: {trouble}", task.task)?;
            }
        }
        let mut notes: Vec<(&String, usize)> = Vec::new();
        for note in self.tasks.iter().flat_map(|task| &task.notes) {
            match notes.iter_mut().find(|(known, _)| *known == note) {
                Some((_, count)) => *count += 1,
                None => notes.push((note, 1)),
            }
        }
        for (note, count) in notes {
            write!(f, "\nnote ({count} of {} tasks): {note}", self.tasks.len())?;
        }
        Ok(())
    }
}
