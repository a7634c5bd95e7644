//! Why could cases not be read or run?

use std::io;
use std::path::PathBuf;

use super::format::FILE;

/// Trouble with the cases themselves or with the place to run them; a case that does not hold is
/// no error but a [`super::Verdict`].
#[derive(Debug, thiserror::Error)]
pub enum CasesError {
    #[error("`{}` could not be read: {error}\nhelp: name a plugin's folder or a file of cases", .path.display())]
    Io { path: PathBuf, error: io::Error },
    #[error(
        "`{}` has no cases\nhelp: write `{FILE}` beside the plugin; `plugins/README.md` shows the form", .folder.display()
    )]
    None { folder: PathBuf },
    #[error("line {line} of `{}` is no case: {what}\nhelp: `plugins/README.md` shows the form", .path.display())]
    Toml { path: PathBuf, line: usize, what: String },
    #[error("the case `{case}` of `{}` {what}\nhelp: {help}", .path.display())]
    Case { path: PathBuf, case: String, what: String, help: String },
    #[error("no workspace could be made for the case `{case}`: {error}")]
    Workspace { case: String, error: crate::workspace::Error },
}
