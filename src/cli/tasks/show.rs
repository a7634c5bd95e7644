//! `tandem tasks show`: what does a task ask for, and how is it judged?

use std::path::Path;
use std::sync::Arc;

use anyhow::{Result, bail};
use tandem_host::task::{Reference, Rule, Task, TaskSet};

use crate::cli::Exit;

pub fn run(tasks: &Path, name: Option<&str>) -> Result<Exit> {
    let set = TaskSet::load(tasks)?;
    let task = match (name, set.tasks()) {
        (Some(name), tasks) => match set.get(name).or_else(|| in_folder(tasks, name)) {
            Some(task) => task,
            None => bail!("there is no task `{name}`\nhelp: `tandem tasks list` shows the names"),
        },
        (None, [task]) => task,
        (None, tasks) => bail!("there are {} tasks\nhelp: give the name of one", tasks.len()),
    };
    print!("{}", describe(task)?);
    Ok(Exit::Done)
}

/// The task in the folder of that name, as it is easily taken for the task's own.
fn in_folder<'a>(tasks: &'a [Arc<Task>], name: &str) -> Option<&'a Arc<Task>> {
    tasks.iter().find(|task| task.folder().file_name().is_some_and(|folder| folder == name))
}

fn describe(task: &Task) -> Result<String> {
    let mut lines = vec![format!("task       {}", task.name())];
    let mut line = |label: &str, text: String| lines.push(format!("{label:<10} {text}"));
    if let Some(difficulty) = task.difficulty() {
        line("difficulty", difficulty.to_owned());
    }
    match task.image() {
        Some(image) => {
            line("image", image.to_owned());
            line("work in", task.workdir().unwrap_or("the folder of the image").to_owned());
        }
        None => line("files", task.folder().join("environment/workspace").display().to_string()),
    }
    if task.setup_script().is_some() {
        line("setup", "environment/setup.sh makes the agent's files from those of the image".into());
    }
    let judged = match task.grading().map(|grading| &grading.rule) {
        None => "by the reward that tests/test.sh leaves".to_owned(),
        Some(Rule::SwebenchLog { log_parser, .. }) => format!("as SWE-bench does, with `{log_parser}`"),
        Some(Rule::ProOutput { .. }) => "as SWE-bench Pro does, with the task's own parser".to_owned(),
        Some(Rule::AllPassed { log_parser, .. }) => format!("every test passed, with `{log_parser}`"),
        Some(Rule::ExactSummary { expected }) => {
            format!("pytest's summary is exactly {} tests", expected.len())
        }
    };
    line("judged", judged);
    if let Some(expected) = task.grading().and_then(|grading| grading.rule.expected()) {
        let (repaired, kept) = (expected.fail_to_pass.len(), expected.pass_to_pass.len());
        line("tests", format!("{repaired} to be repaired, {kept} to be kept"));
    }
    line("time", format!("{} seconds for the tests", task.verifier_seconds()));
    let reference = match task.reference()? {
        Some(Reference::Patch(patch)) => format!("a patch of {} bytes", patch.len()),
        Some(Reference::Script(_)) => "a script".to_owned(),
        None => "none".to_owned(),
    };
    line("reference", reference);
    for note in task.notes() {
        line("note", note.clone());
    }
    Ok(format!("{}\n\n{}\n", lines.join("\n"), task.instruction()))
}
