//! The campaign itself: collect, diagnose, propose, gate, publish, update,
//! checkpoint, round after round, then the final table and the pair.
//!
//! Every step reads from the run record what is done and does only the rest, so
//! running a campaign and resuming one are the same code.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use tandem_host::agent::EpisodeRecord;
use tandem_host::forge::Forge;
use tandem_host::harness::{Generation, Generations, HarnessManifest};
use tandem_host::plugin::{AdmissionOptions, Engine};
use tandem_host::rollout::{Cancel, EpisodeSpec, RolloutConfig, run_many};
use tandem_host::store::Digest;
use tandem_host::task::{ResultCache, Task, TaskSet};
use tandem_host::workspace::WorkspaceConfig;

use super::candidates::{self, Builder};
use super::config::CampaignConfig;
use super::draw;
use super::gates::{Drawn, GateEpisodes, GatePlan, task_counts};
use super::ledger::{gate_id, keep_ledger};
use super::record::{Arm, EpisodeRow, Place, Publication, RunRecord, SourceRow};
use super::reports::{CandidateReport, ProposalRow, UpdateReport};
use super::runtime::PolicyRuntime;
use super::teach::{NewIdeas, Round};
use crate::evolve::{Catalog, Diagnosis, GateReport, PairedTest, Pool, Proposal, diagnose, gate_cost};
use crate::pair::{Commands, Existing, PairError, PolicyForm, pack};
use crate::view::{EventLog, Progress};

/// A run of a campaign.
pub struct Campaign {
    config: CampaignConfig,
    run: PathBuf,
    record: Arc<RunRecord>,
    tasks: BTreeMap<String, Arc<Task>>,
    evaluation: BTreeMap<String, Arc<Task>>,
    builder: Builder,
    /// None when the catalog proposes.
    teacher: Option<NewIdeas>,
    workspaces: WorkspaceConfig,
    generations: Arc<Generations>,
    runtime: PolicyRuntime,
    cancel: Cancel,
    progress: Progress,
    /// For people who watch; none when it could not be made.
    events: Option<EventLog>,
}

/// What a campaign needs from outside.
pub struct Parts {
    pub engine: Engine,
    pub forge: Forge,
    pub admission: AdmissionOptions,
    pub workspaces: WorkspaceConfig,
    pub cancel: Cancel,
    pub progress: Progress,
    pub device: String,
}

impl Campaign {
    /// Opens a run: everything that can be wrong with tasks, harness and weights
    /// is found here, before the first episode.
    pub async fn open(config: CampaignConfig, run: &Path, parts: Parts) -> Result<Self> {
        let record = Arc::new(RunRecord::open(run)?);
        let tasks = by_name(&TaskSet::load(&config.tasks.train)?);
        let evaluation = match &config.tasks.evaluation {
            Some(path) => by_name(&TaskSet::load(path)?),
            None => tasks.clone(),
        };
        // The same patch of the same task is judged once, however often it is handed in.
        let verdicts = ResultCache::new(run.join("verdicts"));
        tasks.values().chain(evaluation.values()).for_each(|task| task.keep_verdicts(verdicts.clone()));
        let first = match &config.harness.manifest {
            Some(path) => HarnessManifest::read(path)?,
            None => HarnessManifest::bare(),
        };
        if record.publications()?.is_empty() {
            let digest = record.add_harness(&first)?;
            record.publish(&Publication { round: 0, digest, reason: "the first harness".into() })?;
        }
        let newest = newest_harness(&record)?;
        // No plugin may hold the name of a task.
        let admission = AdmissionOptions {
            forbidden: tasks.keys().chain(evaluation.keys()).cloned().collect(),
            ..parts.admission
        };
        let generation =
            Generation::build_with(&parts.engine, record.harness(&newest)?, record.blobs(), &admission)
                .await?;
        let generations = Generations::new(generation);
        // A run that was killed after a gate's row may lack the entry.
        keep_ledger(run, &record)?;
        let version = record
            .phases::<UpdateReport>("update")?
            .into_iter()
            .map(|(_, _, report)| report.version)
            .max()
            .unwrap_or(0);
        let runtime = PolicyRuntime::open(&config, &parts.device, &run.join("checkpoints"), version)?;
        let teacher = NewIdeas::open(&config.teacher.harness, tasks.values(), Some(runtime.policy()))?;
        if teacher.is_some() {
            let language = config.teacher.harness.language;
            let tools = parts.forge.tools(language);
            tools.with_context(|| format!("the teacher writes {language}, which cannot be built"))?;
        }
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
            builder,
            teacher,
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
        if !self.config.method.evolves() {
            return Ok(None);
        }
        let gates = self.config.rounds as usize * self.config.evolve.candidates;
        // What a run knows of its own tasks says more than any synthetic pool.
        let own = Pool::of_tasks("this run", task_counts(&self.record)?);
        let pools = own.map_or_else(|| Pool::synthetic().to_vec(), |pool| vec![pool]);
        Ok(gate_cost(&self.config.evolve.gate, gates, self.tasks.len(), &pools))
    }

    /// Runs what is left of the campaign.
    pub async fn run(&mut self) -> Result<()> {
        // The record does not depend on it.
        self.begin_events().unwrap_or_else(|error| tracing::warn!("{error:#}"));
        for round in 1..=self.config.rounds {
            self.round(round).await?;
        }
        self.evaluate().await?;
        self.write_pair()
    }

    async fn round(&mut self, round: u32) -> Result<()> {
        let names: Vec<_> = self.tasks.keys().cloned().collect();
        let drawn = draw::for_round(self.config.seed, "collect", &names, round, self.config.rollout.groups);
        let split = ((drawn.len() as f64 * self.config.rollout.diagnosed).ceil() as usize).min(drawn.len());
        let (first, rest) = drawn.split_at(split);
        self.collect(round, first).await?;
        if self.config.method.evolves() {
            let proposals = self.propose(round).await?;
            // Candidates are built, gated and published while the other groups run.
            tokio::try_join!(self.collect(round, rest), self.evolve(round, &proposals))?;
        } else {
            self.collect(round, rest).await?;
        }
        if self.config.method.trains() {
            self.update(round).await?;
        }
        Ok(())
    }

    /// Collects the training groups of `tasks`.
    async fn collect(&self, round: u32, tasks: &[String]) -> Result<()> {
        let size = self.config.rollout.group_size;
        let specs = tasks.iter().flat_map(|task| {
            let group = format!("r{round}/collect/{task}");
            (0..size).map(move |i| (task.clone(), group.clone(), i))
        });
        let specs = specs
            .map(|(task, group, i)| self.spec(&self.tasks, &task, &group, i, None))
            .collect::<Result<_>>()?;
        self.rollouts(&format!("round {round}: episodes"), round, Arm::Collect, specs, None).await
    }

    /// One episode. Its seed comes from `seed_label` if given, so that arms can share seeds.
    fn spec(
        &self,
        tasks: &BTreeMap<String, Arc<Task>>,
        task: &str,
        group: &str,
        index: usize,
        seed_label: Option<&str>,
    ) -> Result<EpisodeSpec> {
        let found = tasks.get(task).with_context(|| {
            format!("task `{task}` of this run is not in the task set any more\nhelp: bring it back, or start a new run")
        })?;
        let id = format!("{group}/{index}");
        let label = seed_label.map_or_else(|| id.clone(), |label| format!("{label}/{task}/{index}"));
        Ok(EpisodeSpec {
            seed: draw::seed(self.config.seed, &label),
            id,
            group: group.to_owned(),
            task: found.clone(),
            sampling: self.config.rollout.sampling.clone(),
            skill: None,
        })
    }

    /// Runs the episodes that the record does not have yet, under `harness` or,
    /// without one, under whatever is published when their group starts.
    async fn rollouts(
        &self,
        label: &str,
        round: u32,
        arm: Arm,
        specs: Vec<EpisodeSpec>,
        harness: Option<Arc<Generation>>,
    ) -> Result<()> {
        let known = self.record.episode_ids()?;
        let bar = self.progress.start(label, specs.len());
        let (done, left): (Vec<_>, Vec<_>) = specs.into_iter().partition(|spec| known.contains(&spec.id));
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

    async fn generation(&self, digest: &Digest) -> Result<Arc<Generation>> {
        let manifest = self.record.harness(digest)?;
        let builder = &self.builder;
        Ok(Generation::build_with(&builder.engine, manifest, &builder.blobs, &builder.admission).await?)
    }

    fn rows(&self, round: u32, arm: Arm) -> Result<Vec<EpisodeRow>> {
        let rows = self.record.episodes()?;
        Ok(rows.into_iter().filter(|row| row.round == round && row.arm == arm.name()).collect())
    }

    /// Diagnoses the episodes of this round so far and asks the teacher.
    async fn propose(&self, round: u32) -> Result<Vec<ProposalRow>> {
        if let Some(rows) = self.record.phase(round, "proposals")? {
            return Ok(rows);
        }
        let records = self
            .rows(round, Arm::Collect)?
            .iter()
            .map(|row| self.record.episode(row))
            .collect::<Result<Vec<_>>>()?;
        let diagnosis: Diagnosis = diagnose(&records);
        let recurring = diagnosis.recurring(self.config.evolve.min_tasks);
        let most = self.config.evolve.candidates;
        let proposals = match &self.teacher {
            None => {
                let tried: BTreeSet<Digest> =
                    self.candidates()?.into_iter().map(|(_, report)| report.proposal.source).collect();
                Catalog.propose(&recurring, &tried, most)
            }
            Some(teacher) => {
                let incumbent = self.record.harness(&newest_harness(&self.record)?)?;
                let spinner = self.progress.spin(&format!("round {round}: the teacher writes"));
                let now = Round {
                    number: round,
                    records: &records,
                    diagnosis: &diagnosis,
                    recurring: &recurring,
                    record: &self.record,
                    builder: &self.builder,
                    incumbent: &incumbent,
                };
                let (proposals, report) = tokio::select! {
                    asked = teacher.propose(now, most) => asked?,
                    () = self.cancel.cancelled() => bail!(tandem_host::rollout::Cancelled),
                };
                spinner.finish();
                if let Some(why) = &report.stopped {
                    let why = why.replace("\nhelp: ", "; ");
                    self.progress.say(&format!("round {round}: the teacher was not asked further: {why}"));
                }
                self.record.end_phase(round, "teacher", &report)?;
                proposals
            }
        };
        let rows = proposals.iter().map(|proposal| self.keep(proposal)).collect::<Result<Vec<_>>>()?;
        self.record.end_phase(round, "diagnosis", &diagnosis)?;
        self.record.end_phase(round, "proposals", &rows)?;
        self.progress.say(&format!(
            "round {round}: {} of {} episodes failed; signals: {}; proposed: {}",
            diagnosis.failed,
            diagnosis.episodes,
            list(recurring.iter().map(|(signal, count)| format!("{} ×{count}", signal.name()))),
            list(rows.iter().map(|row| row.name.clone())),
        ));
        Ok(rows)
    }

    fn keep(&self, proposal: &Proposal) -> Result<ProposalRow> {
        let source = self.record.blobs().put(proposal.source.as_bytes())?;
        Ok(ProposalRow {
            name: proposal.name.clone(),
            signal: proposal.signal,
            source,
            language: proposal.language,
            grants: proposal.grants.clone(),
            rationale: proposal.rationale.clone(),
            manifest: proposal.manifest.clone(),
        })
    }

    fn candidates(&self) -> Result<Vec<(u32, CandidateReport)>> {
        let phases = self.record.phases::<CandidateReport>("candidate-")?;
        Ok(phases.into_iter().map(|(round, _, report)| (round, report)).collect())
    }

    /// Builds and gates the proposals one after the other, publishing each that is accepted.
    async fn evolve(&self, round: u32, proposals: &[ProposalRow]) -> Result<()> {
        for (index, proposal) in proposals.iter().enumerate() {
            let phase = format!("candidate-{index}");
            if self.record.phase::<CandidateReport>(round, &phase)?.is_some() {
                continue;
            }
            let incumbent = newest_harness(&self.record)?;
            let mut report = CandidateReport {
                proposal: proposal.clone(),
                plugin: None,
                incumbent,
                harness: None,
                build_seconds: 0.0,
                refused: None,
                gate: None,
            };
            let candidate = self.build(&mut report).await?;
            if let Some(candidate) = &candidate {
                report.gate = Some(self.gate(round, index, &incumbent, candidate).await?);
            }
            let accepted = report.accepted();
            let publication = candidate.as_ref().filter(|_| accepted).map(|candidate| Publication {
                round,
                digest: candidate.digest(),
                reason: format!("added {}: {}", proposal.name, proposal.rationale),
            });
            self.record.end_gate(round, &phase, &report, publication.as_ref())?;
            keep_ledger(&self.run, &self.record)?;
            self.progress.say(&format!("round {round}: candidate {} {}", proposal.name, report.verdict()));
            if let (true, Some(candidate)) = (accepted, candidate) {
                self.generations.publish(candidate);
            }
        }
        Ok(())
    }

    /// Source to a generation that is ready to be leased; a refusal goes into the report.
    async fn build(&self, report: &mut CandidateReport) -> Result<Option<Arc<Generation>>> {
        let proposal = &report.proposal;
        let source = self.record.blobs().get(&proposal.source)?;
        let text = String::from_utf8(source).context("a plugin source in the run record is not text")?;
        let incumbent = self.record.harness(&report.incumbent)?;
        let parts = candidates::Parts {
            name: &proposal.name,
            language: proposal.language,
            source: &text,
            grants: &proposal.grants,
        };
        let (plugin, seconds, built) = match self.builder.build(parts, &incumbent).await? {
            Ok(candidate) => (Some(candidate.plugin), candidate.seconds, Ok(candidate.generation)),
            Err(refused) => (refused.plugin, refused.seconds, Err(refused.reason)),
        };
        if let Some(plugin) = &plugin {
            let source = SourceRow { digest: proposal.source, language: proposal.language };
            self.record.add_source(plugin, &source, &proposal.name)?;
        }
        report.plugin = plugin;
        report.build_seconds = seconds;
        match built {
            Ok(generation) => {
                report.harness = Some(generation.digest());
                Ok(Some(generation))
            }
            Err(reason) => {
                report.refused = Some(reason);
                Ok(None)
            }
        }
    }

    /// Runs both arms on fresh rollouts, batch by batch in drawn order, until the test is decided.
    async fn gate(
        &self,
        round: u32,
        index: usize,
        incumbent: &Digest,
        candidate: &Arc<Generation>,
    ) -> Result<GateReport> {
        let names: Vec<_> = self.tasks.keys().cloned().collect();
        let drawn = Drawn {
            config: &self.config.evolve.gate,
            seed: self.config.seed,
            names: &names,
            incumbent: *incumbent,
            candidate: candidate.digest(),
        };
        let plan = GatePlan::of(&self.record, round, index, &drawn)?;
        let label = gate_id(round, index);
        let size = plan.config.group_size;
        let incumbent = self.generation(incumbent).await?;
        let mut test = PairedTest::new(plan.config.clone(), plan.decision);
        'batches: for batch in plan.order.chunks(plan.config.batch) {
            let arms = [(Arm::GateIncumbent, &incumbent), (Arm::GateCandidate, candidate)];
            for_both(arms.map(|(arm, generation)| {
                let label = &label;
                async move {
                    let mut specs = Vec::new();
                    for task in batch {
                        let group = format!("{label}/{}/{task}", arm.name());
                        for i in 0..size {
                            specs.push(self.spec(&self.tasks, task, &group, i, Some(label))?);
                        }
                    }
                    let title =
                        format!("round {round}: gate {index}, {}", arm.name().trim_start_matches("gate-"));
                    self.rollouts(&title, round, arm, specs, Some(generation.clone())).await
                }
            }))
            .await?;
            let episodes = GateEpisodes::of(&self.record, &label)?;
            for task in batch {
                if test.push(episodes.pair(task, size)).is_some() {
                    break 'batches;
                }
            }
        }
        Ok(test.report())
    }

    /// One policy update on the round's groups, then a checkpoint.
    async fn update(&mut self, round: u32) -> Result<()> {
        if let Some(report) = self.record.phase::<UpdateReport>(round, "update")? {
            return report.check_stuck(round);
        }
        self.check_cancelled()?;
        let mut groups: BTreeMap<String, Vec<EpisodeRecord>> = BTreeMap::new();
        for row in self.rows(round, Arm::Collect)? {
            // Invalid episodes never enter an advantage; a version of another round cannot appear.
            if row.valid() {
                groups.entry(row.group.clone()).or_default().push(self.record.episode(&row)?);
            }
        }
        let groups: Vec<_> = groups.into_values().collect();
        let spinner = self.progress.spin(&format!("round {round}: policy update"));
        let report = tokio::task::block_in_place(|| self.runtime.update(&self.config.update, &groups))?;
        spinner.finish();
        let before: usize =
            self.record.phases::<UpdateReport>("update")?.iter().map(|(.., done)| done.steps.len()).sum();
        self.record.end_phase(round, "update", &report)?;
        for (number, step) in report.steps.iter().enumerate() {
            let said = step.skipped.as_ref().map_or_else(|| step.line(), |why| format!("skipped: {why}"));
            self.progress.say(&format!("round {round}: step {}: {said}", before + number + 1));
        }
        self.progress.say(&format!("round {round}: {}", report.sentence()));
        self.show_steps(before, &report).unwrap_or_else(|error| tracing::warn!("{error:#}"));
        report.check_stuck(round)
    }

    /// Begins the event file of this start with all steps that the record holds, so that a kill
    /// between the record and the file loses none.
    fn begin_events(&mut self) -> Result<()> {
        let mut events = EventLog::create(&self.run.join("tensorboard"), 1)?;
        let updates = self.record.phases::<UpdateReport>("update")?;
        let steps = updates.iter().flat_map(|(.., update)| &update.steps);
        for (number, step) in steps.enumerate() {
            events.scalars(number as i64 + 1, &step.scalars())?;
        }
        self.events = Some(events);
        Ok(())
    }

    /// Adds the steps of an update, which come after `before` others of this run, to the event file.
    fn show_steps(&mut self, before: usize, report: &UpdateReport) -> Result<()> {
        let Some(events) = &mut self.events else { return Ok(()) };
        for (number, step) in report.steps.iter().enumerate() {
            events.scalars((before + number + 1) as i64, &step.scalars())?;
        }
        Ok(())
    }

    fn check_cancelled(&self) -> Result<()> {
        if self.cancel.is_cancelled() {
            bail!(tandem_host::rollout::Cancelled);
        }
        Ok(())
    }

    /// The final table: first and trained policy, first and evolved harness, on the same seeds.
    async fn evaluate(&mut self) -> Result<()> {
        let episodes = self.config.evaluation.episodes;
        if episodes == 0 {
            return Ok(());
        }
        let names: Vec<_> = self.evaluation.keys().cloned().collect();
        let mut drawn = draw::order(self.config.seed, "evaluate", &names);
        if self.config.evaluation.tasks > 0 {
            drawn.truncate(self.config.evaluation.tasks);
        }
        let publications = self.record.publications()?;
        let harnesses: BTreeSet<Digest> =
            [publications.first(), publications.last()].into_iter().flatten().map(|p| p.digest).collect();
        let last = self.runtime.version();
        let round = self.config.rounds + 1;
        for version in BTreeSet::from([0, last]) {
            tokio::task::block_in_place(|| self.runtime.activate(version))?;
            for harness in &harnesses {
                let generation = self.generation(harness).await?;
                let mut specs = Vec::new();
                for task in &drawn {
                    let group = format!("evaluate/v{version}/{}/{task}", harness.short());
                    for i in 0..episodes {
                        specs.push(self.spec(&self.evaluation, task, &group, i, Some("evaluate"))?);
                    }
                }
                let title = format!("table: policy v{version}, harness {}", harness.short());
                self.rollouts(&title, round, Arm::Evaluate, specs, Some(generation)).await?;
            }
        }
        tokio::task::block_in_place(|| self.runtime.activate(last))
    }

    fn write_pair(&self) -> Result<()> {
        self.check_cancelled()?;
        let out = self.run.join("pair");
        let (form, existing) = (PolicyForm::Full, Existing::Replace);
        let commands = Commands::Refuse;
        let packed =
            tokio::task::block_in_place(|| pack(&self.record, &self.config, form, &out, existing, commands));
        match packed {
            Ok(_) => self.progress.say(&format!("pair written to {}", out.display())),
            // The run is done all the same; its owner decides.
            Err(error) if is_a_command(&error) => self.progress.say(&format!("no pair: {error}")),
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

fn is_a_command(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(PairError::RunsCommand { .. }))
}

fn by_name(set: &TaskSet) -> BTreeMap<String, Arc<Task>> {
    set.tasks().iter().map(|task| (task.name().to_owned(), task.clone())).collect()
}

/// The harness that was published last.
pub fn newest_harness(record: &RunRecord) -> Result<Digest> {
    record
        .publications()?
        .last()
        .map(|publication| publication.digest)
        .context("the run record has no harness")
}

async fn for_both<F: Future<Output = Result<()>>>(futures: [F; 2]) -> Result<()> {
    let [first, second] = futures;
    tokio::try_join!(first, second)?;
    Ok(())
}

fn list(items: impl Iterator<Item = String>) -> String {
    let text = items.collect::<Vec<_>>().join(", ");
    if text.is_empty() { "none".into() } else { text }
}
