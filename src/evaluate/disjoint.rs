//! Has anything that is evaluated been trained on? Tasks of different uses share neither a name nor a
//! repository; of a package whose modules were split, no module.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use tandem_host::task::{Task, TaskSet};

use crate::campaign::CampaignConfig;

/// Tasks and what they are for.
pub struct TaskUse<'a> {
    /// As people read it, such as `training`.
    pub name: &'a str,
    pub tasks: Vec<Arc<Task>>,
}

/// Two tasks of different uses that are too near.
#[derive(Debug, PartialEq, thiserror::Error)]
#[error(
    "{first_use} task `{first}` and {second_use} task `{second}` {shared}, so the second says nothing of what was not seen\nhelp: take other {second_use} tasks; `tandem tasks mutate` writes splits that share no module"
)]
pub struct Contaminated {
    first_use: String,
    first: String,
    second_use: String,
    second: String,
    shared: String,
}

/// What a task is about, as far as its metadata tell: each is a place that no other use may have.
fn places(task: &Task) -> Vec<(String, String)> {
    let mut places = vec![(task.name().to_owned(), "have one name".to_owned())];
    match (task.fact("package"), task.fact("module"), task.fact("repo")) {
        (Some(package), Some(module), _) => {
            places.push((
                format!("module {package}/{module}"),
                format!("are both about the module `{module}` of `{package}`"),
            ));
        }
        (_, _, Some(repo)) => {
            places.push((format!("repository {repo}"), format!("are both about the repository `{repo}`")));
        }
        _ => {}
    }
    places
}

/// Whether no two uses are too near.
///
/// # Errors
/// The first two tasks that are, in the order of the uses.
pub fn check_disjoint(uses: &[TaskUse<'_>]) -> Result<(), Contaminated> {
    let mut seen: BTreeMap<String, (usize, String)> = BTreeMap::new();
    for (at, tasks) in uses.iter().enumerate() {
        for task in &tasks.tasks {
            for (place, shared) in places(task) {
                let (first_use, first) = seen.entry(place).or_insert_with(|| (at, task.name().to_owned()));
                if *first_use != at {
                    return Err(Contaminated {
                        first_use: uses[*first_use].name.to_owned(),
                        first: first.clone(),
                        second_use: tasks.name.to_owned(),
                        second: task.name().to_owned(),
                        shared,
                    });
                }
            }
        }
    }
    Ok(())
}

/// Whether the task sets of a campaign are apart. A table over the training tasks themselves is one that the
/// campaign file asks for by naming no others.
///
/// # Errors
/// Sets that cannot be read, and two tasks that are too near.
pub fn check_campaign(config: &CampaignConfig) -> anyhow::Result<()> {
    let evaluation = config.tasks.evaluation.as_ref().filter(|folder| **folder != config.tasks.train);
    let holdout = config.evolve.holdout.as_ref().map(|holdout| &holdout.tasks);
    let mut uses = vec![TaskUse { name: "training", tasks: tasks_in(&config.tasks.train)? }];
    for (name, folder) in [("evaluation", evaluation), ("hold-out", holdout)] {
        if let Some(folder) = folder {
            uses.push(TaskUse { name, tasks: tasks_in(folder)? });
        }
    }
    Ok(check_disjoint(&uses)?)
}

/// The tasks of a folder.
pub fn tasks_in(folder: &Path) -> anyhow::Result<Vec<Arc<Task>>> {
    Ok(TaskSet::load(folder)?.tasks().to_vec())
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn task(folder: &Path, name: &str, metadata: &str) -> Arc<Task> {
        let own = folder.join(name.replace('/', "-"));
        std::fs::create_dir_all(own.join("tests")).unwrap();
        std::fs::create_dir_all(own.join("environment/workspace")).unwrap();
        let file = format!("schema_version = \"1.4\"\n[task]\nname = \"{name}\"\n[metadata]\n{metadata}");
        std::fs::write(own.join("task.toml"), file).unwrap();
        std::fs::write(own.join("instruction.md"), "x").unwrap();
        std::fs::write(own.join("tests/test.sh"), "x").unwrap();
        Arc::new(Task::load(&own).unwrap())
    }

    #[test]
    fn tasks_that_share_a_name_a_repository_or_a_module_are_told_with_both() {
        let check = |train: &[(&str, &str)], held_out: &[(&str, &str)], expected: Expect| {
            let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
            let load = |at: usize, tasks: &[(&str, &str)]| {
                tasks.iter().map(|(name, metadata)| task(folders[at].path(), name, metadata)).collect()
            };
            let uses = [
                TaskUse { name: "training", tasks: load(0, train) },
                TaskUse { name: "held-out", tasks: load(1, held_out) },
            ];
            let found = check_disjoint(&uses).err().map_or_else(String::new, |error| error.to_string());
            expected.assert_eq(found.lines().next().unwrap_or_default());
        };
        check(&[("a", ""), ("b", "")], &[("c", "")], expect![""]);
        check(
            &[("a", ""), ("b", "")],
            &[("b", "")],
            expect![
                "training task `b` and held-out task `b` have one name, so the second says nothing of what was not seen"
            ],
        );
        check(
            &[("a", "repo = \"x/y\""), ("b", "repo = \"x/y\"")],
            &[("c", "repo = \"x/z\""), ("d", "repo = \"x/y\"")],
            expect![
                "training task `a` and held-out task `d` are both about the repository `x/y`, so the second says nothing of what was not seen"
            ],
        );
        let module = |name: &str| format!("package = \"p\"\nmodule = \"{name}\"");
        let (one, two) = (module("one.py"), module("two.py"));
        check(&[("a", &one)], &[("b", &two)], expect![""]);
        check(
            &[("a", &one)],
            &[("b", &two), ("c", &one)],
            expect![
                "training task `a` and held-out task `c` are both about the module `one.py` of `p`, so the second says nothing of what was not seen"
            ],
        );
    }
}
