//! What did the agent change? Patch and state of a work tree, read by the host.
//!
//! The git directory is the host's own at the base commit; the agent's files are
//! the work tree and nothing else. Its repository, index and history play no part.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::config::ExtractLimits;
use super::error::Error;
use super::git::HostGit;
use crate::harness::WorkTree;

/// The difference of a work tree to its base commit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extracted {
    /// A patch for `git apply`, byte for byte; empty when nothing changed.
    pub patch: Vec<u8>,
    /// Paths that differ: files of the base commit, and new ones.
    pub work_tree: WorkTree,
}

/// Litter that is never part of a patch.
const LITTER: [&str; 2] = [":(top,exclude,glob)**/__pycache__/**", ":(top,exclude,glob)**/*.pyc"];

/// Longest path in a work tree; the kernel takes 4096 bytes with the folders above it.
const PATH_BYTES: u64 = 2_000;

/// Reads the difference. `git` has an index of its own at the base commit.
pub(crate) async fn extract(
    git: &HostGit,
    tracked: &BTreeSet<PathBuf>,
    limits: &ExtractLimits,
) -> Result<Extracted, Error> {
    let left_out = survey(&git.work_tree, tracked, limits)?;
    let mut specs = b":(top)\0".to_vec();
    for spec in LITTER {
        specs.extend_from_slice(spec.as_bytes());
        specs.push(0);
    }
    for path in left_out {
        specs.extend_from_slice(b":(top,exclude,literal)");
        specs.extend_from_slice(path.as_os_str().as_bytes());
        specs.push(0);
    }
    let add = ["add", "--all", "--force", "--pathspec-from-file=-", "--pathspec-file-nul"];
    git.run(&add, Some(&specs), 0).await.map_err(|error| match error {
        Error::Git { reason, .. } => Error::UnreadableWorkTree { reason },
        other => other,
    })?;
    let status = ["diff-index", "--cached", "--no-renames", "--name-status", "-z", "HEAD"];
    let status = git.run(&status, None, limits.patch_bytes).await?;
    let work_tree = parse_status(&status);
    if work_tree == WorkTree::default() {
        return Ok(Extracted::default());
    }
    let diff = [
        "diff-index",
        "--cached",
        "--patch",
        "--binary",
        "--full-index",
        "--no-renames",
        "--no-color",
        "--no-ext-diff",
        "--no-textconv",
        "--src-prefix=a/",
        "--dst-prefix=b/",
        "HEAD",
    ];
    Ok(Extracted { patch: git.run(&diff, None, limits.patch_bytes).await?, work_tree })
}

/// Walks the work tree without following links: checks the limits, makes every
/// file readable to the host, and gives back what git cannot or must not read:
/// repositories inside the tree, and files that are no files.
fn survey(tree: &Path, tracked: &BTreeSet<PathBuf>, limits: &ExtractLimits) -> Result<Vec<PathBuf>, Error> {
    let mut left_out = Vec::new();
    let mut folders = vec![PathBuf::new()];
    let (mut entries, mut bytes) = (0u64, 0u64);
    while let Some(folder) = folders.pop() {
        let full = tree.join(&folder);
        let mut inner = Vec::new();
        let mut repository = false;
        for entry in fs::read_dir(&full).map_err(Error::io("reading", &full))? {
            let entry = entry.map_err(Error::io("reading", &full))?;
            if entry.file_name() == ".git" {
                repository = true;
                continue;
            }
            let (path, name) = (entry.path(), folder.join(entry.file_name()));
            if entry.file_name().eq_ignore_ascii_case(".git") {
                // Git refuses this name in any spelling.
                left_out.push(name);
                continue;
            }
            let meta = fs::symlink_metadata(&path).map_err(Error::io("reading", &path))?;
            let kind = meta.file_type();
            entries += 1;
            let length = name.as_os_str().len() as u64;
            if length > PATH_BYTES {
                let (used, limit) = (length, PATH_BYTES);
                return Err(Error::TooLarge { what: "a path of the work tree", used, limit, unit: "bytes" });
            }
            if entries > limits.entries {
                let (used, limit) = (entries, limits.entries);
                return Err(Error::TooLarge { what: "the work tree", used, limit, unit: "entries" });
            }
            let wanted = if kind.is_dir() { 0o700 } else { 0o400 };
            let mode = meta.permissions().mode();
            if (kind.is_dir() || kind.is_file()) && mode & wanted != wanted {
                fs::set_permissions(&path, fs::Permissions::from_mode(mode | wanted))
                    .map_err(Error::io("opening", &path))?;
            }
            if kind.is_dir() {
                inner.push(name);
            } else if kind.is_file() {
                bytes += meta.len();
            } else if !kind.is_symlink() {
                left_out.push(name);
            }
            if bytes > limits.total_bytes {
                let (used, limit) = (bytes, limits.total_bytes);
                return Err(Error::TooLarge { what: "the work tree", used, limit, unit: "bytes" });
            }
        }
        // `git init` in a folder of the task's own hides nothing; a repository of the agent's is left out.
        let own = folder.as_os_str().is_empty() || holds_tracked(tracked, &folder);
        if repository && !own {
            left_out.push(folder);
        } else {
            folders.append(&mut inner);
        }
    }
    left_out.sort();
    Ok(left_out)
}

fn holds_tracked(tracked: &BTreeSet<PathBuf>, folder: &Path) -> bool {
    tracked.range(folder.to_owned()..).next().is_some_and(|path| path.starts_with(folder))
}

/// Reads `status NUL path NUL …`.
fn parse_status(output: &[u8]) -> WorkTree {
    let mut work_tree = WorkTree::default();
    let mut fields = output.split(|byte| *byte == 0);
    while let (Some(status), Some(path)) = (fields.next(), fields.next()) {
        let path = String::from_utf8_lossy(path).into_owned();
        match status.first() {
            Some(b'A') => work_tree.untracked.push(path),
            Some(_) => work_tree.changed.push(path),
            None => {}
        }
    }
    work_tree
}
