//! What would the recorded episodes of a run have been under another harness?

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use tandem_host::agent::{Cancel, Changes, EpisodeRecord, replay};
use tandem_host::harness::{Generation, HarnessManifest, PluginEntry};
use tandem_host::plugin::{AdmissionOptions, Engine};
use tandem_host::store::{BlobStore, Digest};
use tandem_host::task::{Task, TaskSet};
use tandem_host::workspace::WorkspaceConfig;

use super::config::CampaignConfig;
use super::record::RunRecord;

/// The campaign as a run began with it, in the folder of the run.
pub const KEPT: &str = "campaign.json";

/// The recorded episodes of a run, and the tasks that they were about.
pub struct Replays {
    record: RunRecord,
    tasks: BTreeMap<String, Arc<Task>>,
}

/// What a replay needs of this machine.
pub struct Machine {
    pub engine: Engine,
    pub admission: AdmissionOptions,
    pub workspaces: WorkspaceConfig,
}

impl Replays {
    /// Opens a run. Its tasks are those of its campaign, unless a folder is given.
    pub fn open(run: &Path, tasks: Option<&Path>) -> Result<Self> {
        if !run.join("run.sqlite").exists() {
            bail!(
                "{} is not the folder of a run: it has no run.sqlite\nhelp: `tandem train CAMPAIGN --run DIR` makes one",
                run.display()
            );
        }
        let record = RunRecord::open(run)?;
        let sets = match tasks {
            Some(folder) => vec![TaskSet::load(folder)?],
            None => {
                let kept = run.join(KEPT);
                let text = std::fs::read_to_string(&kept).with_context(|| {
                    format!(
                        "{} cannot be read\nhelp: name the folder of the tasks with `--tasks`",
                        kept.display()
                    )
                })?;
                let config: CampaignConfig = serde_json::from_str(&text)
                    .with_context(|| format!("{} is no campaign of this version", kept.display()))?;
                let folders = [Some(config.tasks.train), config.tasks.evaluation];
                folders
                    .into_iter()
                    .flatten()
                    .map(|folder| TaskSet::load(&folder))
                    .collect::<Result<_, _>>()?
            }
        };
        let all = sets.iter().flat_map(|set| set.tasks());
        let tasks = all.map(|task| (task.name().to_owned(), task.clone())).collect();
        Ok(Self { record, tasks })
    }

    /// The blobs of the run.
    pub fn blobs(&self) -> &BlobStore {
        self.record.blobs()
    }

    /// A harness of the run.
    pub fn harness(&self, digest: &Digest) -> Result<HarnessManifest> {
        self.record.harness(digest)
    }

    /// The harness of the run whose digest begins with `prefix`, with or without `sha256:`.
    pub fn harness_named(&self, prefix: &str) -> Result<Digest> {
        let digits = prefix.strip_prefix("sha256:").unwrap_or(prefix);
        let published = self.record.publications()?.into_iter().map(|publication| publication.digest);
        let used = self.record.episodes()?.into_iter().map(|row| row.harness);
        let all: BTreeSet<Digest> = published.chain(used).collect();
        let found: Vec<_> = all.iter().filter(|digest| digest.hex().starts_with(digits)).collect();
        match found.as_slice() {
            [one] => Ok(**one),
            [] => bail!("the run has no harness `{prefix}`\nhelp: the digests are in `tandem report RUN`"),
            more => bail!(
                "{} harnesses of the run begin with `{prefix}`\nhelp: give more of the digest",
                more.len()
            ),
        }
    }

    /// The episodes of these ids; without ids the newest valid ones, `most` of them, of as many
    /// tasks as there are.
    pub fn pick(&self, ids: &[String], most: usize) -> Result<Vec<EpisodeRecord>> {
        let mut rows = self.record.episodes()?;
        if !ids.is_empty() {
            let found = |id: &String| {
                let row = rows.iter().find(|row| row.id == *id);
                let row = row.with_context(|| {
                    format!("the run has no episode `{id}`\nhelp: leave out the ids to take the newest ones")
                })?;
                self.record.episode(row)
            };
            return ids.iter().map(found).collect();
        }
        rows.retain(|row| row.valid());
        rows.reverse();
        let (mut first, mut rest, mut seen) = (Vec::new(), Vec::new(), BTreeSet::new());
        for row in rows {
            if seen.insert(row.task.clone()) { first.push(row) } else { rest.push(row) }
        }
        if first.is_empty() {
            bail!("the run has no valid episode yet\nhelp: wait for the first, or take another run");
        }
        first.into_iter().chain(rest).take(most).map(|row| self.record.episode(&row)).collect()
    }

    /// Replays `recorded` under `manifest`.
    pub async fn under(
        &self,
        recorded: &EpisodeRecord,
        generation: &Arc<Generation>,
        machine: &Machine,
    ) -> Result<EpisodeRecord> {
        let task = self.tasks.get(&recorded.task).with_context(|| {
            format!(
                "the task `{}` of episode {} is not in the task set\nhelp: name the folder that has it with `--tasks`",
                recorded.task, recorded.id
            )
        })?;
        let lease = generation.lease();
        let again = replay(recorded, task.clone(), &lease, &machine.workspaces, &Cancel::new()).await;
        again.context("the replay was stopped")
    }

    /// What one plugin would change in each of `recorded`: it takes the place of the plugin of its
    /// name in the harness of the episode, or comes last. With `instead_of`, the changes are against
    /// that component in the same place, not against the record.
    pub async fn with_plugin(
        &self,
        recorded: &[EpisodeRecord],
        entry: &PluginEntry,
        instead_of: Option<&PluginEntry>,
        machine: &Machine,
        mut done: impl FnMut(&Changes),
    ) -> Result<Vec<Changes>> {
        let mut built: BTreeMap<(Digest, Digest), Arc<Generation>> = BTreeMap::new();
        let mut all = Vec::new();
        for record in recorded {
            let mut sides = Vec::new();
            for entry in [Some(entry), instead_of].into_iter().flatten() {
                let key = (record.harness, entry.digest);
                let generation = match built.get(&key) {
                    Some(generation) => generation.clone(),
                    None => {
                        let manifest = placed(self.harness(&record.harness)?, entry);
                        let generation = Generation::build_with(
                            &machine.engine,
                            manifest,
                            self.blobs(),
                            &machine.admission,
                        );
                        let generation = generation.await?;
                        built.insert(key, generation.clone());
                        generation
                    }
                };
                sides.push(self.under(record, &generation, machine).await?);
            }
            let changes = Changes::between(sides.get(1).unwrap_or(record), &sides[0]);
            done(&changes);
            all.push(changes);
        }
        Ok(all)
    }
}

/// A harness with a plugin in the place of the one of its name, or behind the last.
fn placed(mut manifest: HarnessManifest, entry: &PluginEntry) -> HarnessManifest {
    match manifest.plugins.iter_mut().find(|plugin| plugin.name == entry.name) {
        // Its settings are those of the harness.
        Some(plugin) => {
            plugin.digest = entry.digest;
            plugin.grants = entry.grants.clone();
        }
        None => manifest.plugins.push(entry.clone()),
    }
    manifest
}
