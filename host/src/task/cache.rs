//! Has this patch been judged already? Verdicts on disk, kept by patch, task and
//! evaluator: a new patch under an old name is judged again.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::error::{TaskError, VerifyError};
use super::load::Task;
use super::verify::Verdict;
use crate::store::{Digest, write_whole};
use crate::workspace::WorkspaceConfig;

/// What judged: a verdict of another version is not taken.
pub const EVALUATOR: &str = concat!("tandem ", env!("CARGO_PKG_VERSION"), ", swebench 5.0.2, guarded");

/// A folder of verdicts.
#[derive(Clone, Debug)]
pub struct ResultCache {
    folder: PathBuf,
}

/// One verdict, with all that it answers for.
#[derive(Debug, Serialize, Deserialize)]
struct Entry {
    evaluator: String,
    task: String,
    fingerprint: Digest,
    patch: Digest,
    verdict: Verdict,
}

impl ResultCache {
    /// The cache in a folder, which need not be there yet.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    /// The verdict that is kept for a patch, or a new one, which is kept then; and
    /// whether it was kept. Only verdicts are kept: what ended without one is run again.
    ///
    /// # Errors
    /// As [`Task::verify`]. A cache that cannot be read or written is no error: it
    /// saves time and decides nothing.
    pub async fn verify(
        &self,
        task: &Task,
        patch: &[u8],
        config: &WorkspaceConfig,
    ) -> Result<(Verdict, bool), VerifyError> {
        let Ok(fingerprint) = task.fingerprint() else {
            return Ok((task.verify_afresh(patch, config).await?, false));
        };
        let key = Key { fingerprint, patch: Digest::of(patch) };
        if let Some(verdict) = self.get(&key) {
            return Ok((verdict, true));
        }
        let verdict = task.verify_afresh(patch, config).await?;
        if let Err(error) = self.put(&key, task.name(), &verdict) {
            tracing::warn!("a verdict was not kept in `{}`: {error}", self.folder.display());
        }
        Ok((verdict, false))
    }

    fn path(&self, key: &Key) -> PathBuf {
        let mut hash = Sha256::new();
        for part in [EVALUATOR.as_bytes(), key.fingerprint.bytes(), key.patch.bytes()] {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        self.folder.join(format!("{}.json", hex::encode(hash.finalize())))
    }

    /// A kept verdict; an entry that does not say what it is for is none.
    fn get(&self, key: &Key) -> Option<Verdict> {
        let entry: Entry = serde_json::from_slice(&fs::read(self.path(key)).ok()?).ok()?;
        let fits =
            entry.evaluator == EVALUATOR && entry.fingerprint == key.fingerprint && entry.patch == key.patch;
        fits.then_some(entry.verdict)
    }

    fn put(&self, key: &Key, task: &str, verdict: &Verdict) -> std::io::Result<()> {
        fs::create_dir_all(&self.folder)?;
        let entry = Entry {
            evaluator: EVALUATOR.to_owned(),
            task: task.to_owned(),
            fingerprint: key.fingerprint,
            patch: key.patch,
            verdict: verdict.clone(),
        };
        write_whole(&self.path(key), &serde_json::to_vec(&entry)?)
    }
}

struct Key {
    fingerprint: Digest,
    patch: Digest,
}

impl Task {
    /// The digest of all that a verdict depends on beside the patch: the files of the
    /// environment, the tests, and `task.toml` with the name of the image.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub fn fingerprint(&self) -> Result<Digest, TaskError> {
        if let Some(known) = self.fingerprint.get() {
            return Ok(*known);
        }
        let found = self.find_fingerprint()?;
        Ok(*self.fingerprint.get_or_init(|| found))
    }

    fn find_fingerprint(&self) -> Result<Digest, TaskError> {
        let mut lines = Vec::new();
        for part in ["environment", "tests", "steps"] {
            add_files(&self.folder().join(part), part, &mut lines)?;
        }
        let path = self.folder().join("task.toml");
        let bytes = fs::read(&path).map_err(|source| TaskError::Unreadable { path, source })?;
        lines.push(format!("task.toml {}", Digest::of(&bytes)));
        lines.extend(self.step().map(|step| format!("step {step}")));
        lines.sort();
        Ok(Digest::of(lines.join("\n").as_bytes()))
    }
}

fn add_files(folder: &Path, name: &str, lines: &mut Vec<String>) -> Result<(), TaskError> {
    use std::os::unix::fs::PermissionsExt as _;
    if !folder.is_dir() {
        return Ok(());
    }
    let unreadable = |path: &Path| {
        let path = path.to_owned();
        move |source| TaskError::Unreadable { path, source }
    };
    for entry in fs::read_dir(folder).map_err(unreadable(folder))? {
        let path = entry.map_err(unreadable(folder))?.path();
        let name = format!("{name}/{}", path.file_name().unwrap_or_default().to_string_lossy());
        let meta = fs::symlink_metadata(&path).map_err(unreadable(&path))?;
        if meta.is_dir() {
            add_files(&path, &name, lines)?;
        } else if meta.is_symlink() {
            let target = fs::read_link(&path).map_err(unreadable(&path))?;
            lines.push(format!("{name} -> {}", target.display()));
        } else {
            let bytes = fs::read(&path).map_err(unreadable(&path))?;
            let runs = meta.permissions().mode() & 0o111 != 0;
            lines.push(format!("{name} {runs} {}", Digest::of(&bytes)));
        }
    }
    Ok(())
}
