//! A run of a campaign: what it is opened with, and how a method drives it to its end.
//!
//! The methods are in `methods`, the steps that they are made of in `steps`. Every step reads from the run
//! record what is done and does only the rest, so running a campaign and resuming one are the same code.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use tandem_host::forge::Forge;
use tandem_host::harness::{Generation, Generations, HarnessHome, HarnessManifest};
use tandem_host::plugin::{AdmissionOptions, Engine};
use tandem_host::rollout::Cancel;
use tandem_host::store::{BlobStore, Digest};
use tandem_host::task::{ResultCache, Task, TaskSet};
use tandem_host::workspace::WorkspaceConfig;

use super::candidates::Builder;
use super::config::{CampaignConfig, HarnessConfig, Method};
use super::gates::task_counts;
use super::ledger::keep_ledger;
use super::policies::PolicyRuntime;
use super::record::{Publication, RunRecord};
use super::reports::{END, EndReport, UpdateReport};
use super::teach::{NewIdeas, NewSkills};
use crate::evolve::{Pool, gate_cost};
use crate::model::Devices;
use crate::view::{EventLog, Progress};

/// A run of a campaign.
pub struct Campaign {
    pub(super) config: CampaignConfig,
    pub(super) run: PathBuf,
    pub(super) record: Arc<RunRecord>,
    pub(super) tasks: BTreeMap<String, Arc<Task>>,
    pub(super) evaluation: BTreeMap<String, Arc<Task>>,
    /// Tasks that are asked rarely.
    pub(super) holdout: BTreeMap<String, Arc<Task>>,
    pub(super) builder: Builder,
    /// None when the catalog proposes.
    pub(super) teacher: Option<NewIdeas>,
    /// None when nobody writes skills.
    pub(super) skills: Option<NewSkills>,
    pub(super) workspaces: WorkspaceConfig,
    pub(super) generations: Arc<Generations>,
    pub(super) runtime: PolicyRuntime,
    pub(super) cancel: Cancel,
    pub(super) progress: Progress,
    /// For people who watch; none when it could not be made.
    pub(super) events: Option<EventLog>,
}

/// What a campaign needs from outside.
pub struct Parts {
    pub engine: Engine,
    pub forge: Forge,
    pub admission: AdmissionOptions,
    pub workspaces: WorkspaceConfig,
    pub cancel: Cancel,
    pub progress: Progress,
    pub devices: Devices,
}

/// Where a run begins.
#[derive(Default)]
pub struct Beginning {
    /// The first harness and the store of its components; that of the campaign, unless given.
    pub harness: Option<(HarnessManifest, Option<BlobStore>)>,
    /// The folder of the checkpoints and the version to begin with; the run's own, unless given.
    pub policy: Option<(PathBuf, u64)>,
}

impl Campaign {
    /// Opens a run: everything that can be wrong with tasks, harness and weights is found here, before the
    /// run has begun. Nothing is recorded, so that a start that failed stands in the way of no other.
    pub async fn open(config: CampaignConfig, run: &Path, parts: Parts) -> Result<Self> {
        Self::open_at(config, run, parts, Beginning::default()).await
    }

    /// Opens a run that begins elsewhere than its campaign says.
    pub async fn open_at(
        config: CampaignConfig,
        run: &Path,
        parts: Parts,
        beginning: Beginning,
    ) -> Result<Self> {
        let record = Arc::new(RunRecord::open(run)?);
        let tasks = by_name(&TaskSet::load(&config.tasks.train)?);
        let evaluation = match &config.tasks.evaluation {
            Some(path) => by_name(&TaskSet::load(path)?),
            None => tasks.clone(),
        };
        let holdout = match &config.evolve.holdout {
            Some(holdout) => held_out(&holdout.tasks, &tasks)?,
            None => BTreeMap::new(),
        };
        // The same patch of the same task is judged once, however often it is handed in.
        let verdicts = ResultCache::new(run.join("verdicts"));
        let all = || tasks.values().chain(evaluation.values()).chain(holdout.values());
        all().for_each(|task| task.keep_verdicts(verdicts.clone()));
        // Nothing of the run is recorded here: a start that fails below leaves it as it was.
        let manifest = match record.publications()?.last() {
            Some(newest) => record.harness(&newest.digest)?,
            None => with_components(&record, beginning.harness, &config.harness)?,
        };
        // No plugin may hold the name of a task.
        let admission = AdmissionOptions {
            forbidden: all().map(|task| task.name().to_owned()).collect(),
            ..parts.admission
        };
        let generation = Generation::build_with(&parts.engine, manifest, record.blobs(), &admission).await?;
        let generations = Generations::new(generation);
        let newest_version = || -> Result<u64> {
            let updates = record.phases::<UpdateReport>("update")?;
            Ok(updates.into_iter().map(|(_, _, report)| report.version).max().unwrap_or(0))
        };
        let (checkpoints, version) = match beginning.policy {
            Some(given) => given,
            None => (run.join("checkpoints"), newest_version()?),
        };
        let runtime = PolicyRuntime::open(&config, &parts.devices, &checkpoints, version, all())?;
        let teacher = NewIdeas::open(&config.teacher.harness, tasks.values(), Some(runtime.policy()))?;
        if teacher.is_some() {
            let language = config.teacher.harness.language;
            let tools = parts.forge.tools(language);
            tools.with_context(|| format!("the teacher writes {language}, which cannot be built"))?;
        }
        let skills = match &config.teacher.skill {
            Some(section) => NewSkills::open(section, Some(runtime.policy()))?,
            None => None,
        };
        let builder = Builder {
            engine: parts.engine,
            forge: Arc::new(parts.forge),
            admission,
            blobs: record.blobs().clone(),
        };
        Ok(Self {
            config,
            run: run.to_owned(),
            record,
            tasks,
            evaluation,
            holdout,
            builder,
            teacher,
            skills,
            workspaces: parts.workspaces,
            generations,
            runtime,
            cancel: parts.cancel,
            progress: parts.progress,
            events: None,
        })
    }

    /// What the gates of the campaign can take and are likely to take, for people; none without gates.
    pub fn gate_cost(&self) -> Result<Option<String>> {
        let pool = self.tasks.len();
        let tasks = match self.config.method {
            Method::Grpo => return Ok(None),
            Method::SelfHpo => self.config.self_hpo.confirmations(self.config.rollout.groups, pool),
            Method::HarnessAdapt | Method::HarnessOnly => {
                let screened = self.config.evolve.screen.tasks > 0;
                let each = if screened { 1 } else { self.config.evolve.candidates };
                vec![pool; self.config.rounds as usize * each]
            }
        };
        // What a run knows of its own tasks says more than any synthetic pool.
        let own = Pool::of_tasks("this run", task_counts(&self.record)?);
        let pools = own.map_or_else(|| Pool::synthetic().to_vec(), |pool| vec![pool]);
        let told = gate_cost(&self.config.evolve.gate, &tasks, &pools);
        Ok(told.map(|told| [vec![told], self.other_costs()].concat().join("\n")))
    }

    /// What comes on top of the gates of candidates, at most.
    fn other_costs(&self) -> Vec<String> {
        let evolve = &self.config.evolve;
        let (gate, pool) = (&evolve.gate, self.tasks.len());
        let mut lines = Vec::new();
        if self.config.method == Method::SelfHpo {
            let hpo = &self.config.self_hpo;
            let each = (hpo.variants + 1) * hpo.most_hard(pool) * hpo.attempts;
            lines.push(format!(
                "variants: {each} rollouts a cycle at most, {} in all",
                each * hpo.cycles as usize
            ));
            return lines;
        }
        if evolve.screen.tasks > 0 && evolve.candidates > 1 {
            // Each look doubles the tasks and halves the candidates; later looks run the new tasks only.
            let looks = evolve.candidates.next_power_of_two().ilog2() as usize;
            let each = evolve.candidates * evolve.screen.tasks.min(pool) * evolve.screen.rollouts * looks;
            lines.push(format!("screens: {each} rollouts a round at most"));
        }
        let tested = self.config.rounds.saturating_sub(evolve.removal.every);
        if evolve.removal.every > 0 && tested > 0 {
            let (most, first) = (gate.most_rollouts(pool), evolve.removal.every + 1);
            lines.push(format!(
                "removal tests: {} a round at most, from round {first} on, each of {most} rollouts at most",
                evolve.removal.most
            ));
        }
        if let Some(holdout) = &evolve.holdout {
            let each = 2 * self.holdout.len() * holdout.group_size;
            lines.push(format!("hold-out: {} looks at most, each of {each} rollouts", holdout.most));
        }
        lines
    }

    /// Records what the run begins with, where that is not there yet.
    fn begin_run(&self) -> Result<()> {
        self.publish_first()?;
        // A run that was killed after a gate's row may lack the entry.
        keep_ledger(&self.run, &self.record)?;
        self.runtime.keep_first()
    }

    /// Publishes the first harness of a run that has none.
    pub(super) fn publish_first(&self) -> Result<()> {
        if self.record.publications()?.is_empty() {
            let digest = self.record.add_harness(self.generations.lease().manifest())?;
            self.record.publish(&Publication { round: 0, digest, reason: "the first harness".into() })?;
        }
        Ok(())
    }

    /// Runs what is left of the campaign.
    pub async fn run(&mut self) -> Result<()> {
        self.begin_run()?;
        // The record does not depend on it.
        self.begin_events().unwrap_or_else(|error| tracing::warn!("{error:#}"));
        let why = match self.config.method {
            Method::SelfHpo => self.self_hpo().await?,
            Method::HarnessAdapt | Method::HarnessOnly | Method::Grpo => self.rounds().await?,
        };
        self.evaluate().await?;
        self.write_pair()?;
        // The round of the final table, whether there is one or not.
        let round = self.config.all_rounds() + 1;
        match self.record.phase::<EndReport>(round, END)? {
            Some(_) => Ok(()),
            None => self.record.end_phase(round, END, &EndReport { why }),
        }
    }
}

fn by_name(set: &TaskSet) -> BTreeMap<String, Arc<Task>> {
    set.tasks().iter().map(|task| (task.name().to_owned(), task.clone())).collect()
}

/// The tasks of the hold-out, of which none is trained on.
fn held_out(folder: &Path, trained: &BTreeMap<String, Arc<Task>>) -> Result<BTreeMap<String, Arc<Task>>> {
    let tasks = by_name(&TaskSet::load(folder)?);
    if let Some(both) = tasks.keys().find(|name| trained.contains_key(*name)) {
        bail!(
            "task `{both}` is in the hold-out {} and in `tasks.train`\nhelp: what is trained on cannot say whether a gate was right; keep the folders apart",
            folder.display()
        );
    }
    Ok(tasks)
}

/// The first harness of a run, `given` or that of the campaign, whose components are then among the run's
/// blobs.
fn with_components(
    record: &RunRecord,
    given: Option<(HarnessManifest, Option<BlobStore>)>,
    config: &HarnessConfig,
) -> Result<HarnessManifest> {
    let (first, components) = match given {
        Some(given) => given,
        None => first_harness(config)?,
    };
    for plugin in components.iter().flat_map(|_| &first.plugins) {
        let component = components.as_ref().map(|blobs| blobs.get(&plugin.digest)).transpose();
        let component = component.with_context(|| {
            format!("the component of plugin `{}` of the first harness is missing", plugin.name)
        })?;
        record.blobs().put(&component.unwrap_or_default())?;
    }
    Ok(first)
}

/// The first harness of a campaign, and the store of its components where it names one.
pub fn first_harness(config: &HarnessConfig) -> Result<(HarnessManifest, Option<BlobStore>)> {
    if let Some(home) = &config.home {
        let home = HarnessHome::open(home)?;
        let digest = home.resolve(config.digest.as_deref().unwrap_or("current"))?;
        return Ok((home.manifest(&digest)?, Some(home.blobs().clone())));
    }
    let manifest = match &config.manifest {
        Some(path) => HarnessManifest::read(path)?,
        None => HarnessManifest::bare(),
    };
    Ok((manifest, None))
}

/// The harness that was published last.
pub fn newest_harness(record: &RunRecord) -> Result<Digest> {
    record
        .publications()?
        .last()
        .map(|publication| publication.digest)
        .context("the run record has no harness")
}
