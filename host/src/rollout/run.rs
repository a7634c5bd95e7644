//! Which episode runs next, under which lease, and who gets its record?

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use serde::{Deserialize, Serialize};

use crate::agent::{Cancel, EpisodeRecord, EpisodeSpec, InvalidCause, Outcome, run_episode};
use crate::harness::Lease;
use crate::policy::Policy;
use crate::workspace::WorkspaceConfig;

/// How many at once, and how often again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RolloutConfig {
    /// Episodes that run at once; at least 1.
    pub concurrency: usize,
    /// Further tries of an episode that ended invalid.
    pub retries: u32,
    pub workspaces: WorkspaceConfig,
}

impl Default for RolloutConfig {
    fn default() -> Self {
        Self { concurrency: 8, retries: 2, workspaces: WorkspaceConfig::default() }
    }
}

/// What came of a rollout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// Episodes with a verdict.
    pub valid: usize,
    /// Episodes that were invalid in every try.
    pub invalid: usize,
    /// Tries beyond the first.
    pub retried: usize,
}

/// The work was asked to stop before it was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("stopped before the end, as asked")]
pub struct Cancelled;

/// No episode can get a reply any more. What failed by that is given to nobody: it says nothing of its task.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no reply comes from the policy `{policy}` any more: {reason}")]
pub struct PolicyLost {
    pub policy: String,
    pub reason: String,
}

/// Both of them, for callers that have no error of their own.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RolloutError {
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
    #[error(transparent)]
    PolicyLost(#[from] PolicyLost),
}

/// The hold of a group, kept until its last episode is done.
#[derive(Default)]
struct Group {
    lease: Option<Lease>,
    left: usize,
}

/// Runs episodes, in the order of `specs` as far as places are free, and gives
/// each record to `on_record` as soon as it is there, one at a time.
///
/// All episodes of a group run under one lease (contract rule 7), taken from
/// `leases` when the first of them starts. An invalid episode runs again, at most
/// `retries` times, and is given as invalid after that.
///
/// # Errors
/// [`Cancelled`] when asked to stop: no episode starts, those in their turns end
/// without a record, and those being verified still give theirs. [`PolicyLost`] and an
/// error of `on_record` end everything at once.
pub async fn run_many<E: From<Cancelled> + From<PolicyLost>>(
    specs: Vec<EpisodeSpec>,
    policy: Arc<dyn Policy>,
    leases: impl Fn(&str) -> Lease,
    config: &RolloutConfig,
    cancel: &Cancel,
    mut on_record: impl FnMut(EpisodeRecord) -> Result<(), E>,
) -> Result<Summary, E> {
    let mut groups: HashMap<String, Group> = HashMap::new();
    for spec in &specs {
        groups.entry(spec.group.clone()).or_default().left += 1;
    }
    let policy = &*policy;
    let start = |spec: EpisodeSpec, lease: Lease, tries: u32| async move {
        let record = run_episode(&spec, policy, &lease, &config.workspaces, cancel).await;
        (spec, lease, record, tries)
    };
    let mut waiting: VecDeque<_> = specs.into();
    let mut running = FuturesUnordered::new();
    let mut summary = Summary::default();
    loop {
        while running.len() < config.concurrency.max(1)
            && !cancel.is_cancelled()
            && let Some(spec) = waiting.pop_front()
        {
            let group = groups.entry(spec.group.clone()).or_default();
            let lease = group.lease.get_or_insert_with(|| leases(&spec.group)).clone();
            running.push(start(spec, lease, 0));
        }
        let Some((spec, lease, record, tries)) = running.next().await else { break };
        // Without a record it was cancelled.
        let Some(record) = record else { continue };
        if let Outcome::Invalid(cause) = &record.outcome {
            if *cause == InvalidCause::Policy
                && let Some(reason) = policy.lost()
            {
                return Err(PolicyLost { policy: policy.name(), reason }.into());
            }
            // A harness that fails is not tried again: a candidate would get the better of several tries.
            if tries < config.retries && *cause != InvalidCause::Harness && !cancel.is_cancelled() {
                summary.retried += 1;
                running.push(start(spec, lease, tries + 1));
                continue;
            }
            summary.invalid += 1;
        } else {
            summary.valid += 1;
        }
        if let Some(group) = groups.get_mut(&spec.group) {
            group.left -= 1;
            if group.left == 0 {
                groups.remove(&spec.group);
            }
        }
        on_record(record)?;
    }
    match cancel.is_cancelled() {
        // Asked too late: everything is done.
        true if groups.is_empty() => Ok(summary),
        true => Err(Cancelled.into()),
        false => Ok(summary),
    }
}
