//! What does every workspace of a task start from?
//!
//! The files are copied once, with fixed modes and times, and committed once
//! with a fixed author and date, so that the same files give the same commit,
//! and the same `ls -l`, on every machine.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::config::WorkspaceConfig;
use super::error::Error;
use super::git::HostGit;
use super::sandbox::open_to_others;

/// The files of a task and their base commit, in a folder of the host that
/// nothing writes to afterwards. Dropping it removes the folder.
#[derive(Debug)]
pub struct Snapshot {
    folder: tempfile::TempDir,
    tracked: BTreeSet<PathBuf>,
    commit: String,
}

impl Snapshot {
    /// Copies `files` and commits them. Entries named `.git` are left out.
    ///
    /// # Errors
    /// Files that cannot be read, special files, and trees past the limits.
    pub async fn take(files: &Path, config: &WorkspaceConfig) -> Result<Self, Error> {
        let root = config.root();
        let folder = tempfile::Builder::new()
            .prefix("tandem-base-")
            .tempdir_in(&root)
            .map_err(Error::io("making a folder in", &root))?;
        open_to_others(folder.path())?;
        let tree = folder.path().join("tree");
        let mut copy = Copy::new(config.extract.entries, config.extract.total_bytes);
        copy.folder(files, &tree, Path::new(""))?;

        let git = HostGit {
            git_dir: folder.path().join("base.git"),
            work_tree: tree,
            index: folder.path().join("index"),
            objects: None,
            seconds: config.extract.git_seconds,
        };
        git.init().await?;
        git.run(&["add", "--all", "--force", "--", "."], None, 0).await?;
        git.run(&["commit", "--quiet", "--allow-empty", "--no-gpg-sign", "--message=base"], None, 0).await?;
        let commit = git.run(&["rev-parse", "HEAD"], None, 1024).await?;
        // Without what `add` saw of each file: every later comparison reads the files themselves.
        fs::remove_file(&git.index).map_err(Error::io("removing", &git.index))?;
        git.run(&["read-tree", "HEAD"], None, 0).await?;
        // One file instead of one for each object: less to copy for every workspace.
        git.run(&["repack", "-a", "-d", "--quiet"], None, 0).await?;
        make_agent_git(folder.path())?;
        let commit = String::from_utf8_lossy(&commit).trim().to_owned();
        Ok(Self { folder, tracked: copy.files, commit })
    }

    /// The base commit.
    pub fn commit(&self) -> &str {
        &self.commit
    }

    /// The files that the base commit holds.
    pub(crate) fn tracked(&self) -> &BTreeSet<PathBuf> {
        &self.tracked
    }

    pub(crate) fn git_dir(&self) -> PathBuf {
        self.folder.path().join("base.git")
    }

    /// The index of the base commit, with nothing remembered of any file.
    pub(crate) fn index(&self) -> PathBuf {
        self.folder.path().join("index")
    }

    /// Copies the files to `tree`, with a repository of the base commit if asked.
    pub(crate) fn copy_to(&self, tree: &Path, repository: Repository) -> Result<(), Error> {
        let mut copy = Copy::new(u64::MAX, u64::MAX);
        copy.folder(&self.folder.path().join("tree"), tree, Path::new(""))?;
        if repository == Repository::Agent {
            copy.folder(&self.folder.path().join("agent.git"), &tree.join(".git"), Path::new(""))?;
            stamp(tree)?;
        }
        Ok(())
    }
}

/// Whether a copy gets a git repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repository {
    /// One that the agent may do anything with.
    Agent,
    None,
}

/// The repository that agents get: the host's, without its attributes, with an index.
fn make_agent_git(folder: &Path) -> Result<(), Error> {
    let git = folder.join("agent.git");
    Copy::new(u64::MAX, u64::MAX).folder(&folder.join("base.git"), &git, Path::new(""))?;
    let attributes = git.join("info/attributes");
    fs::remove_file(&attributes).map_err(Error::io("removing", &attributes))?;
    let index = git.join("index");
    fs::copy(folder.join("index"), &index).map_err(Error::io("writing", &index))?;
    let config = git.join("config");
    let text = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n";
    fs::write(&config, text).map_err(Error::io("writing", &config))
}

/// A copy of a folder that keeps files, folders and links, and nothing else of them.
pub(super) struct Copy {
    entries: u64,
    bytes: u64,
    max_entries: u64,
    max_bytes: u64,
    files: BTreeSet<PathBuf>,
}

impl Copy {
    pub(super) fn new(max_entries: u64, max_bytes: u64) -> Self {
        Self { entries: 0, bytes: 0, max_entries, max_bytes, files: BTreeSet::new() }
    }

    pub(super) fn folder(&mut self, from: &Path, to: &Path, name: &Path) -> Result<(), Error> {
        fs::create_dir(to).map_err(Error::io("making", to))?;
        set_mode(to, 0o755)?;
        for entry in fs::read_dir(from).map_err(Error::io("reading", from))? {
            let entry = entry.map_err(Error::io("reading", from))?;
            if entry.file_name() == ".git" {
                continue;
            }
            let (source, target) = (entry.path(), to.join(entry.file_name()));
            let inner = name.join(entry.file_name());
            let meta = fs::symlink_metadata(&source).map_err(Error::io("reading", &source))?;
            self.count(&meta)?;
            let kind = meta.file_type();
            if kind.is_dir() {
                self.folder(&source, &target, &inner)?;
                continue;
            }
            if kind.is_symlink() {
                let link = fs::read_link(&source).map_err(Error::io("reading", &source))?;
                std::os::unix::fs::symlink(link, &target).map_err(Error::io("making", &target))?;
            } else if kind.is_file() {
                fs::copy(&source, &target).map_err(Error::io("copying", &source))?;
                let executable = meta.permissions().mode() & 0o100 != 0;
                set_mode(&target, if executable { 0o755 } else { 0o644 })?;
                stamp(&target)?;
            } else {
                return Err(Error::SpecialFile { path: source });
            }
            self.files.insert(inner);
        }
        stamp(to)
    }

    fn count(&mut self, meta: &fs::Metadata) -> Result<(), Error> {
        self.entries += 1;
        self.bytes += if meta.is_file() { meta.len() } else { 0 };
        let what = "the task's files";
        if self.entries > self.max_entries {
            let (used, limit) = (self.entries, self.max_entries);
            return Err(Error::TooLarge { what, used, limit, unit: "entries" });
        }
        if self.bytes > self.max_bytes {
            let (used, limit) = (self.bytes, self.max_bytes);
            return Err(Error::TooLarge { what, used, limit, unit: "bytes" });
        }
        Ok(())
    }
}

fn set_mode(path: &Path, mode: u32) -> Result<(), Error> {
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
        .map_err(Error::io("setting the mode of", path))
}

/// Gives a file or folder the time of the base commit.
fn stamp(path: &Path) -> Result<(), Error> {
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(946_684_800);
    fs::File::open(path)
        .and_then(|file| file.set_modified(time))
        .map_err(Error::io("setting the time of", path))
}
