//! One episode, from its specification to its record. Nothing that happens in it
//! leaves as an error or a panic: trouble is part of the record.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Instant;

use futures_util::FutureExt;

use super::cancel::Cancel;
use super::hand_in::hand_in;
use super::prompts::{Templates, offered};
use super::record::{EpisodeRecord, Exit, InvalidCause, Outcome};
use super::spent::Spent;
use super::talk::Talk;
use super::turns::{End, Episode};
use crate::harness::{Lease, WorkTree};
use crate::policy::{OpenSession, Policy, Price, Sampling};
use crate::task::Task;
use crate::workspace::{Workspace, WorkspaceConfig};

/// What one episode is about.
#[derive(Clone, Debug)]
pub struct EpisodeSpec {
    /// Unique in the run; the same work asked for again has the same id.
    pub id: String,
    /// Episodes of one group share a lease.
    pub group: String,
    pub task: Arc<Task>,
    pub seed: u64,
    pub sampling: Sampling,
    /// A text of the skill teacher; training only.
    pub skill: Option<String>,
}

/// Runs one episode: workspace, turns, hand-in, verification.
///
/// Trouble that the policy could not have caused is [`Exit::Failed`] with
/// [`Outcome::Invalid`]; a limit that it ran into is a valid episode. Gives none
/// only when asked to stop before the turns ended. Dropping the future ends
/// everything that runs for it.
pub async fn run_episode(
    spec: &EpisodeSpec,
    policy: &dyn Policy,
    lease: &Lease,
    config: &WorkspaceConfig,
    cancel: &Cancel,
) -> Option<EpisodeRecord> {
    let start = Instant::now();
    let mut record = EpisodeRecord {
        id: spec.id.clone(),
        task: spec.task.name().to_owned(),
        seed: spec.seed,
        policy: policy.name(),
        policy_version: policy.version(),
        harness: lease.digest(),
        turns: Vec::new(),
        segments: Vec::new(),
        effects: Vec::new(),
        faults: Vec::new(),
        exit: Exit::Submitted,
        patch_source: None,
        patch: Vec::new(),
        work_tree: WorkTree::default(),
        submitted_applies: None,
        outcome: Outcome::Unsolved,
        seconds: 0.0,
        spent: Spent::default(),
    };
    let run = AssertUnwindSafe(fill(spec, policy, lease, config, cancel, &mut record)).catch_unwind();
    let failed = match run.await {
        Ok(Ok(Done::Finished)) => None,
        Ok(Ok(Done::Cancelled)) => return None,
        Ok(Err(failed)) => Some(failed),
        Err(_) => Some(Failed {
            cause: InvalidCause::Workspace,
            reason: "the host broke down inside the episode\nhelp: its log has the message; please report it"
                .into(),
        }),
    };
    if let Some(Failed { cause, reason }) = failed {
        tracing::warn!(episode = %spec.id, ?cause, "{reason}");
        record.outcome = Outcome::Invalid(cause);
        record.exit = Exit::Failed { cause, reason };
    }
    record.seconds = start.elapsed().as_secs_f64();
    Some(record)
}

/// Whether an episode came to its end.
enum Done {
    Finished,
    Cancelled,
}

/// Trouble that ends an episode without a verdict.
#[derive(Debug)]
pub(super) struct Failed {
    pub(super) cause: InvalidCause,
    pub(super) reason: String,
}

impl Failed {
    /// Names a cause for an error.
    pub(super) fn because<E: std::fmt::Display>(cause: InvalidCause) -> impl FnOnce(E) -> Self {
        move |error| Self { cause, reason: error.to_string() }
    }
}

async fn fill(
    spec: &EpisodeSpec,
    policy: &dyn Policy,
    lease: &Lease,
    config: &WorkspaceConfig,
    cancel: &Cancel,
    record: &mut EpisodeRecord,
) -> Result<Done, Failed> {
    let manifest = lease.manifest();
    let templates = Templates::new(&manifest.prompts, &manifest.limits)
        .map_err(Failed::because(InvalidCause::Harness))?;
    let price = price(policy, manifest.limits.money)?;
    let snapshot = spec.task.snapshot(config).await.map_err(Failed::because(InvalidCause::Workspace))?;
    let workspace =
        Workspace::create(snapshot, config).await.map_err(Failed::because(InvalidCause::Workspace))?;
    let workspace = Arc::new(workspace);
    let hooks = lease.open(spec.seed, workspace.clone());
    let tools = hooks.tools();
    let request = OpenSession {
        episode: spec.id.clone(),
        task: spec.task.name().to_owned(),
        seed: spec.seed,
        harness: Some(lease.digest()),
        sampling: spec.sampling.clone(),
        tools: offered(&manifest.limits, &tools),
        after: 0,
    };
    // A policy may let sessions wait for a free place.
    let session = tokio::select! {
        session = policy.open(request.clone()) => session.map_err(Failed::because(InvalidCause::Policy))?,
        () = cancel.cancelled() => return Ok(Done::Cancelled),
    };

    let talk = Talk::new(policy, request, session);
    let mut episode = Episode::new(spec, lease, templates, tools, hooks, talk, price, workspace, record);
    let run = tokio::select! {
        run = episode.run() => run,
        () = cancel.cancelled() => return Ok(Done::Cancelled),
    };
    let ended = match run {
        Ok(end) => finish(&mut episode, end).await,
        Err(failed) => Err(failed),
    };
    // What the plugins did is part of the record however the episode ended. With the
    // episode the session goes too, so that its slot is free while the tests run.
    let (effects, faults) = episode.close();
    record.effects = effects;
    record.faults = faults;
    ended?;

    if record.patch_source.is_some() {
        let verdict = spec.task.verify(&record.patch, config).await;
        let verdict = verdict.map_err(Failed::because(InvalidCause::Verifier))?;
        record.outcome = if verdict.solved { Outcome::Solved } else { Outcome::Unsolved };
    }
    Ok(Done::Finished)
}

/// What tokens cost. A limit of money that nothing is counted against would hold nobody back.
fn price(policy: &dyn Policy, limit: f64) -> Result<Price, Failed> {
    match policy.price() {
        Some(price) => Ok(price),
        None if limit == 0.0 => Ok(Price::default()),
        None => Err(Failed::because(InvalidCause::Harness)(format!(
            "the harness limits money to {limit}, and what tokens of `{}` cost is not known\nhelp: say the price of a million tokens of the prompt and of the reply, or set `limits.money` to 0",
            policy.name()
        ))),
    }
}

/// Hands in, and tells observers, who never hear of the verdict.
async fn finish(episode: &mut Episode<'_>, end: End) -> Result<(), Failed> {
    let name = end.name();
    hand_in(episode, end).await?;
    let payload = serde_json::json!({
        "exit": name,
        "patch_source": episode.record.patch_source,
        "patch_bytes": episode.record.patch.len(),
        "work_tree": episode.record.work_tree,
    });
    episode.observe("episode-end", &payload).await;
    Ok(())
}
