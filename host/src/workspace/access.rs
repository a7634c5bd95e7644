//! What do plugins reach of a workspace? The capabilities `workspace-read`,
//! `workspace-write` and `exec`.

use std::fs::File;
use std::io::{self, Read, Write};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::beneath::Beneath;
use super::caps::{EXEC_BYTES, EXEC_TIME, FILE_BYTES, LINE_BYTES, LIST_ENTRIES, SEARCH_ENTRIES, SEARCH_HITS};
use super::command::{CommandOutput, SandboxCommand};
use super::error::Error;
use super::workspace::Workspace;
use crate::plugin::{ExecOutput, SearchHit, WorkspaceAccess, WorkspaceEntry, WorkspaceError};

#[async_trait]
impl WorkspaceAccess for Workspace {
    async fn read(&self, path: &str) -> Result<Vec<u8>, WorkspaceError> {
        self.blocking(path, |beneath, path| read_file(&beneath, path)).await
    }

    async fn list(&self, path: &str) -> Result<Vec<WorkspaceEntry>, WorkspaceError> {
        self.blocking(path, |beneath, path| list(&beneath, path)).await
    }

    async fn stat(&self, path: &str) -> Result<WorkspaceEntry, WorkspaceError> {
        self.blocking(path, |beneath, path| stat(&beneath, path)).await
    }

    async fn search(
        &self,
        text: &str,
        suffix: &str,
        max_hits: u32,
    ) -> Result<Vec<SearchHit>, WorkspaceError> {
        let (text, suffix) = (text.to_owned(), suffix.to_owned());
        self.blocking("", move |beneath, _| search(&beneath, &text, &suffix, max_hits as usize)).await
    }

    async fn diff(&self) -> Result<Vec<u8>, WorkspaceError> {
        Ok(self.extract().await.map_err(failed)?.patch)
    }

    async fn untracked(&self) -> Result<Vec<String>, WorkspaceError> {
        Ok(self.extract().await.map_err(failed)?.work_tree.untracked)
    }

    async fn write(&self, path: &str, content: &[u8]) -> Result<(), WorkspaceError> {
        too_large("the content", content.len() as u64, FILE_BYTES)?;
        let (content, owner) = (content.to_owned(), self.owner());
        self.blocking(path, move |beneath, path| {
            beneath.acting_as(owner, |beneath| write_file(beneath, path, &content))
        })
        .await
    }

    async fn exec(&self, argv: &[String], timeout: Duration) -> Result<ExecOutput, WorkspaceError> {
        let command = SandboxCommand::argv(argv, timeout.min(EXEC_TIME)).alone();
        Ok(shown(self.run(&command).await.map_err(failed)?))
    }
}

/// What a plugin reads of a command's output.
pub(super) fn shown(output: CommandOutput) -> ExecOutput {
    let bytes = output.output.bytes();
    let text = match bytes.len() > EXEC_BYTES {
        false => bytes,
        true => {
            let (head, tail) = (&bytes[..EXEC_BYTES / 2], &bytes[bytes.len() - EXEC_BYTES / 2..]);
            let gap = format!("\n[{} of {} bytes left out]\n", bytes.len() - EXEC_BYTES, bytes.len());
            [head, gap.as_bytes(), tail].concat()
        }
    };
    ExecOutput { exit_code: output.exit_code, text }
}

impl Workspace {
    /// Runs file work off the threads that drive episodes.
    async fn blocking<T: Send + 'static>(
        &self,
        path: &str,
        work: impl FnOnce(Arc<Beneath>, &str) -> Result<T, WorkspaceError> + Send + 'static,
    ) -> Result<T, WorkspaceError> {
        let (beneath, path) = (self.beneath(), self.below(path).to_owned());
        tokio::task::spawn_blocking(move || work(beneath, &path))
            .await
            .map_err(|_| WorkspaceError::Failed("the workspace is closing".into()))?
    }
}

pub(super) fn stat(beneath: &Beneath, path: &str) -> Result<WorkspaceEntry, WorkspaceError> {
    let meta = beneath.read(path).and_then(|file| file.metadata()).map_err(|error| told(path, &error))?;
    Ok(WorkspaceEntry { path: path.to_owned(), is_folder: meta.is_dir(), bytes: meta.len() })
}

pub(super) fn read_file(beneath: &Beneath, path: &str) -> Result<Vec<u8>, WorkspaceError> {
    let file = beneath.read(path).map_err(|error| told(path, &error))?;
    let meta = file.metadata().map_err(|error| told(path, &error))?;
    if !meta.is_file() {
        return Err(WorkspaceError::Denied(path.to_owned()));
    }
    too_large(path, meta.len(), FILE_BYTES)?;
    let mut bytes = Vec::new();
    file.take(FILE_BYTES + 1).read_to_end(&mut bytes).map_err(|error| told(path, &error))?;
    too_large(path, bytes.len() as u64, FILE_BYTES)?;
    Ok(bytes)
}

pub(super) fn write_file(beneath: &Beneath, path: &str, content: &[u8]) -> Result<(), WorkspaceError> {
    // What a plugin writes is part of the work tree; the agent's repository is not.
    if path.split('/').any(|part| part == ".git") {
        return Err(WorkspaceError::Denied(path.to_owned()));
    }
    let fail = |error: io::Error| told(path, &error);
    for (at, _) in path.match_indices('/').filter(|(at, _)| *at > 0) {
        beneath.make_folder(&path[..at]).map_err(fail)?;
    }
    let mut file = beneath.create(path).map_err(fail)?;
    file.write_all(content).map_err(fail)
}

pub(super) fn list(beneath: &Beneath, path: &str) -> Result<Vec<WorkspaceEntry>, WorkspaceError> {
    let fail = |error: io::Error| told(path, &error);
    let folder = beneath.read(path).map_err(fail)?;
    if !folder.metadata().map_err(fail)?.is_dir() {
        return Err(WorkspaceError::Denied(path.to_owned()));
    }
    let mut entries = Vec::new();
    for (name, meta) in children(&folder).map_err(fail)? {
        too_large("the listing", entries.len() as u64 + 1, LIST_ENTRIES as u64)?;
        let path = join(path, &name);
        entries.push(WorkspaceEntry { path, is_folder: meta.is_dir(), bytes: meta.len() });
    }
    Ok(entries)
}

/// Names and properties of what a folder holds, sorted; names that are not UTF-8 are left out.
///
/// Read through the open folder itself, so that no link put in its place is followed.
fn children(folder: &File) -> io::Result<Vec<(String, std::fs::Metadata)>> {
    use std::os::fd::AsRawFd;
    let mut found = Vec::new();
    for entry in std::fs::read_dir(format!("/proc/self/fd/{}", folder.as_raw_fd()))? {
        let entry = entry?;
        if let (Ok(name), Ok(meta)) = (entry.file_name().into_string(), entry.metadata()) {
            found.push((name, meta));
        }
    }
    found.sort_by(|left, right| left.0.cmp(&right.0));
    Ok(found)
}

pub(super) fn search(
    beneath: &Beneath,
    text: &str,
    suffix: &str,
    max_hits: usize,
) -> Result<Vec<SearchHit>, WorkspaceError> {
    if text.is_empty() {
        return Err(WorkspaceError::Failed("the text to search for is empty".into()));
    }
    let max_hits = max_hits.min(SEARCH_HITS);
    let mut hits = Vec::new();
    let mut folders = vec![String::new()];
    let mut seen = 0;
    while let Some(folder) = folders.pop() {
        let Ok(open) = beneath.read(&folder) else { continue };
        let mut inner = Vec::new();
        for (name, meta) in children(&open).map_err(|error| told(&folder, &error))? {
            seen += 1;
            too_large("files to search", seen, SEARCH_ENTRIES as u64)?;
            let path = join(&folder, &name);
            if meta.is_dir() && name != ".git" {
                inner.push(path);
            } else if meta.is_file() && name.ends_with(suffix) && meta.len() <= FILE_BYTES {
                search_file(beneath, &path, text, max_hits, &mut hits);
            }
            if hits.len() >= max_hits {
                return Ok(hits);
            }
        }
        folders.extend(inner.into_iter().rev());
    }
    Ok(hits)
}

fn search_file(beneath: &Beneath, path: &str, text: &str, max_hits: usize, hits: &mut Vec<SearchHit>) {
    let Ok(bytes) = read_file(beneath, path) else { return };
    if bytes.contains(&0) {
        return;
    }
    for (at, line) in String::from_utf8_lossy(&bytes).lines().enumerate() {
        if hits.len() >= max_hits {
            return;
        }
        if line.contains(text) {
            let end = line.floor_char_boundary(LINE_BYTES);
            hits.push(SearchHit { path: path.to_owned(), line: at as u32 + 1, text: line[..end].to_owned() });
        }
    }
}

fn join(folder: &str, name: &str) -> String {
    match folder.trim_end_matches('/') {
        "" | "." => name.to_owned(),
        folder => format!("{folder}/{name}"),
    }
}

pub(super) fn too_large(what: &str, used: u64, limit: u64) -> Result<(), WorkspaceError> {
    match used > limit {
        true => Err(WorkspaceError::TooLarge(format!("{what}: {used} and the limit is {limit}"))),
        false => Ok(()),
    }
}

/// What a plugin is told of an error of the system.
pub(super) fn told(path: &str, error: &io::Error) -> WorkspaceError {
    match error.raw_os_error() {
        Some(libc::ENOENT | libc::ENOTDIR) => WorkspaceError::NotFound(path.to_owned()),
        Some(libc::EXDEV | libc::ELOOP | libc::EACCES | libc::EPERM | libc::EISDIR | libc::ENXIO) => {
            WorkspaceError::Denied(path.to_owned())
        }
        _ => WorkspaceError::Failed(format!("`{path}`: {error}")),
    }
}

pub(super) fn failed(error: Error) -> WorkspaceError {
    match error {
        Error::TooLarge { .. } => WorkspaceError::TooLarge(error.to_string()),
        other => WorkspaceError::Failed(other.to_string()),
    }
}
