//! What does every workspace of a task start from?
//!
//! The files are copied once, with fixed modes and times, and committed once
//! with a fixed author and date, so that the same files give the same commit,
//! and the same `ls -l`, on every machine.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::bubblewrap::Launcher;
use super::config::{Backend, WorkspaceConfig};
use super::error::Error;
use super::git::HostGit;
use super::image::Origin;
use super::overlay;
use super::scratch::Scratch;
use super::tree::in_background;

/// Least time that one git command may take over all files of a task, seconds.
const SNAPSHOT_SECONDS: u64 = 600;

/// The files of a task and their base commit, in a folder of the host that
/// nothing writes to afterwards. Dropping it removes the folder.
#[derive(Debug)]
pub struct Snapshot {
    folder: Scratch,
    tracked: BTreeSet<PathBuf>,
    commit: String,
    /// Blocks that the files take on the disk, bytes.
    disk_bytes: u64,
    /// Whether workspaces may lie over it as a layer: then it belongs to the user
    /// that commands run as.
    layer: bool,
    /// The image that the files came out of.
    origin: Option<Origin>,
}

impl Snapshot {
    /// Copies `files` and commits them. Entries named `.git` are left out.
    ///
    /// # Errors
    /// Files that cannot be read, special files, and trees past the limits.
    pub async fn take(files: &Path, config: &WorkspaceConfig) -> Result<Self, Error> {
        super::disk::room(config).await?;
        let folder = Scratch::new("base", config)?;
        let tree = folder.path().join("tree");
        let (from, to) = (files.to_owned(), tree.clone());
        let mut copy = Copy::new(config.extract.entries, config.extract.total_bytes);
        let copy = in_background(move || copy.folder(&from, &to, Path::new("")).map(|()| copy)).await?;

        let git = HostGit {
            git_dir: folder.path().join("base.git"),
            work_tree: tree,
            index: folder.path().join("index"),
            objects: None,
            seconds: config.extract.git_seconds.max(SNAPSHOT_SECONDS),
            enter: Vec::new(),
        };
        git.init().await?;
        // Files go into one pack as they are read, whatever their size, and are not compared with each other.
        let add = ["-c", "core.bigFileThreshold=1", "add", "--all", "--force", "--", "."];
        git.run(&add, None, 0).await?;
        git.run(&["commit", "--quiet", "--allow-empty", "--no-gpg-sign", "--message=base"], None, 0).await?;
        let commit = git.run(&["rev-parse", "HEAD"], None, 1024).await?;
        // Without what `add` saw of each file: every later comparison reads the files themselves.
        fs::remove_file(&git.index).map_err(Error::io("removing", &git.index))?;
        git.run(&["read-tree", "HEAD"], None, 0).await?;
        // One file instead of one for each object: less to copy for every workspace.
        git.run(&["-c", "pack.window=0", "repack", "-a", "-d", "--quiet"], None, 0).await?;
        make_agent_git(folder.path())?;
        let commit = String::from_utf8_lossy(&commit).trim().to_owned();
        let (tracked, disk_bytes) = (copy.files, copy.disk_bytes);
        let layer =
            config.backend == Backend::Bubblewrap && overlay::wanted(config.files, copy.entries, copy.bytes);
        let snapshot = Self { folder, tracked, commit, disk_bytes, layer, origin: None };
        if layer {
            snapshot.become_layer(config).await?;
        }
        Ok(snapshot)
    }

    /// Makes the files those of the user that commands run as, and the rest readable to it.
    async fn become_layer(&self, config: &WorkspaceConfig) -> Result<(), Error> {
        let Some(owner) = Launcher::of(config, &self.folder).await?.owner() else { return Ok(()) };
        for name in ["tree", "agent"] {
            give_to(&self.folder.path().join(name), owner)?;
        }
        open_to_readers(&self.git_dir())?;
        // Git writes an object again when it may not touch the pack that has it.
        give_to(&self.git_dir().join("objects"), owner)
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

    /// The files as they were taken, which no agent ever writes to.
    pub(super) fn tree(&self) -> PathBuf {
        self.folder.path().join("tree")
    }

    /// The folder with the repository that agents get.
    pub(super) fn agent_repository(&self) -> PathBuf {
        self.folder.path().join("agent")
    }

    /// The index of the base commit, with nothing remembered of any file.
    pub(crate) fn index(&self) -> PathBuf {
        self.folder.path().join("index")
    }

    /// The image that the files came out of, if they did.
    pub(super) fn origin(&self) -> Option<&Origin> {
        self.origin.as_ref()
    }

    pub(super) fn came_out_of(&mut self, origin: Origin) {
        self.origin = Some(origin);
    }

    /// The folder with what the setup script of an image kept for the tests.
    pub(super) fn kept(&self) -> PathBuf {
        self.folder.path().join("kept")
    }

    /// The folder with the repository that tests get, where it is another than agents get.
    pub(super) fn tests_repository(&self) -> PathBuf {
        self.folder.path().join("tests")
    }

    /// The folder with a repository.
    fn repository(&self, repository: Repository) -> Option<PathBuf> {
        match repository {
            Repository::Agent => Some(self.agent_repository()),
            Repository::Tests if self.tests_repository().is_dir() => Some(self.tests_repository()),
            Repository::Tests => Some(self.agent_repository()),
            Repository::None => None,
        }
    }

    /// Whether workspaces may lie over it as a layer.
    pub(super) fn is_layer(&self) -> bool {
        self.layer
    }

    /// Blocks that a copy of it takes on the disk, bytes.
    pub(super) fn disk_bytes(&self) -> u64 {
        self.disk_bytes
    }

    /// The folders whose union are the files, the uppermost first.
    pub(super) fn layers(&self, repository: Repository) -> Vec<PathBuf> {
        self.repository(repository).into_iter().chain([self.tree()]).collect()
    }

    /// Copies the files to `tree`, with a repository of the base commit if asked.
    pub(super) fn copy_to(&self, tree: &Path, repository: Repository) -> Result<(), Error> {
        // A snapshot that many use is in use as long as any of them starts.
        self.folder.renew()?;
        let mut copy = Copy::new(u64::MAX, u64::MAX);
        copy.folder(&self.tree(), tree, Path::new(""))?;
        if let Some(repository) = self.repository(repository) {
            copy.folder(&repository.join(".git"), &tree.join(".git"), Path::new(""))?;
            stamp(tree)?;
        }
        Ok(())
    }

    /// Says that it is in use.
    pub(super) fn renew(&self) -> Result<(), Error> {
        self.folder.renew()
    }
}

/// Whether a copy gets a git repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Repository {
    /// One that the agent may do anything with.
    Agent,
    /// One for scripts that grade: that of agents, with commits that the scripts name.
    Tests,
    None,
}

/// The repository that agents get: the host's, without its attributes, with an index.
fn make_agent_git(folder: &Path) -> Result<(), Error> {
    let parent = folder.join("agent");
    fs::create_dir(&parent).map_err(Error::io("making", &parent))?;
    set_mode(&parent, 0o755)?;
    let git = parent.join(".git");
    Copy::new(u64::MAX, u64::MAX).folder(&folder.join("base.git"), &git, Path::new(""))?;
    let attributes = git.join("info/attributes");
    fs::remove_file(&attributes).map_err(Error::io("removing", &attributes))?;
    let index = git.join("index");
    fs::copy(folder.join("index"), &index).map_err(Error::io("writing", &index))?;
    let config = git.join("config");
    let text = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n";
    fs::write(&config, text).map_err(Error::io("writing", &config))?;
    for file in [&index, &config] {
        set_mode(file, 0o644)?;
    }
    stamp(&parent)
}

/// Changes the owner of a folder and all in it, never following a link.
pub(super) fn give_to(path: &Path, owner: u32) -> Result<(), Error> {
    let mut left: Vec<PathBuf> = vec![path.to_owned()];
    while let Some(path) = left.pop() {
        std::os::unix::fs::lchown(&path, Some(owner), Some(owner))
            .map_err(Error::io("changing the owner of", &path))?;
        let meta = fs::symlink_metadata(&path).map_err(Error::io("reading", &path))?;
        if meta.is_dir() {
            for entry in fs::read_dir(&path).map_err(Error::io("reading", &path))? {
                left.push(entry.map_err(Error::io("reading", &path))?.path());
            }
        }
    }
    Ok(())
}

/// Lets every user read a folder of the host's own, whatever the umask was.
fn open_to_readers(path: &Path) -> Result<(), Error> {
    let mut left = vec![path.to_owned()];
    while let Some(path) = left.pop() {
        let meta = fs::symlink_metadata(&path).map_err(Error::io("reading", &path))?;
        if meta.is_dir() {
            set_mode(&path, 0o755)?;
            for entry in fs::read_dir(&path).map_err(Error::io("reading", &path))? {
                left.push(entry.map_err(Error::io("reading", &path))?.path());
            }
        } else if meta.is_file() {
            set_mode(&path, 0o644)?;
        }
    }
    Ok(())
}

/// A copy of a folder that keeps files, folders and links, and nothing else of them.
pub(super) struct Copy {
    entries: u64,
    bytes: u64,
    disk_bytes: u64,
    max_entries: u64,
    max_bytes: u64,
    files: BTreeSet<PathBuf>,
}

impl Copy {
    pub(super) fn new(max_entries: u64, max_bytes: u64) -> Self {
        Self { entries: 0, bytes: 0, disk_bytes: 0, max_entries, max_bytes, files: BTreeSet::new() }
    }

    pub(super) fn folder(&mut self, from: &Path, to: &Path, name: &Path) -> Result<(), Error> {
        if !to.is_dir() {
            fs::create_dir(to).map_err(Error::io("making", to))?;
        }
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
        self.disk_bytes += meta.blocks() * 512;
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
pub(super) fn stamp(path: &Path) -> Result<(), Error> {
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(946_684_800);
    fs::File::open(path)
        .and_then(|file| file.set_modified(time))
        .map_err(Error::io("setting the time of", path))
}
