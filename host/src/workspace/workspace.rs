//! One workspace: files, repository, sandbox, and what came of them.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::{Mutex, Semaphore};

use super::backend::{Places, Sandbox, check_host_allowed};
use super::beneath::Beneath;
use super::bubblewrap::{self, Bubblewrap};
use super::cgroup::InForce;
use super::checkpoint::Checkpoint;
use super::command::{CommandOutput, Mount, SandboxCommand, WORKSPACE_PATH};
use super::config::{Backend, WorkspaceConfig};
use super::container::{self, Container, Engine};
use super::disk;
use super::error::Error;
use super::extract::{Extracted, Said, extract, survey};
use super::git::HostGit;
use super::image::Origin;
use super::plain::Plain;
use super::proxy::Proxy;
use super::scratch::Scratch;
use super::snapshot::{Repository, Snapshot, give_to};
use super::tree::{Tree, in_background};
use crate::harness::{PatchCandidate, PatchSource};

/// How long the agent's own git may take to say what is in its index.
const ASK: Duration = Duration::from_secs(10);

/// A fresh copy of a task's files with a sandbox around it. Dropping it removes everything.
#[derive(Debug)]
pub struct Workspace {
    // Dropped in this order: processes, then namespaces, then files.
    sandbox: Box<dyn Sandbox>,
    beneath: Arc<Beneath>,
    tree: Tree,
    /// One git call of the host at a time: they share an index.
    pub(super) git: Mutex<HostGit>,
    snapshot: Arc<Snapshot>,
    /// What it went on from.
    point: Option<Checkpoint>,
    config: WorkspaceConfig,
    folder: Arc<Scratch>,
}

/// How a workspace begins.
struct Start {
    repository: Repository,
    role: Role,
    point: Option<Checkpoint>,
    mounts: Vec<Mount>,
}

/// Whom a workspace is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Agent,
    Tests,
}

impl Workspace {
    /// A workspace for an agent: the files, and a git repository with one commit
    /// that it may do anything with. `/tmp` and the home folder last as long as
    /// the workspace. Waits while the disk is too full or too many others start.
    pub async fn create(snapshot: Arc<Snapshot>, config: &WorkspaceConfig) -> Result<Self, Error> {
        Self::create_with(snapshot, config, Vec::new()).await
    }

    /// As [`Self::create`], with `mounts` beside the files.
    pub async fn create_with(
        snapshot: Arc<Snapshot>,
        config: &WorkspaceConfig,
        mounts: Vec<Mount>,
    ) -> Result<Self, Error> {
        let start = Start { repository: Repository::Agent, role: Role::Agent, point: None, mounts };
        Self::start(snapshot, config, start).await
    }

    /// A workspace for scripts that apply a patch themselves and grade it: the files, a
    /// repository with one commit, and `mounts` beside them.
    pub async fn for_tests(
        snapshot: Arc<Snapshot>,
        config: &WorkspaceConfig,
        mounts: Vec<Mount>,
    ) -> Result<Self, Error> {
        let start = Start { repository: Repository::Tests, role: Role::Tests, point: None, mounts };
        Self::start(snapshot, config, start).await
    }

    /// A workspace that goes on from where another was, with no process of it:
    /// files, repository, `/tmp` and home folder.
    pub async fn resume(
        point: &Checkpoint,
        config: &WorkspaceConfig,
        mounts: Vec<Mount>,
    ) -> Result<Self, Error> {
        let (repository, role) = (Repository::Agent, Role::Agent);
        let start = Start { repository, role, point: Some(point.clone()), mounts };
        Self::start(point.snapshot(), config, start).await
    }

    /// Keeps the workspace as it is now. No command may run in it meanwhile.
    pub async fn checkpoint(&self) -> Result<Checkpoint, Error> {
        self.sandbox.settle().await;
        let (written, _) = self.tree.written();
        let (overlay, snapshot) = (self.is_overlay(), self.snapshot.clone());
        let below = self.point.clone().filter(|_| overlay);
        Checkpoint::take(written, self.folder.path(), overlay, snapshot, below, &self.config).await
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
        let start = Start { repository: Repository::None, role: Role::Tests, point: None, mounts };
        let workspace = Self::start(snapshot, config, start).await?;
        if !is_blank(patch) {
            let git = workspace.git.lock().await;
            git.run(&["apply", "--whitespace=nowarn", "-"], Some(patch), 0).await.map_err(refused_patch)?;
            drop(git);
            workspace.hand_over_files()?;
        }
        Ok(workspace)
    }

    /// Waits for space and a place to start in, then starts within a time limit.
    async fn start(snapshot: Arc<Snapshot>, config: &WorkspaceConfig, start: Start) -> Result<Self, Error> {
        static STARTING: OnceLock<Semaphore> = OnceLock::new();
        disk::room(config).await?;
        let places = STARTING.get_or_init(|| Semaphore::new(config.starting.max(1)));
        let _place = places.acquire().await;
        let limit = config.start_seconds;
        let made = Self::make(snapshot, config, start);
        let made = tokio::time::timeout(Duration::from_secs(limit), made).await;
        made.unwrap_or(Err(Error::StartTimeout { limit }))
    }

    async fn make(snapshot: Arc<Snapshot>, config: &WorkspaceConfig, start: Start) -> Result<Self, Error> {
        let Start { repository, role, point, mut mounts } = start;
        snapshot.renew()?;
        let folder = Arc::new(Scratch::new("work", config)?);
        let tree = Tree::make(&snapshot, &folder, repository, point.as_ref(), config).await?;
        let place = |name: &str| folder.path().join(name);
        let [tmp, home, objects] = ["tmp", "home", "objects"].map(place);
        std::fs::create_dir(&objects).map_err(Error::io("making", &objects))?;
        for (path, name) in [(&tmp, "tmp"), (&home, "home")] {
            match &point {
                Some(point) => point.restore(name, path).await?,
                None => std::fs::create_dir(path).map_err(Error::io("making", path))?,
            }
        }
        let git = HostGit {
            git_dir: snapshot.git_dir(),
            work_tree: tree.inside().to_owned(),
            index: objects.join("index"),
            objects: Some(objects.clone()),
            seconds: config.extract.git_seconds,
            enter: tree.enter().to_vec(),
        };
        let beneath = Arc::new(Beneath::open(tree.host()).map_err(Error::io("opening", tree.host()))?);
        let places = Places { tree: tree.inside().to_owned(), tmp, home };
        let origin = snapshot.origin();
        if role == Role::Tests {
            mounts.extend(origin.and_then(|origin| origin.mounts_of_tests(&snapshot)));
        }
        let sandbox = sandbox(config, &folder, &tree, places, mounts, (origin, role)).await?;
        let git = Mutex::new(git);
        let workspace = Self { sandbox, beneath, tree, git, snapshot, point, config: config.clone(), folder };
        workspace.hand_over_files()?;
        if let Some(origin) = workspace.snapshot.origin() {
            let role = if role == Role::Tests { "tests" } else { "agent" };
            origin.set_up(&*workspace.sandbox, role).await?;
        }
        Ok(workspace)
    }

    /// Runs a command; see [`Sandbox::run`].
    pub async fn run(&self, command: &SandboxCommand) -> Result<CommandOutput, Error> {
        self.folder.renew()?;
        self.sandbox.run(command).await
    }

    /// Runs a line in a fresh `bash`.
    pub async fn bash(&self, script: &str, timeout: Duration) -> Result<CommandOutput, Error> {
        self.run(&SandboxCommand::bash(script, timeout)).await
    }

    /// The files as they are now, as what further workspaces start from. Not for the files
    /// of an image.
    pub async fn into_snapshot(self) -> Result<Snapshot, Error> {
        self.sandbox.settle().await;
        Snapshot::take(self.tree.host(), &self.config).await
    }

    /// The patch of the work tree against the base commit, and its state.
    pub async fn extract(&self) -> Result<Extracted, Error> {
        self.sandbox.settle().await;
        let git = self.git.lock().await;
        self.fresh_index(&git)?;
        let (tree, snapshot) = (self.tree.host().to_owned(), self.snapshot.clone());
        let (limits, changes) = (self.config.extract.clone(), self.tree.changes());
        let survey = in_background(move || survey(&tree, changes.as_deref(), &snapshot, &limits)).await?;
        let sparse = self.beneath.read(".git/info/sparse-checkout").is_ok();
        let said = if sparse || survey.ignored { self.ask_agent_git().await? } else { Said::default() };
        extract(&git, self.tree.host(), &self.snapshot, survey, &said, &self.config.extract).await
    }

    /// What the agent's own git says of its index, asked in the sandbox: whatever
    /// that repository is set up to run, runs there.
    async fn ask_agent_git(&self) -> Result<Said, Error> {
        let argv = ["/usr/bin/git", "-c", "core.fsmonitor=false", "ls-files", "-z", "-t", "--cached"];
        let said = self.run(&SandboxCommand::argv(argv, ASK).env("GIT_OPTIONAL_LOCKS", "0").alone()).await?;
        // A repository that cannot be read, or says too much, says nothing.
        let whole = said.exit_code == Some(0) && said.output.dropped() == 0;
        Ok(if whole { Said::read(&said.output.bytes()) } else { Said::default() })
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

    /// What enforces the caps of its commands.
    pub fn in_force(&self) -> InForce {
        self.sandbox.in_force()
    }

    /// Whether the files lie over those of the task as an overlay, without a copy.
    pub fn is_overlay(&self) -> bool {
        self.tree.keeper().is_some()
    }

    /// The work tree as the host reaches it.
    pub(super) fn host_tree(&self) -> &Path {
        self.tree.host()
    }

    /// A path that a plugin names, as one below the work tree where it is given with the
    /// folder of the task's image.
    pub(super) fn below<'a>(&self, path: &'a str) -> &'a str {
        let folder = self.snapshot.origin().map(|origin| origin.folder.as_str());
        let rest = folder.and_then(|folder| path.strip_prefix(folder));
        match rest.map(|rest| rest.strip_prefix('/').unwrap_or(rest)) {
            Some(rest) if rest.is_empty() || path.len() > rest.len() + folder.map_or(0, str::len) => rest,
            _ => path,
        }
    }

    pub(super) fn beneath(&self) -> Arc<Beneath> {
        self.beneath.clone()
    }

    /// The user of the host that the files belong to, where it is not the host's own.
    pub(super) fn owner(&self) -> Option<u32> {
        self.sandbox.owner()
    }

    fn fresh_index(&self, git: &HostGit) -> Result<(), Error> {
        // A new file each time: an index that git wrote may belong to another user.
        let _ = std::fs::remove_file(&git.index);
        git.unlock()?;
        std::fs::copy(self.snapshot.index(), &git.index).map_err(Error::io("writing", &git.index))?;
        match (self.sandbox.owner(), self.tree.keeper()) {
            (Some(owner), Some(_)) => give_to(&git.index, owner),
            _ => Ok(()),
        }
    }

    /// Gives a folder of the host to the user that commands run as.
    pub fn hand_over(&self, folder: &Path) -> Result<(), Error> {
        match self.sandbox.owner() {
            Some(owner) => give_to(folder, owner),
            None => Ok(()),
        }
    }

    fn hand_over_files(&self) -> Result<(), Error> {
        // What lies in an overlay belongs to that user already, and so must what git writes for it.
        let names: &[&str] =
            if self.is_overlay() { &["objects", "tmp", "home"] } else { &["tree", "tmp", "home"] };
        names.iter().try_for_each(|name| self.hand_over(&self.folder.path().join(name)))
    }
}

/// The back-end of the configuration around the files.
async fn sandbox(
    config: &WorkspaceConfig,
    folder: &Arc<Scratch>,
    tree: &Tree,
    places: Places,
    mut mounts: Vec<Mount>,
    (origin, role): (Option<&Origin>, Role),
) -> Result<Box<dyn Sandbox>, Error> {
    if let Some(origin) = origin
        && config.backend != Backend::Container
    {
        return Err(Error::NeedsContainer { image: origin.image.clone() });
    }
    let (written, base) = tree.written();
    let written: Vec<PathBuf> = vec![written.to_owned(), places.tmp.clone(), places.home.clone()];
    let space = bubblewrap::space(written, base, &config.sandbox);
    if config.backend == Backend::Host {
        check_host_allowed()?;
        if let Some(mount) = mounts.into_iter().next() {
            return Err(Error::NoMounts { to: mount.to });
        }
        return Ok(Box::new(Plain::new(config, folder, places, space)?));
    }
    let proxy = Proxy::start(folder.path().join("proxy"), &config.network)?;
    mounts.extend(proxy.as_ref().map(Proxy::mount));
    // In an image of its own a task has its folder there, and under the usual name.
    mounts.extend(origin.map(|origin| Mount::read_write(&places.tree, origin.folder.as_str())));
    mounts.push(Mount::read_write(places.tree, WORKSPACE_PATH));
    mounts.push(Mount::read_write(places.tmp, "/tmp"));
    if origin.is_none() {
        mounts.push(Mount::read_write(places.home, "/home/agent"));
    }
    if config.backend == Backend::Container {
        let engine = Engine::connect(config).await?;
        let place = origin.map_or_else(|| container::Place::of(config), Origin::place);
        let parts = container::Parts { mounts, proxy, space, place };
        return Ok(Box::new(Container::start(engine, config, folder, parts).await?));
    }
    let resident = role == Role::Agent;
    let parts = bubblewrap::Parts { mounts, keeper: tree.keeper(), proxy, space: Some(space), resident };
    Ok(Box::new(Bubblewrap::new(config, folder, parts).await?))
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
