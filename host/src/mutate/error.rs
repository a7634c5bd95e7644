//! What can stop the making of a pool?

use std::io;
use std::path::{Path, PathBuf};

use crate::task::TaskError;
use crate::workspace;

/// Why no pool can be made from a package.
#[derive(Debug, thiserror::Error)]
pub enum MutateError {
    #[error(
        "`{}` has no Python module outside its tests\n\
         help: name the folder that holds the package, or its `src` folder",
        folder.display()
    )]
    NoModules { folder: PathBuf },
    #[error(
        "`{}` has no test file\n\
         help: name a folder with `test_*.py` files; a source archive often holds them when a wheel does not",
        folder.display()
    )]
    NoTests { folder: PathBuf },
    #[error(
        "no test of `{package}` passes twice as it is: {failed} of {total} failed\n\
         help: put what its tests import into the archive of `--python`; the output ends with:\n{output}"
    )]
    NothingPasses { package: String, failed: usize, total: usize, output: String },
    #[error("the tests of `{package}` could not be observed\nhelp: the output ends with:\n{output}")]
    NotObserved { package: String, output: String },
    #[error("the tests of `{package}` did not end within {limit} seconds\nhelp: raise `--suite-seconds`")]
    SuiteTooSlow { package: String, limit: u64 },
    #[error(
        "two packages are named `{name}`: `{}` and `{}`\nhelp: make a pool of each",
        first.display(), second.display()
    )]
    SameName { name: String, first: PathBuf, second: PathBuf },
    #[error(
        "`{}` was begun with other packages or options\n\
         help: give the ones that it was begun with, or another folder to `--out`",
        out.display()
    )]
    OtherPool { out: PathBuf },
    #[error("`{}` holds files that are no pool\nhelp: give an empty folder or a new one", out.display())]
    NotAPool { out: PathBuf },
    #[error("{doing} `{}` failed: {source}", path.display())]
    Io { doing: &'static str, path: PathBuf, source: io::Error },
    #[error("the Python grammar does not load: {reason}")]
    Grammar { reason: String },
    #[error("a workspace to run tests in failed: {0}")]
    Workspace(#[from] workspace::Error),
    #[error(transparent)]
    Task(#[from] TaskError),
}

impl MutateError {
    pub(super) fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { doing, path, source }
    }
}
