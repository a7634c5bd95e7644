//! What can be wrong with a data set? Each error names the row and the field.

use std::io;
use std::path::PathBuf;

/// Why a data set, or one row of it, cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DatasetError {
    #[error("`{}` could not be read: {source}\nhelp: check the path and its permissions", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("`{}` could not be written: {source}\nhelp: check the path, its permissions and the disk", path.display())]
    Unwritable { path: PathBuf, source: io::Error },
    #[error(
        "`{}` is neither JSONL, JSON, Parquet nor a folder of exercises\n\
         help: name a file that ends with `.jsonl`, `.json` or `.parquet`, or the folder of QuixBugs or of the polyglot exercises",
        path.display()
    )]
    UnknownFile { path: PathBuf },
    #[error("row {row} of `{}` is not a JSON object: {reason}", path.display())]
    NotJson { path: PathBuf, row: usize, reason: String },
    #[error(
        "`{}` is not a Parquet file that can be read: {reason}\n\
         help: files without compression and with Snappy are read; write it again as one, or as JSONL",
        path.display()
    )]
    Parquet { path: PathBuf, reason: String },
    #[error(
        "the rows of `{}` are of no format that is known\n\
         help: name it with `--format`: {known}; the first row has the fields {found}",
        path.display()
    )]
    UnknownFormat { path: PathBuf, known: String, found: String },
    #[error("row {row} ({id}) has no field `{field}`\nhelp: rows of {format} have it; is the format right?")]
    Missing { row: usize, id: String, field: &'static str, format: &'static str },
    #[error("row {row} ({id}): the field `{field}` is {found}, not {expected}")]
    Wrong { row: usize, id: String, field: &'static str, expected: &'static str, found: String },
    #[error(
        "row {row} ({id}) names the log parser `{parser}`, which there is none of\n\
         help: the parsers of swebench 5.0.2 are known"
    )]
    UnknownParser { row: usize, id: String, parser: String },
    #[error("row {row} ({id}): {what}\nhelp: {help}")]
    Unsupported { row: usize, id: String, what: String, help: &'static str },
    #[error("two rows make the task folder `{name}`\nhelp: take one of them out")]
    SameName { name: String },
    #[error("`{}` is there already\nhelp: name another folder, or remove it first", path.display())]
    Exists { path: PathBuf },
    #[error("no row of `{}` is named `{name}`", path.display())]
    NoSuchRow { path: PathBuf, name: String },
}
