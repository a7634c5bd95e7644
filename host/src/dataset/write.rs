//! How is a problem laid down as a Harbor task folder?

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use toml::{Table, Value};

use super::error::DatasetError;
use super::instance::{Instance, Solution};
use crate::task::GRADING_FILE;

/// Writes the folder of a problem below `folder` and returns it.
///
/// # Errors
/// A folder that is there already, and files that cannot be written.
pub fn write(instance: &Instance, folder: &Path) -> Result<PathBuf, DatasetError> {
    let folder = folder.join(instance.folder_name());
    if folder.exists() {
        return Err(DatasetError::Exists { path: folder });
    }
    let put = |name: &str, bytes: &[u8]| {
        let path = folder.join(name);
        let made = path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(&path, bytes));
        made.map_err(|source| DatasetError::Unwritable { path, source })
    };
    let put_all = |below: &str, files: &BTreeMap<String, Vec<u8>>| {
        files.iter().try_for_each(|(name, bytes)| put(&format!("{below}/{name}"), bytes))
    };
    put("task.toml", task_file(instance).as_bytes())?;
    put("instruction.md", format!("{}\n", instance.instruction.trim_end()).as_bytes())?;
    put("tests/test.sh", instance.test_script.as_bytes())?;
    put_all("tests", &instance.test_files)?;
    if let Some(grading) = &instance.grading {
        // The type holds no map with keys that are not texts, so that this cannot fail.
        let text = serde_json::to_string_pretty(grading).unwrap_or_default();
        put(&format!("tests/{GRADING_FILE}"), format!("{text}\n").as_bytes())?;
    }
    put_all("environment/workspace", &instance.files)?;
    if let Some(setup) = &instance.setup {
        put("environment/setup.sh", setup.as_bytes())?;
        put_all("environment", &instance.setup_files)?;
    }
    put_all("solution", &instance.solution_files)?;
    match &instance.solution {
        Some(Solution::Patch(patch)) => put("solution/patch.diff", patch)?,
        Some(Solution::Script(script)) => put("solution/solve.sh", script.as_bytes())?,
        None => {}
    }
    Ok(folder)
}

fn task_file(instance: &Instance) -> String {
    let table = |entries: Vec<(&str, Value)>| {
        Value::Table(entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect::<Table>())
    };
    let mut environment = Vec::new();
    if let Some((image, place)) = &instance.image {
        environment.push(("docker_image", Value::from(image.as_str())));
        environment.push(("workdir", Value::from(place.as_str())));
    }
    if let Some(memory) = instance.memory_mb {
        environment.push(("memory_mb", Value::Integer(i64::try_from(memory).unwrap_or(i64::MAX))));
    }
    let facts = instance.facts.iter().map(|(key, fact)| (key.clone(), Value::from(fact.as_str())));
    let file = table(vec![
        ("schema_version", Value::from("1.4")),
        ("metadata", Value::Table(facts.collect())),
        ("verifier", table(vec![("timeout_sec", Value::from(instance.test_seconds))])),
        ("environment", table(environment)),
    ]);
    toml::to_string(&file).unwrap_or_default()
}
