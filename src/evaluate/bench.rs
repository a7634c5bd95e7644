//! How are the episodes of an evaluation run? Each policy is loaded once, every arm has the same seeds on
//! a task, and what an earlier start recorded is not run again.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use tandem_host::agent::EpisodeRecord;
use tandem_host::harness::{Generation, HarnessManifest};
use tandem_host::plugin::{AdmissionOptions, Engine};
use tandem_host::rollout::{Cancel, EpisodeSpec, RolloutConfig, run_many};
use tandem_host::store::{BlobStore, Digest};
use tandem_host::task::{Task, TaskSet};
use tandem_host::workspace::WorkspaceConfig;

use super::arms::{Arm, Part};
use super::pinned::Pinned;
use crate::campaign::{Arm as Use, CampaignConfig, KEPT, Place, PolicyRuntime, RunRecord, draw_seed};
use crate::model::Devices;
use crate::view::Progress;

/// A run whose policy or harness is evaluated. It may be worked on meanwhile.
pub struct Source {
    pub record: RunRecord,
    pub config: CampaignConfig,
}

impl Source {
    /// Opens the run in the folder `run`.
    ///
    /// # Errors
    /// No run, or one whose campaign cannot be read.
    pub fn open(run: &Path) -> Result<Self> {
        let kept = run.join(KEPT);
        let text = std::fs::read_to_string(&kept).with_context(|| {
            format!(
                "{} is not the folder of a run that began\nhelp: `tandem train CAMPAIGN --run DIR` makes one",
                run.display()
            )
        })?;
        let config = serde_json::from_str(&text)
            .with_context(|| format!("{} is no campaign of this version", kept.display()))?;
        Ok(Self { record: RunRecord::read(run)?, config })
    }
}

/// What an evaluation needs of this machine.
pub struct Machine {
    pub engine: Engine,
    pub admission: AdmissionOptions,
    pub workspaces: WorkspaceConfig,
    pub cancel: Cancel,
    pub progress: Progress,
    pub devices: Devices,
}

/// An evaluation that is run.
pub struct Bench<'a> {
    /// Its own record; the runs are only read.
    pub own: &'a RunRecord,
    pub sources: &'a [Source],
    pub machine: &'a Machine,
    pub held_out: BTreeMap<String, Arc<Task>>,
    pub training: BTreeMap<String, Arc<Task>>,
    /// Which of those the parts ask, and with which skills.
    pub pinned: &'a Pinned,
    /// Episodes of a task in an arm.
    pub episodes: usize,
    pub seed: u64,
}

impl Bench<'_> {
    /// The tasks of a part, by name.
    pub fn tasks(&self, part: Part) -> BTreeMap<String, Arc<Task>> {
        let known = |name: &String| Some((name.clone(), self.training.get(name)?.clone()));
        match part {
            Part::HeldOut => self.held_out.clone(),
            Part::HardSet => self.pinned.hard_set.iter().filter_map(known).collect(),
            Part::Skilled => self.pinned.skills.keys().filter_map(known).collect(),
        }
    }

    /// Runs what is left of `arms`.
    ///
    /// # Errors
    /// A policy or harness that cannot be loaded, trouble of this machine, and the wish to stop.
    pub async fn run(&self, arms: &[Arm]) -> Result<()> {
        let mut policies: BTreeMap<(usize, u64), Vec<&Arm>> = BTreeMap::new();
        for arm in arms {
            policies.entry((arm.source, arm.policy_version)).or_default().push(arm);
        }
        for ((source, version), arms) in policies {
            let mut waiting = Vec::new();
            for arm in arms {
                let specs = self.left(arm)?;
                if !specs.is_empty() {
                    waiting.push((arm, specs));
                }
            }
            if waiting.is_empty() {
                continue;
            }
            let Source { record, config } = &self.sources[source];
            let runtime = tokio::task::block_in_place(|| {
                let tasks = self.held_out.values().chain(self.training.values());
                PolicyRuntime::open(
                    config,
                    &self.machine.devices,
                    &record.folder().join("checkpoints"),
                    version,
                    tasks,
                )
            })?;
            for (arm, specs) in waiting {
                self.run_arm(arm, specs, &runtime, config).await?;
            }
        }
        Ok(())
    }

    /// Episodes of an arm that are not recorded yet.
    fn left(&self, arm: &Arm) -> Result<Vec<EpisodeSpec>> {
        let known = self.own.episode_ids()?;
        let sampling = &self.sources[arm.source].config.rollout.sampling;
        let mut specs = Vec::new();
        for (name, task) in self.tasks(arm.part) {
            let skill = match arm.skills {
                true => self.pinned.skill(&name, self.own)?,
                false => None,
            };
            for index in 0..self.episodes {
                let id = format!("{}/{name}/{index}", arm.name);
                if !known.contains(&id) {
                    specs.push(EpisodeSpec {
                        id,
                        group: format!("{}/{name}", arm.name),
                        task: task.clone(),
                        seed: draw_seed(self.seed, &format!("evaluate/{name}/{index}")),
                        sampling: sampling.clone(),
                        skill: skill.clone(),
                    });
                }
            }
        }
        Ok(specs)
    }

    async fn run_arm(
        &self,
        arm: &Arm,
        specs: Vec<EpisodeSpec>,
        runtime: &PolicyRuntime,
        config: &CampaignConfig,
    ) -> Result<()> {
        let generation = self.generation(&arm.harness).await?;
        let bar = self.machine.progress.start(&format!("{}: {}", arm.name, arm.told), specs.len());
        let places: BTreeMap<_, _> = specs.iter().map(|spec| (spec.id.clone(), spec.group.clone())).collect();
        let on_record = |episode: EpisodeRecord| -> Result<()> {
            let group = places.get(&episode.id).cloned().unwrap_or_default();
            self.own.add_episode(&Place { round: 0, arm: Use::Evaluate, group }, &episode)?;
            bar.advance(&episode);
            Ok(())
        };
        let rollout = RolloutConfig {
            concurrency: config.rollout.concurrency,
            retries: config.rollout.retries,
            workspaces: self.machine.workspaces.clone(),
        };
        let lease = |_: &str| generation.lease();
        run_many(specs, runtime.policy(), lease, &rollout, &self.machine.cancel, on_record).await?;
        bar.finish();
        Ok(())
    }

    async fn generation(&self, digest: &Digest) -> Result<Arc<Generation>> {
        let manifest = self.own.harness(digest)?;
        let machine = self.machine;
        Ok(Generation::build_with(&machine.engine, manifest, self.own.blobs(), &machine.admission).await?)
    }
}

/// Copies a harness with its components from `sources` into `own`, where they are not there yet.
pub fn adopt(own: &RunRecord, digest: &Digest, sources: &[Source]) -> Result<HarnessManifest> {
    let places: Vec<&BlobStore> = sources.iter().map(|source| source.record.blobs()).collect();
    let fetch = |digest: &Digest| -> Result<()> {
        if own.blobs().contains(digest) {
            return Ok(());
        }
        let place = places.iter().find(|place| place.contains(digest));
        let bytes = place.map_or_else(|| own.blobs().get(digest), |place| place.get(digest))?;
        own.blobs().put(&bytes)?;
        Ok(())
    };
    fetch(digest)?;
    let manifest = own.harness(digest)?;
    manifest.plugins.iter().try_for_each(|plugin| fetch(&plugin.digest))?;
    Ok(manifest)
}

/// The tasks of a folder, by name.
pub fn tasks_of(folder: &Path) -> Result<BTreeMap<String, Arc<Task>>> {
    let set = TaskSet::load(folder)?;
    Ok(set.tasks().iter().map(|task| (task.name().to_owned(), task.clone())).collect())
}
