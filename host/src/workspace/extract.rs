//! What did the agent change? Patch and state of a work tree, read by the host.
//!
//! The git directory is the host's own at the base commit; the agent's files are
//! the work tree and nothing else. What its own repository says is asked inside
//! the sandbox, and only to leave less out: files that it staged although they
//! are ignored, and files that a sparse checkout took away, which nobody deleted.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use super::config::ExtractLimits;
use super::error::Error;
use super::git::HostGit;
use super::ignored::{Ignored, question};
use super::snapshot::Snapshot;
use crate::harness::WorkTree;

/// The difference of a work tree to its base commit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extracted {
    /// A patch for `git apply`, byte for byte; empty when nothing changed.
    pub patch: Vec<u8>,
    /// Paths that differ: files of the base commit, and new ones.
    pub work_tree: WorkTree,
    /// What the patch does not carry although it is there.
    pub left_out: Vec<LeftOut>,
}

/// Something of a work tree that is no part of its patch.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LeftOut {
    /// Byte code, caches, and what the base commit ignores.
    Litter(PathBuf),
    /// A repository of its own.
    Repository(PathBuf),
    /// A pipe, a socket or a device.
    Special(PathBuf),
    /// `.git` in a spelling that git refuses.
    GitName(PathBuf),
    /// A file over its limit; one of the base commit stays as it was.
    TooLarge { path: PathBuf, bytes: u64, limit: u64 },
}

/// Folders that are never part of a patch.
const LITTER_FOLDERS: [&str; 4] = ["__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache"];

/// Longest path in a work tree; the kernel takes 4096 bytes with the folders above it.
const PATH_BYTES: u64 = 2_000;

/// What a work tree holds.
#[derive(Debug, Default)]
pub(super) struct Survey {
    /// Files and links that a patch may carry.
    present: Vec<PathBuf>,
    /// Files of the base commit that are there, whatever became of them.
    kept: BTreeSet<PathBuf>,
    left_out: Vec<LeftOut>,
    /// Whether the agent's repository may say more: something is ignored.
    pub(super) ignored: bool,
}

/// What the agent's own repository says, as far as it can only add to a patch.
#[derive(Debug, Default)]
pub(super) struct Said {
    /// Paths in its index.
    staged: BTreeSet<PathBuf>,
    /// Paths that a sparse checkout leaves out of the work tree.
    sparse: BTreeSet<PathBuf>,
}

impl Said {
    /// Reads `git ls-files -t -z --cached`.
    pub(super) fn read(output: &[u8]) -> Self {
        let mut said = Self::default();
        for line in output.split(|byte| *byte == 0) {
            match line {
                [b'S', b' ', path @ ..] => said.sparse.insert(PathBuf::from(OsStr::from_bytes(path))),
                [b'H', b' ', path @ ..] => said.staged.insert(PathBuf::from(OsStr::from_bytes(path))),
                _ => false,
            };
        }
        said
    }
}

/// Reads the difference. `git` has an index of its own at the base commit.
pub(super) async fn extract(
    git: &HostGit,
    host_tree: &Path,
    snapshot: &Snapshot,
    survey: Survey,
    said: &Said,
    limits: &ExtractLimits,
) -> Result<Extracted, Error> {
    let Survey { mut present, kept, mut left_out, .. } = survey;
    add_staged(host_tree, &mut present, &mut left_out, said, limits);
    let gone = snapshot.tracked().iter().filter(|path| !kept.contains(*path) && !said.sparse.contains(*path));
    let unreadable = |error| match error {
        Error::Git { reason, .. } => Error::UnreadableWorkTree { reason },
        other => other,
    };
    let gone = lines(gone);
    if !gone.is_empty() {
        git.run(&["update-index", "-z", "--force-remove", "--stdin"], Some(&gone), 0)
            .await
            .map_err(unreadable)?;
    }
    let present = lines(present.iter());
    if !present.is_empty() {
        let add = ["update-index", "--add", "--replace", "-z", "--stdin"];
        git.run(&add, Some(&present), 0).await.map_err(unreadable)?;
    }
    difference(git, "HEAD", left_out, limits).await
}

/// What the index of `git` has against the commit or tree `base`.
pub(super) async fn difference(
    git: &HostGit,
    base: &str,
    mut left_out: Vec<LeftOut>,
    limits: &ExtractLimits,
) -> Result<Extracted, Error> {
    let status = ["diff-index", "--cached", "--no-renames", "--name-status", "-z", base];
    let status = git.run(&status, None, limits.patch_bytes).await?;
    let work_tree = parse_status(&status);
    left_out.sort();
    if work_tree == WorkTree::default() {
        return Ok(Extracted { left_out, ..Extracted::default() });
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
        base,
    ];
    Ok(Extracted { patch: git.run(&diff, None, limits.patch_bytes).await?, work_tree, left_out })
}

/// Takes up ignored files that the agent staged or committed: it means them.
fn add_staged(
    tree: &Path,
    present: &mut Vec<PathBuf>,
    left_out: &mut Vec<LeftOut>,
    said: &Said,
    limits: &ExtractLimits,
) {
    let ignored: BTreeSet<PathBuf> = left_out
        .iter()
        .filter_map(|item| match item {
            LeftOut::Litter(path) => Some(path.clone()),
            _ => None,
        })
        .collect();
    if ignored.is_empty() {
        return;
    }
    let mut taken = BTreeSet::new();
    for path in &said.staged {
        let plain = path.components().all(|part| matches!(part, Component::Normal(_)));
        let Some(over) = path.ancestors().find(|above| ignored.contains(*above)) else { continue };
        if !plain || is_litter(path) {
            continue;
        }
        let Ok(meta) = fs::symlink_metadata(tree.join(path)) else { continue };
        // Nothing is read through a link that took the place of a folder.
        let real = path
            .ancestors()
            .skip(1)
            .all(|above| fs::symlink_metadata(tree.join(above)).is_ok_and(|meta| meta.is_dir()));
        if real && (meta.is_symlink() || (meta.is_file() && meta.len() <= limits.file_bytes)) {
            present.push(path.clone());
            taken.insert(over.to_owned());
        }
    }
    left_out.retain(
        |item| !matches!(item, LeftOut::Litter(path) if taken.contains(path) && !tree.join(path).is_dir()),
    );
}

/// Walks the work tree without following links: checks the limits, makes every
/// file readable to the host, and finds what git cannot or must not read.
/// `changes` are the layers of an overlay that hold what was written: a file in
/// none of them is the base commit's own, whatever its times say. Blocks for as
/// long as that takes.
pub(super) fn survey(
    tree: &Path,
    changes: Option<&[PathBuf]>,
    snapshot: &Arc<Snapshot>,
    limits: &ExtractLimits,
) -> Result<Survey, Error> {
    let tracked = snapshot.tracked();
    let rules = Ignored::start(snapshot).map_err(Error::io("starting", Path::new("git check-ignore")))?;
    let mut walk = Walk { tracked, changes, rules, limits, entries: 0, bytes: 0, survey: Survey::default() };
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        folders.append(&mut walk.folder(tree, &folder)?);
    }
    Ok(walk.survey)
}

struct Walk<'a> {
    tracked: &'a BTreeSet<PathBuf>,
    changes: Option<&'a [PathBuf]>,
    rules: Option<Ignored>,
    limits: &'a ExtractLimits,
    entries: u64,
    bytes: u64,
    survey: Survey,
}

/// An entry of a folder.
struct Entry {
    name: PathBuf,
    meta: fs::Metadata,
    /// Whether it is, or holds, a file of the base commit.
    tracked: bool,
}

impl Walk<'_> {
    /// Takes up one folder; gives back those in it that are to be walked.
    fn folder(&mut self, tree: &Path, folder: &Path) -> Result<Vec<PathBuf>, Error> {
        let full = tree.join(folder);
        let mut found = Vec::new();
        let mut repository = false;
        for entry in fs::read_dir(&full).map_err(Error::io("reading", &full))? {
            let entry = entry.map_err(Error::io("reading", &full))?;
            let (path, name) = (entry.path(), folder.join(entry.file_name()));
            if entry.file_name() == ".git" {
                repository = true;
                continue;
            }
            if entry.file_name().eq_ignore_ascii_case(".git") {
                self.survey.left_out.push(LeftOut::GitName(name));
                continue;
            }
            let meta = fs::symlink_metadata(&path).map_err(Error::io("reading", &path))?;
            let tracked =
                self.tracked.contains(&name) || (meta.is_dir() && holds_tracked(self.tracked, &name));
            found.push(Entry { name, meta, tracked });
        }
        // `git init` in a folder of the task's own hides nothing; a repository of the agent's is left out.
        let own = folder.as_os_str().is_empty() || holds_tracked(self.tracked, folder);
        if repository && !own {
            self.survey.left_out.push(LeftOut::Repository(folder.to_owned()));
            return Ok(Vec::new());
        }
        found.sort_by(|left, right| left.name.cmp(&right.name));
        let ignored = self.ignored(&found);
        let mut inner = Vec::new();
        for (Entry { name, meta, tracked }, ignored) in found.into_iter().zip(ignored) {
            if ignored {
                self.survey.ignored = true;
                self.survey.left_out.push(LeftOut::Litter(name));
                continue;
            }
            self.count(&name)?;
            if self.tracked.contains(&name) && !meta.is_dir() {
                self.survey.kept.insert(name.clone());
            }
            if is_litter(&name) {
                if !tracked || meta.is_dir() {
                    self.keep_below(&name);
                    self.survey.left_out.push(LeftOut::Litter(name));
                }
                continue;
            }
            if !meta.is_dir() && tracked && self.is_untouched(&name) {
                self.bytes += meta.len();
                continue;
            }
            let path = tree.join(&name);
            let wanted = if meta.is_dir() { 0o700 } else { 0o400 };
            let mode = meta.permissions().mode();
            if (meta.is_dir() || meta.is_file()) && mode & wanted != wanted {
                fs::set_permissions(&path, fs::Permissions::from_mode(mode | wanted))
                    .map_err(Error::io("opening", &path))?;
            }
            if meta.is_dir() {
                inner.push(name);
            } else if meta.is_symlink() {
                self.survey.present.push(name);
            } else if !meta.is_file() {
                self.survey.left_out.push(LeftOut::Special(name));
            } else if meta.len() > self.limits.file_bytes {
                let (bytes, limit) = (meta.len(), self.limits.file_bytes);
                self.survey.left_out.push(LeftOut::TooLarge { path: name, bytes, limit });
            } else {
                self.bytes += meta.len();
                self.survey.present.push(name);
            }
            if self.bytes > self.limits.total_bytes {
                let (used, limit) = (self.bytes, self.limits.total_bytes);
                return Err(Error::TooLarge { what: "the work tree", used, limit, unit: "bytes" });
            }
        }
        Ok(inner)
    }

    /// Whether a file of the base commit is seen through an overlay, and not a copy of it.
    fn is_untouched(&self, name: &Path) -> bool {
        let holds = |layer: &PathBuf| fs::symlink_metadata(layer.join(name)).is_ok();
        self.changes.is_some_and(|layers| !layers.iter().any(holds))
    }

    fn count(&mut self, name: &Path) -> Result<(), Error> {
        self.entries += 1;
        let length = name.as_os_str().len() as u64;
        if length > PATH_BYTES {
            let (used, limit) = (length, PATH_BYTES);
            return Err(Error::TooLarge { what: "a path of the work tree", used, limit, unit: "bytes" });
        }
        if self.entries > self.limits.entries {
            let (used, limit) = (self.entries, self.limits.entries);
            return Err(Error::TooLarge { what: "the work tree", used, limit, unit: "entries" });
        }
        Ok(())
    }

    /// Which entries the base commit ignores; none of what it holds itself.
    fn ignored(&mut self, found: &[Entry]) -> Vec<bool> {
        let mut ignored = vec![false; found.len()];
        let Some(rules) = &mut self.rules else { return ignored };
        let new: Vec<_> = (0..found.len()).filter(|at| !found[*at].tracked).collect();
        let asked: Vec<_> =
            new.iter().map(|at| question(&found[*at].name, found[*at].meta.is_dir())).collect();
        match rules.ask(&asked) {
            Ok(answers) => new.into_iter().zip(answers).for_each(|(at, answer)| ignored[at] = answer),
            // Git gives up over a path below a link of the task's: then nothing more is ignored.
            Err(_) => self.rules = None,
        }
        ignored
    }

    /// Files of the base commit in a litter folder stay as they were.
    fn keep_below(&mut self, folder: &Path) {
        let below = self.tracked.range(folder.to_owned()..).take_while(|path| path.starts_with(folder));
        self.survey.kept.extend(below.cloned());
    }
}

/// Byte code and caches, whatever the task says.
fn is_litter(path: &Path) -> bool {
    let in_folder = path.components().any(|part| LITTER_FOLDERS.iter().any(|name| part.as_os_str() == *name));
    in_folder || path.extension().is_some_and(|extension| extension == "pyc")
}

fn holds_tracked(tracked: &BTreeSet<PathBuf>, folder: &Path) -> bool {
    tracked.range(folder.to_owned()..).next().is_some_and(|path| path.starts_with(folder))
}

fn lines<'a>(paths: impl Iterator<Item = &'a PathBuf>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for path in paths {
        bytes.extend_from_slice(path.as_os_str().as_bytes());
        bytes.push(0);
    }
    bytes
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
