//! How do the files of a workspace come to be, and how does the host reach them?

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::bubblewrap::Launcher;
use super::checkpoint::Checkpoint;
use super::config::{Backend, Files, WorkspaceConfig};
use super::error::Error;
use super::overlay::{self, Keeper, Layers};
use super::scratch::{self, Scratch};
use super::snapshot::{Repository, Snapshot, stamp};

/// The folders of a workspace that hold its files: the work tree, and of an overlay
/// what was changed and what the kernel needs.
const TREE: &str = "tree";
const UPPER: &str = "upper";
const WORK: &str = "layer-work";

/// The work tree of one workspace.
#[derive(Debug)]
pub(super) struct Tree {
    /// As the host sees it.
    host: PathBuf,
    /// As commands and git find it, in the namespaces of the keeper if there is one.
    inside: PathBuf,
    /// Where what is written lands on the disk.
    written: PathBuf,
    /// The layers of an overlay that are not the snapshot's, `written` among them.
    changes: Option<Vec<PathBuf>>,
    /// Bytes that lie in `written` from the start.
    base_bytes: u64,
    keeper: Option<Arc<Keeper>>,
    /// The words before a git command line of the host.
    enter: Vec<OsString>,
}

impl Tree {
    /// Makes the files of a snapshot in `scratch`.
    pub(super) async fn make(
        snapshot: &Arc<Snapshot>,
        scratch: &Scratch,
        repository: Repository,
        point: Option<&Checkpoint>,
        config: &WorkspaceConfig,
    ) -> Result<Self, Error> {
        // What was an overlay holds only what changed, and can be nothing else again.
        let bound = point.is_some_and(Checkpoint::is_overlay);
        let wanted = point.is_none() && snapshot.is_layer() && config.backend == Backend::Bubblewrap;
        if bound || wanted {
            match Self::overlay(snapshot, scratch, repository, point, config).await {
                Err(Error::NoOverlay { reason }) if config.files == Files::Auto && !bound => {
                    overlay::give_up(&reason);
                    for name in [UPPER, WORK, TREE] {
                        scratch::remove(&scratch.path().join(name));
                    }
                }
                made => return made,
            }
        }
        let tree = scratch.path().join(TREE);
        match point {
            Some(point) => point.restore(TREE, &tree).await?,
            None => {
                let (from, to) = (snapshot.clone(), tree.clone());
                // Copying is file work that may take long: off the threads that drive episodes.
                in_background(move || from.copy_to(&to, repository)).await?;
            }
        }
        Ok(Self {
            host: tree.clone(),
            inside: tree.clone(),
            written: tree,
            changes: None,
            base_bytes: snapshot.disk_bytes(),
            keeper: None,
            enter: Vec::new(),
        })
    }

    async fn overlay(
        snapshot: &Arc<Snapshot>,
        scratch: &Scratch,
        repository: Repository,
        point: Option<&Checkpoint>,
        config: &WorkspaceConfig,
    ) -> Result<Self, Error> {
        let launcher = Launcher::of(config, scratch).await?;
        let below = point.map(Checkpoint::layers).unwrap_or_default();
        let changes = [vec![scratch.path().join(UPPER)], below.clone()].concat();
        let place = |name: &str| scratch.path().join(name);
        let layers = Layers {
            lower: [below, snapshot.layers(repository)].concat(),
            upper: place(UPPER),
            work: place(WORK),
            merged: place(TREE),
        };
        for (folder, mode) in [(&layers.upper, 0o755), (&layers.work, 0o700), (&layers.merged, 0o755)] {
            fs::create_dir(folder).map_err(Error::io("making", folder))?;
            fs::set_permissions(folder, fs::Permissions::from_mode(mode))
                .map_err(Error::io("opening", folder))?;
            if let Some(owner) = launcher.owner() {
                std::os::unix::fs::lchown(folder, Some(owner), Some(owner))
                    .map_err(Error::io("changing the owner of", folder))?;
            }
        }
        stamp(&layers.upper)?;
        let (session, config, written) = (scratch.session().clone(), config.clone(), layers.upper.clone());
        let mut enter = launcher.as_plain_user();
        let keeper = in_background(move || Keeper::start(&layers, &launcher, &session, &config)).await?;
        enter.extend(keeper.enter());
        Ok(Self {
            host: keeper.host_path(),
            inside: keeper.merged().to_owned(),
            written,
            changes: Some(changes),
            base_bytes: 0,
            keeper: Some(Arc::new(keeper)),
            enter,
        })
    }

    /// The files, for the host's own reading and writing.
    pub(super) fn host(&self) -> &Path {
        &self.host
    }

    /// The files, for commands and for the host's git.
    pub(super) fn inside(&self) -> &Path {
        &self.inside
    }

    /// The folder that holds what is written, and how many bytes it holds at the start.
    pub(super) fn written(&self) -> (&Path, u64) {
        (&self.written, self.base_bytes)
    }

    /// The folders that hold all that differs from the snapshot, where it is an overlay.
    pub(super) fn changes(&self) -> Option<Vec<PathBuf>> {
        self.changes.clone()
    }

    pub(super) fn keeper(&self) -> Option<Arc<Keeper>> {
        self.keeper.clone()
    }

    /// The words before a git command line of the host.
    pub(super) fn enter(&self) -> &[OsString] {
        &self.enter
    }
}

/// Runs work that blocks off the threads that drive episodes.
pub(super) async fn in_background<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    let stopped = |error| Error::io("working in", Path::new("the background"))(std::io::Error::other(error));
    tokio::task::spawn_blocking(work).await.map_err(stopped)?
}
