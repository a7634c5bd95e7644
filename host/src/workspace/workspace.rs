//! One workspace: files, repository, sandbox, and what came of them.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;

use super::beneath::Beneath;
use super::config::WorkspaceConfig;
use super::error::Error;
use super::extract::{Extracted, extract};
use super::git::HostGit;
use super::sandbox::{CommandOutput, Mount, Sandbox, SandboxCommand, WORKSPACE_PATH};
use super::scratch::Scratch;
use super::snapshot::{Repository, Snapshot};
use crate::harness::{PatchCandidate, PatchSource};

/// A fresh copy of a task's files with a sandbox around it. Dropping it removes everything.
#[derive(Debug)]
pub struct Workspace {
    snapshot: Arc<Snapshot>,
    config: WorkspaceConfig,
    folder: Scratch,
    sandbox: Sandbox,
    beneath: Arc<Beneath>,
    /// One git call of the host at a time: they share an index.
    git: Mutex<HostGit>,
}

impl Workspace {
    /// A workspace for an agent: the files, and a git repository with one commit
    /// that it may do anything with. `/tmp` and the home folder last as long as
    /// the workspace.
    pub async fn create(snapshot: Arc<Snapshot>, config: &WorkspaceConfig) -> Result<Self, Error> {
        Self::create_with(snapshot, config, Vec::new()).await
    }

    /// As [`Self::create`], with `mounts` beside the files.
    pub async fn create_with(
        snapshot: Arc<Snapshot>,
        config: &WorkspaceConfig,
        mounts: Vec<Mount>,
    ) -> Result<Self, Error> {
        Self::make(snapshot, config, Repository::Agent, mounts).await
    }

    /// A workspace to judge a patch in: the files with the patch applied, no
    /// repository, and `mounts` beside them.
    ///
    /// # Errors
    /// [`Error::DoesNotApply`] when the patch does not apply; an empty patch always does.
    pub async fn patched(
        snapshot: Arc<Snapshot>,
        config: &WorkspaceConfig,
        patch: &[u8],
        mounts: Vec<Mount>,
    ) -> Result<Self, Error> {
        let workspace = Self::make(snapshot, config, Repository::None, mounts).await?;
        if !is_blank(patch) {
            let git = workspace.git.lock().await;
            git.run(&["apply", "--whitespace=nowarn", "-"], Some(patch), 0).await.map_err(refused_patch)?;
            drop(git);
            workspace.hand_over_files()?;
        }
        Ok(workspace)
    }

    async fn make(
        snapshot: Arc<Snapshot>,
        config: &WorkspaceConfig,
        repository: Repository,
        mut mounts: Vec<Mount>,
    ) -> Result<Self, Error> {
        let folder = Scratch::new("tandem-work-", config)?;
        let tree = folder.path().join("tree");
        snapshot.copy_to(&tree, repository)?;
        mounts.push(Mount::read_write(&tree, WORKSPACE_PATH));
        for (name, inside) in [("tmp", "/tmp"), ("home", "/home/agent")] {
            let path = folder.path().join(name);
            std::fs::create_dir(&path).map_err(Error::io("making", &path))?;
            mounts.push(Mount::read_write(path, inside));
        }
        let objects = folder.path().join("objects");
        std::fs::create_dir(&objects).map_err(Error::io("making", &objects))?;
        let git = HostGit {
            git_dir: snapshot.git_dir(),
            work_tree: tree.clone(),
            index: folder.path().join("index"),
            objects: Some(objects),
            seconds: config.extract.git_seconds,
        };
        let beneath = Arc::new(Beneath::open(&tree).map_err(Error::io("opening", &tree))?);
        let sandbox = Sandbox::new(config, mounts).await?;
        let workspace =
            Self { snapshot, config: config.clone(), folder, sandbox, beneath, git: Mutex::new(git) };
        workspace.hand_over_files()?;
        Ok(workspace)
    }

    /// Runs a command; see [`Sandbox::run`].
    pub async fn run(&self, command: &SandboxCommand) -> Result<CommandOutput, Error> {
        self.sandbox.run(command).await
    }

    /// Runs a line in a fresh `bash`.
    pub async fn bash(&self, script: &str, timeout: Duration) -> Result<CommandOutput, Error> {
        self.run(&SandboxCommand::bash(script, timeout)).await
    }

    /// The patch of the work tree against the base commit, and its state.
    pub async fn extract(&self) -> Result<Extracted, Error> {
        let git = self.git.lock().await;
        self.fresh_index(&git)?;
        extract(&git, self.snapshot.tracked(), &self.config.extract).await
    }

    /// Whether a patch applies to the files that the workspace started from. A
    /// blank one does: it changes nothing.
    pub async fn applies(&self, patch: &[u8]) -> Result<bool, Error> {
        if is_blank(patch) {
            return Ok(true);
        }
        let git = self.git.lock().await;
        self.fresh_index(&git)?;
        let check = ["apply", "--cached", "--check", "--whitespace=nowarn", "-"];
        match git.run(&check, Some(patch), 0).await {
            Ok(_) => Ok(true),
            Err(Error::Git { .. } | Error::GitTimeout { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// What hooks are told of a patch. A blank one has 0 bytes; one that git
    /// cannot read has no files.
    pub async fn candidate(&self, source: PatchSource, patch: &[u8]) -> Result<PatchCandidate, Error> {
        if is_blank(patch) {
            return Ok(PatchCandidate { source, bytes: 0, files: Vec::new(), applies: true });
        }
        let applies = self.applies(patch).await?;
        let git = self.git.lock().await;
        let files = match git.run(&["apply", "--numstat", "-z", "-"], Some(patch), 16 << 20).await {
            Ok(listed) => parse_numstat(&listed),
            Err(error @ (Error::NoGit | Error::Io { .. })) => return Err(error),
            Err(_) => Vec::new(),
        };
        Ok(PatchCandidate { source, bytes: patch.len() as u64, files, applies })
    }

    /// What it started from.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.snapshot.clone()
    }

    /// The base commit.
    pub fn commit(&self) -> &str {
        self.snapshot.commit()
    }

    pub(super) fn beneath(&self) -> Arc<Beneath> {
        self.beneath.clone()
    }

    /// The user of the host that the files belong to, where it is not the host's own.
    pub(super) fn owner(&self) -> Option<u32> {
        self.sandbox.owner()
    }

    fn fresh_index(&self, git: &HostGit) -> Result<(), Error> {
        std::fs::copy(self.snapshot.index(), &git.index).map(drop).map_err(Error::io("writing", &git.index))
    }

    /// Gives a folder of the host to the user that commands run as.
    pub fn hand_over(&self, folder: &Path) -> Result<(), Error> {
        match self.sandbox.owner() {
            Some(owner) => give_to(folder, owner),
            None => Ok(()),
        }
    }

    fn hand_over_files(&self) -> Result<(), Error> {
        ["tree", "tmp", "home"].iter().try_for_each(|name| self.hand_over(&self.folder.path().join(name)))
    }
}

/// Changes the owner of a folder and all in it, never following a link.
fn give_to(path: &Path, owner: u32) -> Result<(), Error> {
    let mut left: Vec<PathBuf> = vec![path.to_owned()];
    while let Some(path) = left.pop() {
        std::os::unix::fs::lchown(&path, Some(owner), Some(owner))
            .map_err(Error::io("changing the owner of", &path))?;
        let meta = std::fs::symlink_metadata(&path).map_err(Error::io("reading", &path))?;
        if meta.is_dir() {
            for entry in std::fs::read_dir(&path).map_err(Error::io("reading", &path))? {
                left.push(entry.map_err(Error::io("reading", &path))?.path());
            }
        }
    }
    Ok(())
}

/// A patch of white space alone changes nothing; git would call it corrupt.
fn is_blank(patch: &[u8]) -> bool {
    patch.trim_ascii().is_empty()
}

fn refused_patch(error: Error) -> Error {
    match error {
        Error::Git { reason, .. } => Error::DoesNotApply { reason },
        other => other,
    }
}

/// Reads `added TAB removed TAB path NUL …`.
fn parse_numstat(output: &[u8]) -> Vec<String> {
    output
        .split(|byte| *byte == 0)
        .filter_map(|line| line.splitn(3, |byte| *byte == b'\t').nth(2))
        .map(|path| String::from_utf8_lossy(path).into_owned())
        .collect()
}
