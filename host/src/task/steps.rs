//! What does a step of a task start from, where a task has several?
//!
//! Each step is a task of its own here: its files are those of the task after the reference
//! solutions of the steps before it, with what the step brings along. The tests of the
//! task and those of the step decide it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::error::TaskError;
use super::format::StepPart;
use super::load::Task;
use crate::workspace::{Folder, Mount, SandboxCommand, Snapshot, Workspace, WorkspaceConfig};

/// Seconds that a setup script or a solution may take.
const SECONDS: u64 = 600;

/// One step of a task.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub(super) part: StepPart,
    /// Its folder, then those of the steps before it, the last first.
    pub(super) folders: Vec<PathBuf>,
}

impl Step {
    pub(super) fn folder(&self) -> &Path {
        // `folders` is made with at least one.
        self.folders.first().map_or(Path::new(""), PathBuf::as_path)
    }
}

impl Task {
    /// The files of a step, from those of the whole task.
    ///
    /// # Errors
    /// A step before it without a solution, and scripts that fail.
    pub(super) async fn staged(
        &self,
        step: &Step,
        mut snapshot: Snapshot,
        config: &WorkspaceConfig,
    ) -> Result<Snapshot, TaskError> {
        let mut before: Option<&PathBuf> = None;
        for folder in step.folders.iter().rev() {
            let brought = folder.join("workdir");
            if before.is_none() && !brought.is_dir() {
                before = Some(folder);
                continue;
            }
            let mut mounts = Vec::new();
            let mut copies = Vec::new();
            let mut script = String::from("set -e\n");
            let trouble = |source| TaskError::Workspace { task: self.name().to_owned(), source };
            if let Some(before) = before {
                let solution = before.join("solution");
                if solution.join("patch.diff").is_file() {
                    script.push_str("git apply /solution/patch.diff\n");
                } else if solution.join("solve.sh").is_file() {
                    script.push_str("bash /solution/solve.sh\n");
                } else {
                    return Err(TaskError::Step {
                        task: self.name().to_owned(),
                        reason: format!(
                            "`{}` has no solution, and this step starts from it",
                            before.display()
                        ),
                    });
                }
                let copy = Folder::copy_of(&solution, config).map_err(trouble)?;
                mounts.push(Mount::read_only(copy.path(), "/solution"));
                copies.push(copy);
            }
            if brought.is_dir() {
                let copy = Folder::copy_of(&brought, config).map_err(trouble)?;
                mounts.push(Mount::read_only(copy.path(), "/step"));
                copies.push(copy);
                script.push_str(
                    "cd /workspace\ncp -R /step/. .\nif [ -f setup.sh ]; then bash ./setup.sh; fi\n",
                );
            }
            let workspace =
                Workspace::create_with(Arc::new(snapshot), config, mounts).await.map_err(trouble)?;
            let command = SandboxCommand::bash(&script, Duration::from_secs(SECONDS));
            let ran = workspace.run(&command).await.map_err(trouble)?;
            if ran.exit_code != Some(0) {
                let said = String::from_utf8_lossy(&ran.output.bytes()).trim().to_owned();
                let reason = format!("what `{}` starts from cannot be made: {said}", folder.display());
                return Err(TaskError::Step { task: self.name().to_owned(), reason });
            }
            snapshot = workspace.into_snapshot().await.map_err(trouble)?;
            before = Some(folder);
        }
        Ok(snapshot)
    }
}
