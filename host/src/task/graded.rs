//! How is a patch judged whose tests leave a log instead of a reward? In a fresh
//! workspace, with the commands of the data set's own evaluator.

use std::collections::BTreeMap;
use std::io::Read;
use std::time::{Duration, Instant};

use super::error::VerifyError;
use super::grading::{Apply, Grading, NoGrade, text_parts};
use super::guard::Guard;
use super::load::Task;
use super::verify::{OUTPUT_CHARS, Verdict, last_chars};
use crate::swebench::{APPLY_COMMANDS, RESET_COMMAND, REVERSE_CHECK, Resolution};
use crate::workspace::{Folder, Mount, SandboxCommand, Snapshot, Workspace, WorkspaceConfig};

/// Output of tests that is kept whole, bytes. A log with a hole is not graded.
const LOG_BYTES: usize = 64 << 20;
/// Seconds that one command may take to apply a patch.
const APPLY_SECONDS: u64 = 120;
/// Most bytes of the file that a task's own parser leaves.
const OUTPUT_BYTES: u64 = 16 << 20;
const PATCH: &str = "/patch/patch.diff";
const THREE_WAY: &str = "git apply -v --3way --recount --ignore-space-change --whitespace=nowarn";

impl Task {
    pub(super) async fn verify_graded(
        &self,
        grading: &Grading,
        snapshot: std::sync::Arc<Snapshot>,
        patch: &[u8],
        config: &WorkspaceConfig,
    ) -> Result<Verdict, VerifyError> {
        let start = Instant::now();
        let task = self.name().to_owned();
        let trouble = |source| VerifyError::Workspace { task: task.clone(), source };
        let mut config = config.clone();
        config.sandbox.output_head = LOG_BYTES;
        let tests = self.tests(&config).await.map_err(trouble)?;
        let logs = Folder::empty(&config).map_err(trouble)?;
        let handed = Folder::empty(&config).map_err(trouble)?;
        let bytes = if grading.apply == Apply::TextOnly { text_parts(patch) } else { patch.to_vec() };
        let path = handed.path().join("patch.diff");
        std::fs::write(&path, &bytes)
            .map_err(|source| trouble(crate::workspace::Error::Io { action: "writing", path, source }))?;
        let mounts = vec![
            Mount::read_only(tests.path(), "/tests"),
            Mount::read_only(handed.path(), "/patch"),
            Mount::read_write(logs.path(), "/logs/verifier"),
        ];
        let workspace = Workspace::for_tests(snapshot, &config, mounts).await.map_err(trouble)?;
        workspace.hand_over(&logs.path()).map_err(trouble)?;

        let verdict = |solved: bool, applied: bool, rewards: BTreeMap<String, f64>, output: String| Verdict {
            solved,
            reward: if solved { 1.0 } else { 0.0 },
            rewards,
            applied,
            output,
            seconds: start.elapsed().as_secs_f64(),
        };
        if !bytes.trim_ascii().is_empty()
            && let Err(output) = apply(&workspace, grading.apply).await.map_err(trouble)?
        {
            return Ok(verdict(false, false, BTreeMap::new(), output));
        }
        let guard = Guard::of(self);
        let put_back =
            workspace.put_back(move |path, known| guard.holds(path, known)).await.map_err(trouble)?;

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
        if ran.output.dropped() > 0 {
            return Err(VerifyError::LogTooLong { task, bytes: ran.output.total(), limit: LOG_BYTES });
        }
        let log = ran.output.bytes();
        let output = read_output(&logs);
        let tail = last_chars(&String::from_utf8_lossy(&log), OUTPUT_CHARS);
        let grade = match grading.judge(&log, output.as_deref()) {
            Ok(grade) => grade,
            Err(NoGrade::Parser(fault)) => {
                return Err(VerifyError::Parser { task, reason: fault.to_string(), output: tail });
            }
            Err(NoGrade::Output(reason)) => return Err(VerifyError::Parser { task, reason, output: tail }),
            Err(NoGrade::Infrastructure(reason)) => {
                return Err(VerifyError::Infrastructure { task, reason, output: tail });
            }
        };
        let mut rewards = grade.parts;
        let solved = grade.resolution == Resolution::Full;
        rewards.insert("reward".into(), if solved { 1.0 } else { 0.0 });
        let mut why = grade.why;
        if let Some(first) = put_back.first() {
            let more = put_back.len() - 1;
            why.push_str(&format!("\nthe tests ran with the task's own `{}`", first.display()));
            if more > 0 {
                why.push_str(&format!(" and {more} more"));
            }
        }
        Ok(verdict(solved, true, rewards, format!("{why}\n{tail}")))
    }
}

/// Applies the patch as the data set's evaluator does; the inner error is what the
/// last command said.
async fn apply(workspace: &Workspace, how: Apply) -> Result<Result<(), String>, crate::workspace::Error> {
    let run = async |script: &str| workspace.bash(script, Duration::from_secs(APPLY_SECONDS)).await;
    let commands: &[&str] = match how {
        Apply::Ladder => &APPLY_COMMANDS,
        Apply::TextOnly => &["git apply -v"],
        Apply::ThreeWay => &[THREE_WAY],
    };
    let mut said = String::new();
    for (attempt, command) in commands.iter().enumerate() {
        if attempt > 0 {
            run(RESET_COMMAND).await?;
        }
        let output = run(&format!("{command} {PATCH}")).await?;
        if output.exit_code == Some(0) {
            return Ok(Ok(()));
        }
        said = last_chars(&String::from_utf8_lossy(&output.output.bytes()), OUTPUT_CHARS);
    }
    if how == Apply::Ladder && run(&format!("{REVERSE_CHECK} {PATCH}")).await?.exit_code == Some(0) {
        return Ok(Ok(()));
    }
    Ok(Err(format!("the patch does not apply: {said}")))
}

/// What the task's own parser left; a link or a huge file counts as nothing.
fn read_output(logs: &Folder) -> Option<String> {
    let file = logs.open("output.json").ok()?;
    let meta = file.metadata().ok()?;
    if !meta.is_file() || meta.len() > OUTPUT_BYTES {
        return None;
    }
    let mut bytes = Vec::new();
    file.take(OUTPUT_BYTES).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}
