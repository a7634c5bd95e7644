//! Does a patch solve a task? Decided in a fresh workspace, from the patch alone.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::error::{TaskError, VerifyError};
use super::load::Task;
use super::reward;
use crate::workspace::{Error, Folder, Mount, SandboxCommand, Workspace, WorkspaceConfig};

/// Characters of the tests' output that are kept for people.
pub(super) const OUTPUT_CHARS: usize = 4_000;

/// What the tests said.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// The deciding reward is at least 1.
    pub solved: bool,
    /// The reward named `reward`, else the smallest of those given.
    pub reward: f64,
    pub rewards: BTreeMap<String, f64>,
    /// Whether the patch applied; if not, no test ran and the reward is 0.
    pub applied: bool,
    /// The end of the tests' output, for people.
    pub output: String,
    /// Wall-clock seconds.
    pub seconds: f64,
}

impl Task {
    /// Judges a patch, or gives the verdict that is kept for it: see [`Self::keep_verdicts`].
    ///
    /// # Errors
    /// As [`Self::verify_afresh`].
    pub async fn verify(&self, patch: &[u8], config: &WorkspaceConfig) -> Result<Verdict, VerifyError> {
        match self.kept_verdicts() {
            Some(cache) => Ok(cache.verify(self, patch, config).await?.0),
            None => self.verify_afresh(patch, config).await,
        }
    }

    /// Judges a patch: the task's files with the patch applied, the tests at
    /// `/tests`, and a new folder for the reward. A blank patch is the unchanged tree.
    ///
    /// # Errors
    /// No verdict: tests that left no number or took too long, or a workspace
    /// that could not be made.
    pub async fn verify_afresh(
        &self,
        patch: &[u8],
        config: &WorkspaceConfig,
    ) -> Result<Verdict, VerifyError> {
        let start = Instant::now();
        let task = self.name().to_owned();
        let trouble = |source| VerifyError::Workspace { task: task.clone(), source };
        let snapshot = match self.snapshot(config).await {
            Ok(snapshot) => snapshot,
            Err(TaskError::Workspace { source, .. }) => return Err(trouble(source)),
            Err(other) => return Err(trouble(Error::BadCommand { reason: other.to_string() })),
        };
        if let Some(grading) = self.grading() {
            return self.verify_graded(grading, snapshot, patch, config).await;
        }
        let tests = self.tests(config).await.map_err(trouble)?;
        let logs = Folder::empty(config).map_err(trouble)?;
        let mounts =
            vec![Mount::read_only(tests.path(), "/tests"), Mount::read_write(logs.path(), "/logs/verifier")];
        let workspace = match Workspace::patched(snapshot, config, patch, mounts).await {
            Ok(workspace) => workspace,
            Err(error) if error.is_caused_by_agent() => {
                let output = error.to_string();
                let seconds = start.elapsed().as_secs_f64();
                let rewards = BTreeMap::new();
                return Ok(Verdict { solved: false, reward: 0.0, rewards, applied: false, output, seconds });
            }
            Err(error) => return Err(trouble(error)),
        };
        workspace.hand_over(&logs.path()).map_err(trouble)?;

        let limit = self.verifier_seconds();
        let mut command =
            SandboxCommand::argv(["/bin/bash", "/tests/test.sh"], Duration::from_secs_f64(limit));
        for (name, value) in self.verifier_env() {
            command = command.env(name, value);
        }
        let ran = workspace.run(&command).await.map_err(trouble)?;
        if ran.exit_code.is_none() {
            return Err(VerifyError::TimedOut { task, limit });
        }
        let output = last_chars(&String::from_utf8_lossy(&ran.output.bytes()), OUTPUT_CHARS);
        let mut rewards = reward::read(&task, &logs, &output)?;
        let mut reward = reward::deciding(&rewards);
        let mut output = output;
        // Whoever ends the script from within may have written the reward as well.
        if reward > 0.0
            && let Some(signal) = ran.exit_code.and_then(signal_of)
        {
            output = format!(
                "the tests were ended by signal {signal}, so that their reward says nothing\n{output}"
            );
            reward = 0.0;
            rewards = BTreeMap::from([("reward".into(), 0.0)]);
        }
        let seconds = start.elapsed().as_secs_f64();
        Ok(Verdict { solved: self.is_enough(&rewards), reward, rewards, applied: true, output, seconds })
    }
}

/// The signal that ended a command, where one did.
fn signal_of(exit_code: i32) -> Option<i32> {
    (129..=128 + 64).contains(&exit_code).then_some(exit_code - 128)
}

pub(super) fn last_chars(text: &str, count: usize) -> String {
    let skip = text.chars().count().saturating_sub(count);
    text.chars().skip(skip).collect()
}
