//! Which gates did a run have, what was drawn for each before its first rollout, and what do its
//! episodes say?

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use tandem_host::store::Digest;

use super::draw;
use super::ledger::gate_id;
use super::record::{Arm, EpisodeRow, RunRecord};
use super::reports::{CandidateReport, index_of};
use super::steps::{ScreenReport, number_of};
use crate::evolve::{
    ArmCounts, Claim, Explanation, GateConfig, GateReport, PairedTask, PairedTest, Verdict, as_recorded,
    differences,
};

/// What is fixed and recorded before the first rollout of a gate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GatePlan {
    /// Which gate of the run it is, from 1: its share of the run's error follows.
    pub decision: u32,
    /// `tasks` is how many were drawn.
    #[serde(deserialize_with = "as_recorded")]
    pub config: GateConfig,
    /// The tasks in the order in which they are looked at.
    pub order: Vec<String>,
    pub incumbent: Digest,
    pub candidate: Digest,
    /// Tasks whose training group, of this key, serves as the incumbent's arm.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub reused: BTreeMap<String, String>,
}

/// What a gate is planned from.
pub struct Drawn<'a> {
    pub config: &'a GateConfig,
    /// The seed of the campaign.
    pub seed: u64,
    /// The tasks of the pool.
    pub names: &'a [String],
    pub incumbent: Digest,
    pub candidate: Digest,
    /// Training groups that may serve as the incumbent's arm, by task: their choice did not depend on
    /// their outcomes.
    pub reusable: &'a BTreeMap<String, String>,
}

impl GatePlan {
    /// The plan of candidate `index` in `round`: that of the record, or a new one, which is recorded.
    /// Tasks that earlier gates and screens of the run used come last; of equally fresh ones, those that
    /// need no new episodes of the incumbent come first.
    ///
    /// # Errors
    /// When the record cannot be read, or holds the plan of another candidate.
    pub fn of(record: &RunRecord, round: u32, index: usize, drawn: &Drawn<'_>) -> Result<Self> {
        let phase = format!("gate-{index}");
        let label = gate_id(round, index);
        if let Some(plan) = record.phase::<Self>(round, &phase)? {
            if (plan.incumbent, plan.candidate) != (drawn.incumbent, drawn.candidate) {
                bail!(
                    "gate {label} was begun with harness {} against {}, and now there are {} and {}\nhelp: the tools that build plugins have changed; bring the old ones back, or start a new run",
                    plan.candidate.short(),
                    plan.incumbent.short(),
                    drawn.candidate.short(),
                    drawn.incumbent.short()
                );
            }
            return Ok(plan);
        }
        let used = used_tasks(record)?;
        let mut order = draw::fresh_first(drawn.seed, &label, drawn.names, &used);
        let freshness = |name: &String| used.get(name).copied().unwrap_or(0);
        // Stable: otherwise as drawn.
        order.sort_by_key(|name| (freshness(name), !drawn.reusable.contains_key(name)));
        order.truncate(drawn.config.tasks);
        let chosen = |name: &String| order.contains(name);
        let reused = drawn.reusable.iter().filter(|(name, _)| chosen(name));
        let plan = Self {
            decision: decisions(record)? + 1,
            reused: reused.map(|(name, group)| (name.clone(), group.clone())).collect(),
            config: GateConfig { tasks: order.len(), ..drawn.config.clone() },
            order,
            incumbent: drawn.incumbent,
            candidate: drawn.candidate,
        };
        record.end_phase(round, &phase, &plan)?;
        Ok(plan)
    }

    /// The plan of a gate that an older program ran: as its report has it.
    fn of_report(report: &GateReport, incumbent: Digest, candidate: Digest) -> Self {
        Self {
            decision: report.level.map_or(1, |level| level.decision),
            config: report.config.clone(),
            order: report.tasks.iter().map(|task| task.task.clone()).collect(),
            incumbent,
            candidate,
            reused: BTreeMap::new(),
        }
    }
}

/// How often earlier gates and screens of a run used each task.
fn used_tasks(record: &RunRecord) -> Result<BTreeMap<String, usize>> {
    let mut used: BTreeMap<String, usize> = BTreeMap::new();
    let reports = record.phases::<CandidateReport>("candidate-")?;
    let gated = reports.into_iter().filter_map(|(.., report)| report.gate).flat_map(|gate| gate.tasks);
    let screens = record.phases::<ScreenReport>("screen")?;
    let screened = screens.into_iter().flat_map(|(.., screen)| screen.tasks);
    for task in gated.map(|task| task.task).chain(screened) {
        *used.entry(task).or_default() += 1;
    }
    Ok(used)
}

/// How many gates of a run have had a share of its error: all that were begun, but for removal tests.
fn decisions(record: &RunRecord) -> Result<u32> {
    let mut begun: BTreeMap<(u32, usize), Claim> = BTreeMap::new();
    for (round, phase, plan) in record.phases::<GatePlan>("gate-")? {
        begun.insert((round, index_of(&phase)), plan.config.claim);
    }
    for (round, phase, report) in record.phases::<CandidateReport>("candidate-")? {
        if let Some(gate) = report.gate {
            begun.insert((round, index_of(&phase)), gate.config.claim);
        }
    }
    Ok(begun.values().filter(|claim| claim.is_better()).count() as u32)
}

/// The episodes of one gate, by arm and task.
pub struct GateEpisodes(BTreeMap<(&'static str, String), Vec<EpisodeRow>>);

impl GateEpisodes {
    /// The episodes of gate `id`, whose plan is `plan`.
    pub fn of(record: &RunRecord, id: &str, plan: &GatePlan) -> Result<Self> {
        let mut found: BTreeMap<_, Vec<EpisodeRow>> = BTreeMap::new();
        for row in record.episodes()? {
            let serves = plan.reused.get(&row.task).is_some_and(|group| *group == row.group);
            let number = number_of(&row).unwrap_or(usize::MAX);
            if serves && row.arm == Arm::Collect.name() && number < plan.config.group_size {
                found.entry((Arm::GateIncumbent.name(), row.task.clone())).or_default().push(row);
                continue;
            }
            for arm in [Arm::GateIncumbent, Arm::GateCandidate] {
                if row.arm == arm.name() && row.group == format!("{id}/{}/{}", arm.name(), row.task) {
                    found.entry((arm.name(), row.task.clone())).or_default().push(row.clone());
                }
            }
        }
        Ok(Self(found))
    }

    /// The episodes of one arm on `task`.
    pub fn rows(&self, arm: Arm, task: &str) -> &[EpisodeRow] {
        self.0.get(&(arm.name(), task.to_owned())).map_or(&[], Vec::as_slice)
    }

    /// What both arms did on `task`. A rollout of the `size` without a result counts as a failure.
    pub fn pair(&self, task: &str, size: usize) -> PairedTask {
        let count = |arm| {
            let solved = self.rows(arm, task).iter().filter(|row| row.solved()).count();
            ArmCounts { solved, rollouts: size }
        };
        PairedTask {
            task: task.to_owned(),
            incumbent: count(Arm::GateIncumbent),
            candidate: count(Arm::GateCandidate),
        }
    }

    /// Episodes that `task` lacks, of `size` in each arm.
    fn missing(&self, task: &str, size: usize) -> usize {
        let arms = [Arm::GateIncumbent, Arm::GateCandidate];
        arms.iter().map(|arm| size.saturating_sub(self.rows(*arm, task).len())).sum()
    }
}

/// A gate in the list of a run.
#[derive(Debug, Serialize)]
pub struct GateLine {
    pub gate: String,
    pub candidate: String,
    pub decision: Option<u32>,
    /// The error that its superiority test may make.
    pub level: Option<f64>,
    /// Whether `level` is a share of what the run's gates may make together.
    pub shared: bool,
    pub tasks: usize,
    /// Those that were run for it.
    pub rollouts: usize,
    pub verdict: Option<Verdict>,
    pub paired: Option<Verdict>,
    pub paper: Option<Verdict>,
    pub reason: String,
}

/// All gates of a run, in the order in which they were run; candidates that never came to one are left out.
pub fn gate_lines(record: &RunRecord) -> Result<Vec<GateLine>> {
    let mut plans: BTreeMap<(u32, usize), GatePlan> = BTreeMap::new();
    for (round, phase, plan) in record.phases::<GatePlan>("gate-")? {
        plans.insert((round, index_of(&phase)), plan);
    }
    let mut reports: BTreeMap<(u32, usize), CandidateReport> = BTreeMap::new();
    for (round, phase, report) in record.phases::<CandidateReport>("candidate-")? {
        if report.gate.is_some() {
            reports.insert((round, index_of(&phase)), report);
        }
    }
    let places: BTreeSet<_> = plans.keys().chain(reports.keys()).copied().collect();
    let line = |(round, index): (u32, usize)| {
        let report = reports.get(&(round, index));
        let gate = report.and_then(|report| report.gate.as_ref());
        let plan = plans.get(&(round, index));
        let level = gate.and_then(|gate| gate.level);
        let config = gate.map(|gate| &gate.config).or(plan.map(|plan| &plan.config));
        let tasks = gate.map_or(0, |gate| gate.tasks.len());
        let saved = report.and_then(|report| report.saved);
        let saved = saved.map_or(0, |saved| saved.ties + saved.reused);
        // A removal test has the error `beta` and no share of the run's.
        let takes_a_share = config.is_none_or(|config| config.claim.is_better());
        GateLine {
            gate: gate_id(round, index),
            candidate: report.map_or_else(|| "not done yet".into(), |report| report.name()),
            decision: level
                .map(|level| level.decision)
                .or(plan.map(|plan| plan.decision))
                .filter(|_| takes_a_share),
            level: gate
                .map(GateReport::alpha)
                .or(plan.map(|plan| plan.config.level(plan.decision)))
                .filter(|_| takes_a_share),
            shared: takes_a_share
                && config.is_some_and(|config| config.spending == crate::evolve::Spending::Run),
            tasks,
            rollouts: config.map_or(0, |config| 2 * config.group_size * tasks).saturating_sub(saved),
            verdict: gate.map(|gate| gate.verdict),
            paired: gate.map(|gate| gate.paired),
            paper: gate.map(|gate| gate.paper.verdict),
            reason: gate.map_or_else(String::new, |gate| gate.reason.clone()),
        }
    };
    Ok(places.into_iter().map(line).collect())
}

/// Recomputes gate `id` from the episodes of the run and compares it with what is recorded.
/// `records` also reads the whole record of every episode, whose digest the store checks.
///
/// # Errors
/// When the run has no such gate, or the record cannot be read.
pub fn explain(record: &RunRecord, id: &str, records: bool) -> Result<Explanation> {
    let places = id.strip_prefix('r').and_then(|rest| rest.split_once("/gate"));
    let parsed = places.and_then(|(round, index)| Some((round.parse().ok()?, index.parse::<usize>().ok()?)));
    let unknown =
        || format!("the run has no gate `{id}`\nhelp: `tandem gate list RUN` names its gates, as `r1/gate0`");
    let (round, index): (u32, usize) = parsed.with_context(unknown)?;
    let plan: Option<GatePlan> = record.phase(round, &format!("gate-{index}"))?;
    let report: Option<CandidateReport> = record.phase(round, &format!("candidate-{index}"))?;
    let recorded = report.as_ref().and_then(|report| report.gate.as_ref());
    let mut notes = Vec::new();
    let plan = match (plan, &report, recorded) {
        (Some(plan), ..) => plan,
        (None, Some(report), Some(gate)) => {
            notes.push("this run kept no plan, so order and settings are those of the report".into());
            let harness = report.harness.with_context(unknown)?;
            GatePlan::of_report(gate, report.incumbent, harness)
        }
        _ => bail!(unknown()),
    };
    let episodes = GateEpisodes::of(record, &gate_id(round, index), &plan)?;
    let mut found = Vec::new();
    let mut test = PairedTest::new(plan.config.clone(), plan.decision);
    let mut looked_at: Vec<&str> = Vec::new();
    for task in &plan.order {
        let missing = episodes.missing(task, plan.config.group_size);
        if missing > 0 && recorded.is_none() {
            break;
        }
        if missing > 0 {
            found.push(format!("task {task}: {missing} episodes are missing"));
        }
        looked_at.push(task);
        if test.push(episodes.pair(task, plan.config.group_size)).is_some() {
            break;
        }
    }
    let versions = check_episodes(record, &plan, &episodes, &looked_at, records, &mut found)?;
    let recomputed = test.report();
    if let (Some(report), Some(gate)) = (&report, recorded) {
        found.extend(differences(gate, &recomputed));
        if report.incumbent != plan.incumbent || report.harness != Some(plan.candidate) {
            found.push("the report names other harnesses than the plan of the gate".into());
        }
        let published = record.publications()?.iter().any(|p| p.round == round && p.digest == plan.candidate);
        let accepted = recomputed.verdict == Verdict::Accept;
        if published != accepted && (accepted || !let_in_by_another(record, round, index, &plan.candidate)?) {
            let what = if published { "was published" } else { "was never published" };
            found.push(format!("the candidate {what}, and its episodes say {}", recomputed.verdict.name()));
        }
    }
    let (gained, lost) = Explanation::turns(&recomputed.tasks);
    Ok(Explanation {
        gate: gate_id(round, index),
        candidate: report.as_ref().map_or_else(|| "candidate".into(), |report| report.name()),
        incumbent: plan.incumbent,
        harness: plan.candidate,
        policy_version: versions.first().copied(),
        recorded: recorded.map(|gate| gate.verdict),
        recomputed,
        differences: found,
        notes,
        gained,
        lost,
        whole_path: false,
    })
}

/// Whether another gate of the round let the same harness in.
fn let_in_by_another(record: &RunRecord, round: u32, index: usize, harness: &Digest) -> Result<bool> {
    let reports = record.phases::<CandidateReport>("candidate-")?;
    Ok(reports.into_iter().any(|(other, phase, report)| {
        other == round && index_of(&phase) != index && report.accepted() && report.harness == Some(*harness)
    }))
}

/// Whether the episodes are those of this gate: one policy, the harness of their arm. Gives the versions.
fn check_episodes(
    record: &RunRecord,
    plan: &GatePlan,
    episodes: &GateEpisodes,
    tasks: &[&str],
    records: bool,
    found: &mut Vec<String>,
) -> Result<BTreeSet<u64>> {
    let mut versions = BTreeSet::new();
    for task in tasks {
        for (arm, harness) in [(Arm::GateIncumbent, plan.incumbent), (Arm::GateCandidate, plan.candidate)] {
            for row in episodes.rows(arm, task) {
                versions.insert(row.policy_version);
                if row.harness != harness {
                    found.push(format!("episode {} ran under harness {}", row.id, row.harness.short()));
                }
                if records {
                    let whole = record.episode_facts(row)?;
                    let solved = whole.outcome == tandem_host::agent::Outcome::Solved;
                    if solved != row.solved() || whole.id != row.id || whole.harness != row.harness {
                        found.push(format!("episode {}: its row differs from its record", row.id));
                    }
                }
            }
        }
    }
    if versions.len() > 1 {
        found.push(format!("the episodes are of {} versions of the policy, not of one", versions.len()));
    }
    Ok(versions)
}

/// What the episodes of a run say of each of its tasks: training groups and the incumbents of gates.
/// Episodes without a verdict say nothing.
pub fn task_counts(record: &RunRecord) -> Result<Vec<ArmCounts>> {
    let mut counts: BTreeMap<String, ArmCounts> = BTreeMap::new();
    let arms = [Arm::Collect.name(), Arm::GateIncumbent.name()];
    for row in record.episodes()?.iter().filter(|row| arms.contains(&row.arm.as_str()) && row.valid()) {
        let count = counts.entry(row.task.clone()).or_default();
        count.solved += usize::from(row.solved());
        count.rollouts += 1;
    }
    Ok(counts.into_values().collect())
}

#[cfg(test)]
#[path = "gates_tests.rs"]
mod tests;
