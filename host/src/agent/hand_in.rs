//! Which patch does an episode hand in?
//!
//! Without plugins as in mini-SWE-agent: the submitted text as it is, and nothing
//! after a limit. Plugins choose between what the policy handed in and what the
//! host reads from its work tree; they never supply bytes.

use super::episode::Failed;
use super::record::{Exit, InvalidCause};
use super::turns::{End, Episode};
use crate::harness::{PatchCandidate, PatchSource, Submission, WorkTree};
use crate::workspace::Extracted;

/// A patch that the policy handed in, with the work tree at that moment.
pub(super) struct Submitted {
    patch: Vec<u8>,
    candidate: PatchCandidate,
    work_tree: Option<Extracted>,
}

impl Submitted {
    /// What `on-submit` is told.
    pub(super) fn submission(&self, deferrals: u32) -> Submission {
        let work_tree = self.work_tree.as_ref().map(|read| read.work_tree.clone()).unwrap_or_default();
        Submission { patch: self.candidate.clone(), work_tree, deferrals }
    }
}

/// Looks at a patch that the policy hands in.
pub(super) async fn submitted(episode: &Episode<'_>, patch: Vec<u8>) -> Result<Submitted, Failed> {
    let candidate = episode.workspace.candidate(PatchSource::Submitted, &patch).await;
    let candidate = candidate.map_err(Failed::because(InvalidCause::Workspace))?;
    let work_tree = read_work_tree(episode).await?;
    Ok(Submitted { patch, candidate, work_tree })
}

/// The difference of the work tree; empty when what the agent left there cannot be read.
pub(super) async fn work_tree_patch(episode: &Episode<'_>) -> Result<Vec<u8>, Failed> {
    Ok(read_work_tree(episode).await?.map(|read| read.patch).unwrap_or_default())
}

/// Decides what is handed in and fills in the record.
pub(super) async fn hand_in(episode: &mut Episode<'_>, end: End) -> Result<(), Failed> {
    match end {
        End::Submitted(submitted) => choose(episode, submitted).await,
        End::Limit(limit) => {
            let read = read_work_tree(episode).await?;
            let candidate = work_tree_candidate(episode, read.as_ref()).await?;
            let context = episode.context();
            let salvaged = episode.hooks.on_limit(&context, limit, &candidate).await;
            note_work_tree(episode, read.as_ref());
            if salvaged {
                episode.record.patch = read.map(|read| read.patch).unwrap_or_default();
                episode.record.patch_source = Some(PatchSource::WorkTree);
            }
            episode.record.exit = Exit::Limit { limit, salvaged };
            Ok(())
        }
        End::Stopped { plugin, reason } => {
            let read = read_work_tree(episode).await?;
            note_work_tree(episode, read.as_ref());
            episode.record.exit = Exit::Stopped { plugin, reason };
            Ok(())
        }
    }
}

async fn choose(episode: &mut Episode<'_>, submitted: Submitted) -> Result<(), Failed> {
    let Submitted { patch, candidate, mut work_tree } = submitted;
    // A hook that may write could have changed the files since they were read.
    let writes = |grants: &[String]| grants.iter().any(|grant| grant == "workspace-write" || grant == "exec");
    let plugins = &episode.hooks.lease().manifest().plugins;
    if plugins.iter().any(|plugin| writes(&plugin.grants)) {
        work_tree = read_work_tree(episode).await?;
    }
    let mut candidates = vec![candidate.clone()];
    if work_tree.is_some() {
        candidates.push(work_tree_candidate(episode, work_tree.as_ref()).await?);
    }
    let context = episode.context();
    let chosen = match candidates.len() {
        1 => 0,
        _ => episode.hooks.on_choose_patch(&context, &candidates).await,
    };
    note_work_tree(episode, work_tree.as_ref());
    let source = candidates.get(chosen).map_or(PatchSource::Submitted, |candidate| candidate.source);
    let record = &mut *episode.record;
    record.exit = Exit::Submitted;
    record.submitted_applies = Some(candidate.applies);
    record.patch_source = Some(source);
    record.patch = match (source, work_tree) {
        (PatchSource::WorkTree, Some(read)) => read.patch,
        _ => patch,
    };
    Ok(())
}

/// Reads the work tree; none when what the agent left there cannot be read.
async fn read_work_tree(episode: &Episode<'_>) -> Result<Option<Extracted>, Failed> {
    match episode.workspace.extract().await {
        Ok(read) => Ok(Some(read)),
        Err(error) if error.is_caused_by_agent() => {
            tracing::debug!("no patch of the work tree: {error}");
            Ok(None)
        }
        Err(error) => Err(Failed::because(InvalidCause::Workspace)(error)),
    }
}

async fn work_tree_candidate(
    episode: &Episode<'_>,
    read: Option<&Extracted>,
) -> Result<PatchCandidate, Failed> {
    let Some(read) = read else {
        return Ok(PatchCandidate {
            source: PatchSource::WorkTree,
            bytes: 0,
            files: Vec::new(),
            applies: false,
        });
    };
    let candidate = episode.workspace.candidate(PatchSource::WorkTree, &read.patch).await;
    candidate.map_err(Failed::because(InvalidCause::Workspace))
}

fn note_work_tree(episode: &mut Episode<'_>, read: Option<&Extracted>) {
    episode.record.work_tree = read.map_or_else(WorkTree::default, |read| read.work_tree.clone());
}
