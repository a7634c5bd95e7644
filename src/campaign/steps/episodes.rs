//! How are the episodes of a step specified and run, each exactly once?

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use tandem_host::agent::EpisodeRecord;
use tandem_host::harness::Generation;
use tandem_host::rollout::{EpisodeSpec, RolloutConfig, run_many};
use tandem_host::store::Digest;
use tandem_host::task::Task;

use super::super::draw;
use super::super::record::{Arm, EpisodeRow, Place};
use super::super::run::Campaign;

/// Which seed an episode has.
#[derive(Clone, Copy)]
pub enum Label<'a> {
    /// One of its own.
    Own,
    /// That of every episode of this label, task and number, so that arms share their seeds.
    Shared(&'a str),
    /// That of the episodes of this group.
    OfGroup(&'a str),
}

/// One task of one group, and the numbers of its episodes.
pub struct Numbered<'a> {
    pub task: &'a str,
    pub group: String,
    pub numbers: std::ops::Range<usize>,
    pub label: Label<'a>,
    pub skill: Option<String>,
}

/// The number of an episode in its group: ids are `GROUP/NUMBER`.
pub fn number_of(row: &EpisodeRow) -> Option<usize> {
    row.id.strip_prefix(&row.group)?.strip_prefix('/')?.parse().ok()
}

/// Episodes by group and number. What a teacher reads must not depend on which of them was ready first.
pub fn in_order(rows: impl Iterator<Item = EpisodeRow>) -> Vec<EpisodeRow> {
    let mut rows: Vec<_> = rows.collect();
    rows.sort_by_cached_key(|row| (row.group.clone(), number_of(row)));
    rows
}

impl Campaign {
    /// The episodes of `wanted`, of tasks of `tasks`.
    pub(in crate::campaign) fn specs(
        &self,
        tasks: &BTreeMap<String, Arc<Task>>,
        wanted: Numbered<'_>,
    ) -> Result<Vec<EpisodeSpec>> {
        let Numbered { task, group, numbers, label, skill } = wanted;
        let found = tasks.get(task).with_context(|| {
            format!("task `{task}` of this run is not in the task set any more\nhelp: bring it back, or start a new run")
        })?;
        let spec = |number: usize| {
            let id = format!("{group}/{number}");
            let seed_label = match label {
                Label::Own => id.clone(),
                Label::Shared(label) => format!("{label}/{task}/{number}"),
                Label::OfGroup(other) => format!("{other}/{number}"),
            };
            EpisodeSpec {
                seed: draw::seed(self.config.seed, &seed_label),
                id,
                group: group.clone(),
                task: found.clone(),
                sampling: self.config.rollout.sampling.clone(),
                skill: skill.clone(),
            }
        };
        Ok(numbers.map(spec).collect())
    }

    /// Runs the episodes that the record does not have yet, under `harness` or,
    /// without one, under whatever is published when their group starts.
    pub(in crate::campaign) async fn rollouts(
        &self,
        label: &str,
        round: u32,
        arm: Arm,
        specs: Vec<EpisodeSpec>,
        harness: Option<Arc<Generation>>,
    ) -> Result<()> {
        let known = self.record.episode_ids()?;
        let (done, left): (Vec<_>, Vec<_>) = specs.into_iter().partition(|spec| known.contains(&spec.id));
        let bar = self.progress.start(label, done.len() + left.len());
        bar.skip(done.len());
        let begun = match &harness {
            Some(_) => BTreeMap::new(),
            None => self.begun_groups().await?,
        };
        let places: BTreeMap<_, _> = left.iter().map(|spec| (spec.id.clone(), spec.group.clone())).collect();
        let lease = |group: &str| match (&harness, begun.get(group)) {
            (Some(fixed), _) => fixed.lease(),
            (None, Some(earlier)) => earlier.lease(),
            (None, None) => self.generations.lease(),
        };
        let on_record = |episode: EpisodeRecord| -> Result<()> {
            let group = places.get(&episode.id).cloned().unwrap_or_default();
            self.record.add_episode(&Place { round, arm, group }, &episode)?;
            bar.advance(&episode);
            Ok(())
        };
        let rollout = RolloutConfig {
            concurrency: self.config.rollout.concurrency,
            retries: self.config.rollout.retries,
            workspaces: self.workspaces.clone(),
        };
        run_many(left, self.runtime.policy(), lease, &rollout, &self.cancel, on_record).await?;
        bar.finish();
        Ok(())
    }

    /// Groups of which some episodes are recorded, with the harness that they keep.
    async fn begun_groups(&self) -> Result<BTreeMap<String, Arc<Generation>>> {
        let mut built: BTreeMap<Digest, Arc<Generation>> = BTreeMap::new();
        let mut groups = BTreeMap::new();
        for (group, digest) in self.record.group_harnesses()? {
            let generation = match built.get(&digest) {
                Some(generation) => generation.clone(),
                None => {
                    let generation = self.generation(&digest).await?;
                    built.insert(digest, generation.clone());
                    generation
                }
            };
            groups.insert(group, generation);
        }
        Ok(groups)
    }

    /// A harness of this run, ready to be leased.
    pub(in crate::campaign) async fn generation(&self, digest: &Digest) -> Result<Arc<Generation>> {
        let manifest = self.record.harness(digest)?;
        let builder = &self.builder;
        Ok(Generation::build_with(&builder.engine, manifest, &builder.blobs, &builder.admission).await?)
    }

    /// The episodes of one arm in one round.
    pub(in crate::campaign) fn rows(&self, round: u32, arm: Arm) -> Result<Vec<EpisodeRow>> {
        let rows = self.record.episodes()?;
        Ok(in_order(rows.into_iter().filter(|row| row.round == round && row.arm == arm.name())))
    }

    /// Why `round` does not begin, if the rounds before it ran as many episodes as the campaign may. What `round`
    /// itself has run does not count: a run that goes on in the middle of a round ends it.
    pub(in crate::campaign) fn spent(&self, round: u32) -> Result<Option<String>> {
        let budget = self.config.rollout.budget;
        if budget == 0 {
            return Ok(None);
        }
        let rows = self.record.episodes()?;
        let spent = rows.iter().filter(|row| row.round < round && row.arm != Arm::Evaluate.name()).count();
        let why = format!(
            "round {round} does not begin: {spent} episodes were run, and `rollout.budget` is {budget}"
        );
        Ok((spent >= budget).then(|| {
            self.progress.say(&why);
            why
        }))
    }

    /// The names of the tasks that are trained and gated on.
    pub(in crate::campaign) fn names(&self) -> Vec<String> {
        self.tasks.keys().cloned().collect()
    }

    pub(in crate::campaign) fn check_cancelled(&self) -> Result<()> {
        if self.cancel.is_cancelled() {
            bail!(tandem_host::rollout::Cancelled);
        }
        Ok(())
    }
}
