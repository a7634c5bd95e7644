//! How does a whole data set become a folder of tasks? All of it or nothing, unless
//! the caller wants to keep what can be kept.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::container_free::{humanevalfix, is_polyglot, is_quixbugs, polyglot, quixbugs};
use super::error::DatasetError;
use super::format::Format;
use super::instance::Instance;
use super::row::Row;
use super::{classic, related, source, swebench, write};

/// What to import, and how.
#[derive(Clone, Debug, Default)]
pub struct ImportOptions {
    /// The format; found from the rows when not given.
    pub format: Option<Format>,
    /// The folder of run scripts and parsers of SWE-bench Pro.
    pub scripts: Option<PathBuf>,
    /// Names of the rows to take; all when there is none.
    pub only: Vec<String>,
    /// At most so many.
    pub limit: Option<usize>,
    /// Leave out rows that cannot be used, and tell of them at the end.
    pub keep_going: bool,
}

/// What came of it.
#[derive(Debug, Default)]
pub struct Imported {
    pub format: Option<Format>,
    /// Folders of tasks, in the order of the rows.
    pub folders: Vec<PathBuf>,
    /// How many run in a container.
    pub in_containers: usize,
    /// Rows that were left out, with the reason.
    pub left_out: Vec<DatasetError>,
    /// Exercises in languages that are not read.
    pub other_languages: usize,
}

/// Reads the data set at `path` and writes a task folder for each row below `out`.
///
/// # Errors
/// The first row that cannot be used, before anything is written, unless
/// `keep_going`; a file that cannot be read or written.
pub fn import(path: &Path, out: &Path, options: &ImportOptions) -> Result<Imported, DatasetError> {
    let mut imported = Imported::default();
    let mut instances = Vec::new();
    let read = if path.is_dir() {
        folder(path, options, &mut imported)?
    } else {
        file(path, options, &mut imported)?
    };
    for found in read {
        match found {
            Ok(instance) => instances.push(instance),
            Err(error) if options.keep_going => imported.left_out.push(error),
            Err(error) => return Err(error),
        }
    }
    for name in &options.only {
        if !instances.iter().any(|instance| instance.id == *name) && imported.left_out.is_empty() {
            return Err(DatasetError::NoSuchRow { path: path.to_owned(), name: name.clone() });
        }
    }
    let mut names = BTreeSet::new();
    for instance in &instances {
        if !names.insert(instance.folder_name()) {
            return Err(DatasetError::SameName { name: instance.folder_name() });
        }
        let folder = out.join(instance.folder_name());
        if folder.exists() {
            return Err(DatasetError::Exists { path: folder });
        }
    }
    for instance in &instances {
        imported.folders.push(write::write(instance, out)?);
        imported.in_containers += usize::from(instance.image.is_some());
    }
    Ok(imported)
}

type Read = Vec<Result<Instance, DatasetError>>;

fn folder(path: &Path, options: &ImportOptions, imported: &mut Imported) -> Result<Read, DatasetError> {
    let (format, instances) = if is_quixbugs(path) {
        (Format::QuixBugs, quixbugs(path)?)
    } else if is_polyglot(path) {
        let (instances, others) = polyglot(path)?;
        imported.other_languages = others;
        (Format::Polyglot, instances)
    } else {
        return Err(DatasetError::UnknownFile { path: path.to_owned() });
    };
    imported.format = Some(format);
    let wanted = |instance: &Instance| options.only.is_empty() || options.only.contains(&instance.id);
    let limit = options.limit.unwrap_or(usize::MAX);
    Ok(instances.into_iter().filter(wanted).take(limit).map(Ok).collect())
}

fn file(path: &Path, options: &ImportOptions, imported: &mut Imported) -> Result<Read, DatasetError> {
    let rows = source::rows(path)?;
    let unknown = || DatasetError::UnknownFormat {
        path: path.to_owned(),
        known: Format::ALL.map(Format::name).join(", "),
        found: rows.first().map_or_else(
            || "none".into(),
            |row| row.fields.keys().map(|key| format!("`{key}`")).collect::<Vec<_>>().join(", "),
        ),
    };
    let guessed = || rows.first().and_then(|row| Format::of_row(row, classic::knows));
    let format = options.format.or_else(guessed).ok_or_else(unknown)?;
    imported.format = Some(format);
    let wanted = |row: &Row| options.only.is_empty() || options.only.contains(&row.id());
    let limit = options.limit.unwrap_or(usize::MAX);
    let mut read = Vec::new();
    for row in rows.iter().filter(|row| wanted(row)).take(limit) {
        let row = Row { format: format.name(), ..row.clone() };
        read.push(match format {
            Format::SweBench => swebench::version_5(&row),
            Format::SweBenchClassic => swebench::classic_row(&row),
            Format::SweBenchPro => swebench::pro(&row, options.scripts.as_deref()),
            Format::SweSmith => related::smith(&row),
            Format::SweRebenchV2 => related::rebench(&row),
            Format::SweGym => related::gym(&row),
            Format::R2eGym => related::r2e(&row),
            Format::HumanEvalFix => humanevalfix(&row),
            Format::QuixBugs | Format::Polyglot => return Err(unknown()),
        });
    }
    Ok(read)
}
