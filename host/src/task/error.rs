//! What can be wrong with a task, and with a verdict?

use std::io;
use std::path::PathBuf;

use crate::workspace;

/// Why a task or a task set cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TaskError {
    #[error("task folder `{}` has no `{missing}`\nhelp: {help}", folder.display())]
    Missing { folder: PathBuf, missing: &'static str, help: &'static str },
    #[error("`{}` is not a task file: {reason}\nhelp: see Harbor's task format, schema 1.4", file.display())]
    BadFile { file: PathBuf, reason: String },
    #[error(
        "`{}` does not say how to grade: {reason}\nhelp: import the task again with `tandem tasks import`",
        file.display()
    )]
    BadGrading { file: PathBuf, reason: String },
    #[error(
        "`{}` is no list of tasks that are not to be used: {reason}\n\
         help: write it again with `tandem tasks validate --quarantine`, or remove it",
        file.display()
    )]
    BadQuarantine { file: PathBuf, reason: String },
    #[error("task `{task}` has {what}, which this host does not do\nhelp: {help}")]
    Unsupported { task: String, what: &'static str, help: &'static str },
    #[error(
        "two tasks are named `{name}`: `{}` and `{}`\nhelp: change `name` under `[task]` in one of them",
        first.display(), second.display()
    )]
    SameName { name: String, first: PathBuf, second: PathBuf },
    #[error("`{}` holds no tasks\nhelp: a task is a folder with a `task.toml`", folder.display())]
    NoTasks { folder: PathBuf },
    #[error(
        "every task of `{}` is in quarantine\nhelp: `quarantine.json` in it gives the reasons; mend the tasks and validate again",
        folder.display()
    )]
    AllQuarantined { folder: PathBuf },
    #[error("`{}` could not be read: {source}\nhelp: check the path and its permissions", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("task `{task}` cannot be set up: {reason}\nhelp: see the `workdir` and `solution` of its steps")]
    Step { task: String, reason: String },
    #[error("task `{task}` cannot be set up: {source}")]
    Workspace { task: String, source: workspace::Error },
}

/// Why there is no verdict. None of these is the policy's doing for certain, so
/// none is a zero.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    #[error(
        "the tests of `{task}` left no reward\n\
         help: `tests/test.sh` writes a number to `/logs/verifier/reward.txt`; its output ends with:\n{output}"
    )]
    NoReward { task: String, output: String },
    #[error("the tests of `{task}` left an empty `{file}`\nhelp: write one number to it")]
    EmptyReward { task: String, file: &'static str },
    #[error(
        "the tests of `{task}` left `{text}` in `{file}`, which is not a number\nhelp: write one number to it"
    )]
    NotANumber { task: String, file: &'static str, text: String },
    #[error("the tests of `{task}` left a reward that is not finite in `{file}`")]
    NotFinite { task: String, file: &'static str },
    #[error("the tests of `{task}` left something else than a small file as `{file}`")]
    NotAFile { task: String, file: &'static str },
    #[error(
        "the tests of `{task}` did not end within {limit} seconds\n\
         help: raise `timeout_sec` under `[verifier]`, if the reference patch needs longer"
    )]
    TimedOut { task: String, limit: f64 },
    #[error(
        "the log of `{task}` says that the machine broke (`{reason}`), not the patch\n\
         help: run it again; its output ends with:\n{output}"
    )]
    Infrastructure { task: String, reason: &'static str, output: String },
    #[error("the log of `{task}` cannot be graded: {reason}\nhelp: its output ends with:\n{output}")]
    Parser { task: String, reason: String, output: String },
    #[error(
        "the log of `{task}` has {bytes} bytes, more than the {limit} that are kept, so its middle is missing\n\
         help: make the test command print less"
    )]
    LogTooLong { task: String, bytes: u64, limit: usize },
    #[error("the tests of `{task}` could not run: {source}")]
    Workspace { task: String, source: workspace::Error },
}
