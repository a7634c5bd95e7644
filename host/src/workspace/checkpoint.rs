//! How is a workspace kept as it is after a turn, and started again from there?
//!
//! Of an overlay only what changed is copied, and blocks are shared where the
//! file system can; of a copied tree, all of it is.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;

use super::config::WorkspaceConfig;
use super::error::Error;
use super::programs::find_program;
use super::scratch::Scratch;
use super::snapshot::Snapshot;

/// Files, `/tmp` and home of a workspace as they were. Dropping it removes it;
/// workspaces that started from it keep it.
#[derive(Clone, Debug)]
pub struct Checkpoint {
    parts: Arc<Parts>,
}

#[derive(Debug)]
struct Parts {
    folder: Scratch,
    snapshot: Arc<Snapshot>,
    /// What the overlay it was taken of lay over, beyond the snapshot.
    below: Option<Checkpoint>,
    overlay: bool,
}

impl Checkpoint {
    /// Copies what a workspace wrote. No command of it may run meanwhile.
    pub(super) async fn take(
        written: &Path,
        scratch: &Path,
        overlay: bool,
        snapshot: Arc<Snapshot>,
        below: Option<Self>,
        config: &WorkspaceConfig,
    ) -> Result<Self, Error> {
        super::disk::room(config).await?;
        let folder = Scratch::new("point", config)?;
        copy(written, &folder.path().join("tree")).await?;
        for name in ["tmp", "home"] {
            copy(&scratch.join(name), &folder.path().join(name)).await?;
        }
        Ok(Self { parts: Arc::new(Parts { folder, snapshot, below, overlay }) })
    }

    /// The snapshot that the workspace started from.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.parts.snapshot.clone()
    }

    pub(super) fn is_overlay(&self) -> bool {
        self.parts.overlay
    }

    /// The folders that lie over those of the snapshot, the uppermost first.
    pub(super) fn layers(&self) -> Vec<PathBuf> {
        let mut layers = vec![self.parts.folder.path().join("tree")];
        layers.extend(self.parts.below.iter().flat_map(Self::layers));
        layers
    }

    /// Makes one part of a workspace anew: `tree`, `tmp` or `home`.
    pub(super) async fn restore(&self, name: &str, to: &Path) -> Result<(), Error> {
        self.parts.folder.renew()?;
        copy(&self.parts.folder.path().join(name), to).await
    }
}

/// Copies a folder with owners, modes, times, links, whiteouts and the marks of
/// an overlay; `cp` walks trees of any depth.
async fn copy(from: &Path, to: &Path) -> Result<(), Error> {
    let program = find_program("cp").unwrap_or_else(|| "cp".into());
    let mut command = tokio::process::Command::new(&program);
    command.args(["--archive", "--reflink=auto", "--no-target-directory", "--"]).arg(from).arg(to);
    command.env("LC_ALL", "C").stdin(Stdio::null()).stdout(Stdio::null()).kill_on_drop(true);
    let output = command.stderr(Stdio::piped()).output().await.map_err(Error::io("starting", &program))?;
    match output.status.success() {
        true => Ok(()),
        false => {
            let reason = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            Err(Error::io("copying", from)(std::io::Error::other(reason)))
        }
    }
}
