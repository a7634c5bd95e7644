//! What of the making of a pool is on disk, so that it goes on after any end?

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::error::MutateError;
use super::observe::Suite;
use crate::store::write_whole;

/// What became of a mutation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Verdict {
    /// It is a task.
    Kept,
    /// No test fails: equal in effect, or not tested for.
    Survived,
    /// The tests did not end.
    Hung,
    /// No test ran.
    Broken,
    /// Nothing can be told of it without giving the answer away.
    NoText,
    /// Another task has the same failing tests in the same function, or the same change.
    Duplicate,
    /// Reference and empty patch did not give 1 and 0 with exactly the listed tests.
    Unverified,
}

impl Verdict {
    pub(super) const ALL: [Self; 7] = [
        Self::Kept,
        Self::Survived,
        Self::Hung,
        Self::Broken,
        Self::NoText,
        Self::Duplicate,
        Self::Unverified,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Kept => "kept",
            Self::Survived => "survived",
            Self::Hung => "hung",
            Self::Broken => "broken",
            Self::NoText => "no text",
            Self::Duplicate => "duplicate",
            Self::Unverified => "unverified",
        }
    }
}

/// One line of the record.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Line {
    pub(super) id: String,
    pub(super) verdict: Verdict,
    /// The tests that failed; for kept ones only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) failing: Vec<String>,
}

/// The folder `state` of a pool.
#[derive(Debug)]
pub(super) struct State {
    folder: PathBuf,
}

impl State {
    /// Opens the state of a pool, or begins it in an empty folder. `identity` stands for all
    /// that decides what the pool holds.
    pub(super) fn open(out: &Path, identity: &str) -> Result<Self, MutateError> {
        let folder = out.join("state");
        let mark = folder.join("identity");
        match std::fs::read_to_string(&mark) {
            Ok(known) if known == identity => {}
            Ok(_) => return Err(MutateError::OtherPool { out: out.to_owned() }),
            Err(_) => {
                std::fs::create_dir_all(out).map_err(MutateError::io("making", out))?;
                let mut entries = std::fs::read_dir(out).map_err(MutateError::io("reading", out))?;
                if entries.any(|entry| entry.is_ok_and(|entry| entry.file_name() != "state")) {
                    return Err(MutateError::NotAPool { out: out.to_owned() });
                }
                std::fs::create_dir_all(&folder).map_err(MutateError::io("making", &folder))?;
                write_whole(&mark, identity.as_bytes()).map_err(MutateError::io("writing", &mark))?;
            }
        }
        let state = Self { folder };
        // What an earlier start was just writing.
        state.clear()?;
        Ok(state)
    }

    /// Takes away the tasks that were written and not published.
    pub(super) fn clear(&self) -> Result<(), MutateError> {
        let unfinished = self.folder.join("new");
        if unfinished.exists() {
            std::fs::remove_dir_all(&unfinished).map_err(MutateError::io("removing", &unfinished))?;
        }
        std::fs::create_dir_all(&unfinished).map_err(MutateError::io("making", &unfinished))
    }

    /// The archive with pytest, kept once for all tasks to link to.
    pub(super) fn archive(&self, from: &Path) -> Result<PathBuf, MutateError> {
        let path = self.folder.join("python.zip");
        if !path.exists() {
            let bytes = std::fs::read(from).map_err(MutateError::io("reading", from))?;
            write_whole(&path, &bytes).map_err(MutateError::io("writing", &path))?;
        }
        Ok(path)
    }

    /// A place for a task that is not verified yet.
    pub(super) fn unfinished(&self, name: &str) -> PathBuf {
        self.folder.join("new").join(name)
    }

    pub(super) fn suite(&self, package: &str) -> Option<Suite> {
        let bytes = std::fs::read(self.folder.join(format!("{package}.suite.json"))).ok()?;
        serde_json::from_slice(&bytes).ok()
    }

    pub(super) fn keep_suite(&self, package: &str, suite: &Suite) -> Result<(), MutateError> {
        let path = self.folder.join(format!("{package}.suite.json"));
        let bytes = serde_json::to_vec(suite).unwrap_or_default();
        write_whole(&path, &bytes).map_err(MutateError::io("writing", &path))
    }

    /// The verdicts of a package so far. A last line that was not written whole is taken away.
    pub(super) fn record(&self, package: &str) -> Result<Record, MutateError> {
        let path = self.folder.join(format!("{package}.verdicts.jsonl"));
        let mut options = OpenOptions::new();
        let mut file = options
            .read(true)
            .append(true)
            .create(true)
            .open(&path)
            .map_err(MutateError::io("opening", &path))?;
        let mut text = Vec::new();
        file.read_to_end(&mut text).map_err(MutateError::io("reading", &path))?;
        let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        if whole < text.len() {
            file.set_len(whole as u64).map_err(MutateError::io("writing", &path))?;
        }
        let lines = text[..whole].split(|byte| *byte == b'\n');
        let lines = lines.filter_map(|line| serde_json::from_slice(line).ok()).collect();
        Ok(Record { path, file, lines })
    }
}

/// The verdicts of one package, appended to.
#[derive(Debug)]
pub(super) struct Record {
    path: PathBuf,
    file: File,
    pub(super) lines: Vec<Line>,
}

impl Record {
    /// Adds lines; on return they are on the device.
    pub(super) fn append(&mut self, lines: Vec<Line>) -> Result<(), MutateError> {
        let mut text = Vec::new();
        for line in &lines {
            text.extend(serde_json::to_vec(line).unwrap_or_default());
            text.push(b'\n');
        }
        self.file
            .write_all(&text)
            .and_then(|()| self.file.sync_data())
            .map_err(MutateError::io("writing", &self.path))?;
        self.lines.extend(lines);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(id: &str) -> Line {
        Line { id: id.into(), verdict: Verdict::Survived, failing: Vec::new() }
    }

    #[test]
    fn a_line_that_was_cut_by_a_kill_is_written_again() {
        let out = tempfile::tempdir().unwrap();
        let state = State::open(out.path(), "one").unwrap();
        let mut record = state.record("shop").unwrap();
        record.append(vec![line("a"), line("b")]).unwrap();
        let path = out.path().join("state/shop.verdicts.jsonl");
        let text = std::fs::read_to_string(&path).unwrap();
        for cut in 0..text.len() {
            std::fs::write(&path, &text[..cut]).unwrap();
            let whole = text[..cut].matches('\n').count();
            let mut record = state.record("shop").unwrap();
            assert_eq!(record.lines.len(), whole, "cut at {cut}");
            record.append(vec![line("c")]).unwrap();
            assert_eq!(state.record("shop").unwrap().lines.len(), whole + 1, "cut at {cut}");
        }
    }

    #[test]
    fn a_pool_is_not_mixed_with_another_or_with_other_files() {
        let out = tempfile::tempdir().unwrap();
        State::open(out.path(), "one").unwrap();
        State::open(out.path(), "one").unwrap();
        assert!(matches!(State::open(out.path(), "two"), Err(MutateError::OtherPool { .. })));
        let other = tempfile::tempdir().unwrap();
        std::fs::write(other.path().join("thesis.txt"), "").unwrap();
        assert!(matches!(State::open(other.path(), "one"), Err(MutateError::NotAPool { .. })));
    }
}
