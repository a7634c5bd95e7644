//! Does a text know something that it must not know? Plugins hold for every task,
//! so they name none; skills are for one task, and give none of its solution away.
//!
//! The types here hold hidden names and texts. They answer with what the candidate
//! itself wrote, and nothing of them goes into a request.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use tandem_host::task::{Reference, Task};

/// Names shorter than this are found by chance.
const MIN_CHARS: usize = 8;
/// A single plain word is a name only from this length on: `initials` is English.
const MIN_PLAIN_CHARS: usize = 10;
/// A name that more than this share of at least [`MANY`] tasks have tells none of them.
const COMMON_SHARE: f64 = 0.5;
const MANY: usize = 4;
/// Files of a task that are read for names and texts.
const MAX_FILE: u64 = 1 << 20;
const MAX_FILES: usize = 200;
/// From how many equal words in a row on a skill repeats a hidden text.
const MAX_RUN: usize = 8;

/// What a candidate must not name, and where the name comes from.
#[derive(Clone, Debug, Default)]
pub struct SearchSetNames(BTreeMap<String, &'static str>);

/// A forbidden mention.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the {place} mentions `{word}`, {what} of the search set\nhelp: write what holds for every task; a harness must not know one by name"
)]
pub struct Mention {
    /// `manifest`, or what stands beside it.
    pub place: &'static str,
    /// As the candidate has it.
    pub word: String,
    /// `a task`, `a repository`, `a test`.
    pub what: &'static str,
}

impl SearchSetNames {
    /// The names of tasks, of their repositories and of their hidden tests.
    pub fn of<'a>(tasks: impl IntoIterator<Item = &'a Task>) -> Self {
        let mut seen: BTreeMap<(String, &'static str), usize> = BTreeMap::new();
        let mut count = 0;
        for task in tasks {
            count += 1;
            let mut names: BTreeSet<(String, &'static str)> = BTreeSet::new();
            let mut add = |name: &str, what| {
                let name = normal(name);
                if is_telling(&name) {
                    names.insert((name, what));
                }
            };
            for part in task.name().split('/').skip(usize::from(task.name().contains('/'))) {
                add(part, "a task");
            }
            for name in repositories(task.folder()) {
                add(&name, "a repository");
            }
            for (path, text) in files(&task.folder().join("tests")) {
                let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
                add(&stem.unwrap_or_default(), "a test");
                for name in test_names(&text) {
                    add(name, "a test");
                }
            }
            for name in names {
                *seen.entry(name).or_default() += 1;
            }
        }
        let common = |times: usize| count >= MANY && times as f64 > COMMON_SHARE * count as f64;
        Self(seen.into_iter().filter(|(_, times)| !common(*times)).map(|(name, _)| name).collect())
    }

    /// The first mention in `text`: word by word, whatever the case, `-` and `_` alike.
    pub fn find(&self, place: &'static str, text: &str) -> Option<Mention> {
        words(text).find_map(|word| {
            let what = self.0.get(&normal(word))?;
            Some(Mention { place, word: word.to_owned(), what })
        })
    }
}

/// Names, numbers and paths' parts.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let part = |c: char| !(c.is_alphanumeric() || c == '_' || c == '-');
    text.split(part).map(|word| word.trim_matches(['-', '_'])).filter(|word| !word.is_empty())
}

/// Lower case with `_` between parts; `LeapYears`, `leap-years` and `leap_years` are one name.
fn normal(word: &str) -> String {
    let mut normal = String::with_capacity(word.len() + 4);
    let mut after_lower = false;
    for c in word.chars() {
        if c.is_uppercase() && after_lower {
            normal.push('_');
        }
        after_lower = c.is_lowercase() || c.is_ascii_digit();
        match c {
            '-' => normal.push('_'),
            c => normal.extend(c.to_lowercase()),
        }
    }
    normal
}

fn is_telling(name: &str) -> bool {
    let plain = name.chars().all(char::is_alphabetic);
    name.chars().count() >= if plain { MIN_PLAIN_CHARS } else { MIN_CHARS }
}

/// `repo` or `repository` of the task file's metadata, and the top folders of its work tree.
fn repositories(folder: &Path) -> Vec<String> {
    let mut names = Vec::new();
    let file = std::fs::read_to_string(folder.join("task.toml")).unwrap_or_default();
    if let Ok(table) = file.parse::<toml::Table>() {
        for key in ["repo", "repository", "repo_name"] {
            let value = table.get("metadata").and_then(|metadata| metadata.get(key));
            if let Some(value) = value.and_then(toml::Value::as_str) {
                names.extend(value.rsplit('/').next().map(|name| name.trim_end_matches(".git").to_owned()));
            }
        }
    }
    if let Ok(entries) = std::fs::read_dir(folder.join("environment/workspace")) {
        let folders = entries.flatten().filter(|entry| entry.path().is_dir());
        names.extend(folders.map(|entry| entry.file_name().to_string_lossy().into_owned()));
    }
    names
}

/// Functions and classes of test files, in the languages that name them: `def test_x`,
/// `class TestX`, `func TestX`, `fn x`, `it("x")`.
fn test_names(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| {
        let line = line.trim_start();
        let line = line.strip_prefix("async ").unwrap_or(line);
        let rest = ["def ", "class ", "func ", "fn ", "function "]
            .iter()
            .find_map(|word| line.strip_prefix(word))?;
        rest.split(|c: char| !(c.is_alphanumeric() || c == '_')).next().filter(|name| !name.is_empty())
    })
}

/// The text files under a folder, links left out.
fn files(folder: &Path) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = std::fs::read_dir(&folder) else { continue };
        for path in entries.flatten().map(|entry| entry.path()) {
            let Ok(kind) = std::fs::symlink_metadata(&path) else { continue };
            if kind.is_dir() {
                folders.push(path);
            } else if kind.is_file() && kind.len() <= MAX_FILE && found.len() < MAX_FILES {
                let bytes = std::fs::read(&path).unwrap_or_default();
                found.push((path, String::from_utf8_lossy(&bytes).into_owned()));
            }
        }
    }
    found.sort();
    found
}

/// The hidden texts of one task: its tests and its reference patch.
#[derive(Clone, Debug)]
pub struct TaskSecrets {
    /// Runs of [`MAX_RUN`] words of the hidden texts.
    runs: BTreeSet<Vec<String>>,
    tests: BTreeSet<String>,
    /// Words of the instruction, which are no secret.
    open: BTreeSet<String>,
}

/// What a skill gives away.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Leak {
    #[error(
        "the skill repeats {MAX_RUN} words in a row of a hidden text: \"{words}\"\nhelp: say what causes the failure and how to check it, not what to type"
    )]
    Run { words: String },
    #[error(
        "the skill names the hidden test `{word}`\nhelp: say how to check the behaviour, not which test checks it"
    )]
    Test { word: String },
    #[error("the skill points at a line: `{word}`\nhelp: say what to look for, not where the fix goes")]
    Line { word: String },
}

impl TaskSecrets {
    /// Reads what the task hides.
    pub fn of(task: &Task) -> Self {
        let open: BTreeSet<String> = words(task.instruction()).map(normal).collect();
        let tests_folder = files(&task.folder().join("tests"));
        let tests = tests_folder
            .iter()
            .flat_map(|(_, text)| test_names(text).map(normal))
            .filter(|name| is_telling(name) && !open.contains(name))
            .collect();
        let mut texts: Vec<String> = tests_folder.into_iter().map(|(_, text)| text).collect();
        texts.extend(files(&task.folder().join("solution")).into_iter().map(|(_, text)| text));
        if let Ok(Some(Reference::Patch(bytes))) = task.reference() {
            texts.push(String::from_utf8_lossy(&bytes).into_owned());
        }
        let runs = texts.iter().flat_map(|text| runs(text, &open).into_iter().map(|(run, _)| run)).collect();
        Self { runs, tests, open }
    }

    /// The first thing that `skill` gives away.
    pub fn find(&self, skill: &str) -> Option<Leak> {
        if let Some(word) = words(skill).find(|word| self.tests.contains(&normal(word))) {
            return Some(Leak::Test { word: word.to_owned() });
        }
        if let Some(word) = skill.split_whitespace().find(|word| is_line(word)) {
            return Some(Leak::Line { word: word.to_owned() });
        }
        let found = runs(skill, &self.open).into_iter().find(|(run, _)| self.runs.contains(run));
        found.map(|(_, words)| Leak::Run { words })
    }
}

/// Every run of [`MAX_RUN`] words without those that are open, with the words as written.
fn runs(text: &str, open: &BTreeSet<String>) -> Vec<(Vec<String>, String)> {
    let words: Vec<(&str, String)> =
        words(text).map(|word| (word, normal(word))).filter(|(_, normal)| !open.contains(normal)).collect();
    let run = |window: &[(&str, String)]| {
        let normal = window.iter().map(|(_, normal)| normal.clone()).collect();
        let written: Vec<_> = window.iter().map(|(word, _)| *word).collect();
        (normal, written.join(" "))
    };
    words.windows(MAX_RUN).map(run).collect()
}

/// `file.py:12`.
fn is_line(word: &str) -> bool {
    let word = word.trim_matches(|c: char| !c.is_alphanumeric());
    let Some((file, line)) = word.split_once(':') else { return false };
    file.contains('.') && !line.is_empty() && line.chars().all(|c| c.is_ascii_digit() || c == ':')
}
