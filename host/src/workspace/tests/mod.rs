//! Real sandboxes, real git, hostile work trees: what the tests share.

mod backends;
mod basics;
mod caps;
mod complaints;
mod hostile_git;
mod leases;
mod network;
mod patches;
mod podman;
mod resident;
mod starts;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::*;

pub const LONG: Duration = Duration::from_secs(20);

/// Files of a small task, with line ends, encodings and modes that git likes to change.
pub fn write_files(folder: &Path) {
    let files: [(&str, &[u8]); 8] = [
        ("app/main.py", b"def main():\n    return 1\n"),
        ("app/old.py", b"gone = True\n"),
        ("crlf.txt", b"one\r\ntwo\r\nthree\r\n"),
        ("latin.txt", b"caf\xe9\nth\xe9\n"),
        ("data.bin", b"\x00\x01\x02\xff\x00"),
        ("no_newline.txt", b"last line without an end"),
        ("run.sh", b"#!/bin/sh\necho hi\n"),
        (".gitattributes", b"* text=auto eol=lf\n*.py filter=evil diff=evil\n*.txt ident\n"),
    ];
    for (name, content) in files {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
}

pub async fn workspace() -> Workspace {
    let folder = tempfile::tempdir().unwrap();
    write_files(folder.path());
    let config = WorkspaceConfig::default();
    let snapshot = Snapshot::take(folder.path(), &config).await.unwrap();
    Workspace::create(Arc::new(snapshot), &config).await.unwrap()
}

pub async fn run(workspace: &Workspace, script: &str) -> (Option<i32>, String) {
    let output = workspace.bash(script, LONG).await.unwrap();
    (output.exit_code, String::from_utf8_lossy(&output.output.bytes()).into_owned())
}

/// Processes of this machine whose command line holds `mark`.
pub fn processes_with(mark: &str) -> usize {
    let lines = fs::read_dir("/proc").unwrap().filter_map(|entry| {
        let bytes = fs::read(entry.ok()?.path().join("cmdline")).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    });
    lines.filter(|line| line.contains(mark)).count()
}

/// As the default, with a root of its own that goes with the guard.
pub fn own_root() -> (tempfile::TempDir, WorkspaceConfig) {
    let root = tempfile::tempdir().unwrap();
    scratch::open_to_others(root.path()).unwrap();
    let config = WorkspaceConfig { root: Some(root.path().to_owned()), ..WorkspaceConfig::default() };
    (root, config)
}

/// A workspace over the files that `write` makes.
pub async fn workspace_over(config: &WorkspaceConfig, write: impl FnOnce(&Path)) -> Workspace {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path());
    let snapshot = Arc::new(Snapshot::take(folder.path(), config).await.unwrap());
    Workspace::create(snapshot, config).await.unwrap()
}

/// What a tree holds, apart from repositories: kind, permission and bytes of each path.
pub fn contents(tree: &Path) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    let mut left = vec![PathBuf::new()];
    while let Some(folder) = left.pop() {
        for entry in fs::read_dir(tree.join(&folder)).unwrap() {
            let entry = entry.unwrap();
            let name = folder.join(entry.file_name());
            let meta = fs::symlink_metadata(tree.join(&name)).unwrap();
            if entry.file_name() == ".git" {
                continue;
            }
            if meta.is_dir() {
                left.push(name);
            } else if meta.is_symlink() {
                found.insert(name, format!("link {:?}", fs::read_link(entry.path()).unwrap()));
            } else {
                let mode = if meta.permissions().mode() & 0o100 != 0 { "x" } else { "-" };
                let bytes = fs::read(entry.path()).unwrap();
                found.insert(name, format!("{mode} {} {}", bytes.len(), crate::store::Digest::of(&bytes)));
            }
        }
    }
    found
}
