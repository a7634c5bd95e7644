//! What of a folder is the package, and what are its tests?

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::error::MutateError;

/// A file larger than this is no part of a task: data and pictures mostly.
const FILE_BYTES: u64 = 1 << 20;
const LEFT_OUT: [&str; 9] = [
    "__pycache__",
    "build",
    "dist",
    "node_modules",
    "venv",
    "htmlcov",
    "eggs",
    "site-packages",
    "wheelhouse",
];
const NO_MODULES: [&str; 7] =
    ["setup.py", "noxfile.py", "fabfile.py", "tasks.py", "versioneer.py", "conf.py", "__main__.py"];

/// A package as it lies in its folder, read once.
#[derive(Clone, Debug)]
pub(super) struct Package {
    /// Lower-case letters, digits and `-`; the version is left off.
    pub(super) name: String,
    pub(super) folder: PathBuf,
    /// Where imports begin, relative to the folder: `.` or `src`.
    pub(super) root: &'static str,
    /// Every file of the tasks by its path.
    pub(super) files: BTreeMap<String, Vec<u8>>,
    /// The modules that may be mutated, with their source.
    pub(super) modules: BTreeMap<String, String>,
    /// The files that hold tests.
    pub(super) tests: Vec<String>,
}

impl Package {
    /// Reads a folder. Links, byte code, build output and hidden files are left out.
    pub(super) fn read(folder: &Path) -> Result<Self, MutateError> {
        let mut files = BTreeMap::new();
        read_folder(folder, "", &mut files)?;
        let root = if files.keys().any(|path| path.starts_with("src/") && path.ends_with(".py")) {
            "src"
        } else {
            "."
        };
        let tests: Vec<String> = files.keys().filter(|path| holds_tests(path)).cloned().collect();
        let modules = modules(&files, root);
        let folder = folder.to_owned();
        if modules.is_empty() {
            return Err(MutateError::NoModules { folder });
        }
        if tests.is_empty() {
            return Err(MutateError::NoTests { folder });
        }
        Ok(Self { name: name_of(&folder), folder, root, files, modules, tests })
    }

    /// The files that a verifier puts in place: all that decides what tests say.
    pub(super) fn test_files(&self) -> impl Iterator<Item = (&String, &Vec<u8>)> {
        self.files.iter().filter(|(path, _)| is_test_path(path))
    }
}

fn read_folder(
    folder: &Path,
    prefix: &str,
    files: &mut BTreeMap<String, Vec<u8>>,
) -> Result<(), MutateError> {
    for entry in std::fs::read_dir(folder).map_err(MutateError::io("reading", folder))? {
        let path = entry.map_err(MutateError::io("reading", folder))?.path();
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
        let meta = std::fs::symlink_metadata(&path).map_err(MutateError::io("reading", &path))?;
        let litter = name.starts_with('.') || LEFT_OUT.contains(&name) || name.ends_with(".egg-info");
        if litter || name.contains(['\n', '"', '\\']) {
            continue;
        }
        let inner = format!("{prefix}{name}");
        if meta.is_dir() {
            read_folder(&path, &format!("{inner}/"), files)?;
        } else if meta.is_file() && meta.len() <= FILE_BYTES && !name.ends_with(".pyc") {
            files.insert(inner, std::fs::read(&path).map_err(MutateError::io("reading", &path))?);
        }
    }
    Ok(())
}

/// The same rule as in `runner.py`: whether a file decides what tests say.
pub(super) fn is_test_path(path: &str) -> bool {
    let (folders, name) = path.rsplit_once('/').unwrap_or(("", path));
    let configuration = ["conftest.py", "sitecustomize.py", "usercustomize.py", "pytest.ini", ".pytest.ini"];
    folders.split('/').any(|part| matches!(part, "tests" | "test"))
        || configuration.contains(&name)
        || holds_tests(path)
        || name.ends_with(".pth")
}

fn holds_tests(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.ends_with(".py") && (name.starts_with("test_") || name.ends_with("_test.py"))
}

/// Files that can be imported: packages all the way from the root, UTF-8, and without
/// a second copy that would give the answer away.
fn modules(files: &BTreeMap<String, Vec<u8>>, root: &str) -> BTreeMap<String, String> {
    let prefix = if root == "." { String::new() } else { format!("{root}/") };
    let mut copies: BTreeMap<&[u8], usize> = BTreeMap::new();
    for bytes in files.values() {
        *copies.entry(bytes).or_default() += 1;
    }
    let packages: BTreeSet<&str> =
        files.keys().filter_map(|path| path.strip_suffix("/__init__.py")).collect();
    let mut modules = BTreeMap::new();
    for (path, bytes) in files {
        let Some(inner) = path.strip_prefix(&prefix).filter(|_| path.ends_with(".py")) else { continue };
        let name = inner.rsplit('/').next().unwrap_or(inner);
        let importable = path
            .match_indices('/')
            .map(|(at, _)| &path[..at])
            .filter(|folder| *folder != root)
            .all(|folder| packages.contains(folder));
        let fit = importable && !is_test_path(path) && !NO_MODULES.contains(&name);
        if let Ok(source) = std::str::from_utf8(bytes)
            && fit
            && copies[&bytes[..]] == 1
        {
            modules.insert(path.clone(), source.to_owned());
        }
    }
    modules
}

/// `more_itertools-11.2.1` is `more-itertools`.
fn name_of(folder: &Path) -> String {
    let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    let name = folder.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    let stem = match name.rsplit_once('-') {
        Some((stem, version)) if version.starts_with(|first: char| first.is_ascii_digit()) => stem,
        _ => &name,
    };
    let clean: String =
        stem.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '-' }).collect();
    let clean = clean.trim_matches('-');
    if clean.is_empty() { "package".into() } else { clean.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_decides_a_verdict_is_never_taken_from_the_work_tree() {
        for path in ["tests/a.py", "a/test/data.txt", "a/test_b.py", "b_test.py", "conftest.py", "x/y.pth"] {
            assert!(is_test_path(path), "{path}");
        }
        for path in ["a/contest.py", "a/testing.py", "latest.py", "a/attest/b.py", "testdata.txt"] {
            assert!(!is_test_path(path), "{path}");
        }
    }

    #[test]
    fn versions_are_no_part_of_a_name() {
        let check = |folder: &str, expected| assert_eq!(name_of(Path::new(folder)), expected);
        check("/x/more_itertools-11.2.1", "more-itertools");
        check("/x/Plain", "plain");
        check("/x/two-words", "two-words");
    }

    #[test]
    fn only_what_can_be_imported_is_a_module() {
        let file = |path: &str, text: &str| (path.to_owned(), text.as_bytes().to_vec());
        let files = BTreeMap::from([
            file("setup.py", "1"),
            file("alone.py", "2"),
            file("a/__init__.py", "3"),
            file("a/b.py", "4"),
            file("a/copy.py", "5"),
            file("a/copy2.py", "5"),
            file("a/tests/test_b.py", "6"),
            file("docs/make.py", "7"),
        ]);
        let found: Vec<String> = modules(&files, ".").into_keys().collect();
        assert_eq!(found, ["a/__init__.py", "a/b.py", "alone.py"]);
    }
}
