//! Which tasks of a folder are not to be used, and why? `quarantine.json` beside them,
//! written by a validation and read wherever the folder is.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::error::TaskError;
use super::validate::ValidationReport;
use crate::store::write_whole;

const FILE: &str = "quarantine.json";

/// Tasks by name, with the reason.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quarantine {
    pub tasks: BTreeMap<String, String>,
}

impl Quarantine {
    /// The quarantine of a folder; an empty one where there is none.
    ///
    /// # Errors
    /// A file that is something else: tasks of it would be used again.
    pub fn of(folder: &Path) -> Result<Self, TaskError> {
        let path = folder.join(FILE);
        if !path.is_file() {
            return Ok(Self::default());
        }
        let bytes = fs::read(&path).map_err(|source| TaskError::Unreadable { path: path.clone(), source })?;
        serde_json::from_slice(&bytes)
            .map_err(|error| TaskError::BadQuarantine { file: path, reason: error.to_string() })
    }

    /// The tasks of a validation that are not fit.
    pub fn from_report(report: &ValidationReport) -> Self {
        let unfit = report.tasks.iter().filter_map(|task| {
            let reason = task.trouble.as_ref()?.lines().next().unwrap_or_default();
            Some((task.task.clone(), reason.to_owned()))
        });
        Self { tasks: unfit.collect() }
    }

    /// Writes it beside the tasks; none removes the file.
    ///
    /// # Errors
    /// A folder that cannot be written to.
    pub fn write(&self, folder: &Path) -> Result<PathBuf, TaskError> {
        let path = folder.join(FILE);
        let done = if self.tasks.is_empty() {
            match fs::remove_file(&path) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            }
        } else {
            serde_json::to_vec_pretty(self).map_err(Into::into).and_then(|bytes| write_whole(&path, &bytes))
        };
        done.map_err(|source| TaskError::Unreadable { path: path.clone(), source })?;
        Ok(path)
    }
}
