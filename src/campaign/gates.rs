//! Which gates did a run have, what was drawn for each before its first rollout, and what do its
//! episodes say?

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use tandem_host::store::Digest;

use super::draw;
use super::ledger::gate_id;
use super::record::{Arm, EpisodeRow, RunRecord};
use super::reports::CandidateReport;
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

fn index_of(phase: &str) -> usize {
    phase.rsplit('-').next().and_then(|digits| digits.parse().ok()).unwrap_or(0)
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
mod tests {
    use super::*;
    use expect_test::{Expect, expect};
    use tandem_host::agent::Outcome;
    use tandem_host::forge::Language;

    use super::super::record::{Place, Publication};
    use super::super::reports::ProposalRow;
    use crate::evolve::{Signal, testkit};

    /// A run with one gate on tasks t0, t1, ...: `solved` of two rollouts by incumbent and candidate.
    struct Run {
        _folder: tempfile::TempDir,
        record: RunRecord,
    }

    fn harness(name: &str) -> Digest {
        Digest::of(name.as_bytes())
    }

    fn names(count: usize) -> Vec<String> {
        (0..count).map(|i| format!("t{i}")).collect()
    }

    fn drawn<'a>(config: &'a GateConfig, names: &'a [String]) -> Drawn<'a> {
        static NONE: BTreeMap<String, String> = BTreeMap::new();
        let (incumbent, candidate) = (harness("old"), harness("new"));
        Drawn { config, seed: 4, names, incumbent, candidate, reusable: &NONE }
    }

    fn config() -> GateConfig {
        GateConfig { group_size: 2, margin_pass: 0.3, margin_trainable: 0.3, ..GateConfig::default() }
    }

    impl Run {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let record = RunRecord::open(folder.path()).unwrap();
            Self { _folder: folder, record }
        }

        /// Plays candidate `index` of round 1 as a campaign does, and ends it.
        fn gate(&self, index: usize, tasks: usize, solved: fn(usize) -> [usize; 2]) -> GatePlan {
            let (config, names) = (config(), names(tasks));
            let plan = GatePlan::of(&self.record, 1, index, &drawn(&config, &names)).unwrap();
            let id = gate_id(1, index);
            let mut test = PairedTest::new(plan.config.clone(), plan.decision);
            for (at, task) in plan.order.iter().enumerate() {
                let arms = [(Arm::GateIncumbent, "old"), (Arm::GateCandidate, "new")];
                for ((arm, name), solved) in arms.into_iter().zip(solved(at)) {
                    (0..2).for_each(|i| self.episode(&id, arm, task, i, i < solved, name));
                }
                if test.push(GateEpisodes::of(&self.record, &id, &plan).unwrap().pair(task, 2)).is_some() {
                    break;
                }
            }
            let report = CandidateReport {
                change: Default::default(),
                saved: None,
                proposal: ProposalRow {
                    name: "hold-empty-patch".into(),
                    signal: Signal::EmptyPatch,
                    source: harness("source"),
                    language: Language::default(),
                    grants: vec![],
                    rationale: "nothing is handed in by mistake".into(),
                    manifest: None,
                },
                plugin: Some(harness("plugin")),
                incumbent: harness("old"),
                harness: Some(harness("new")),
                build_seconds: 0.1,
                refused: None,
                gate: Some(test.report()),
            };
            let publication = Publication { round: 1, digest: harness("new"), reason: "added".into() };
            let accepted = report.accepted().then_some(&publication);
            self.record.end_gate(1, &format!("candidate-{index}"), &report, accepted).unwrap();
            plan
        }

        fn episode(&self, id: &str, arm: Arm, task: &str, index: usize, solved: bool, name: &str) {
            let group = format!("{id}/{}/{task}", arm.name());
            let mut episode = testkit::episode(task);
            episode.id = format!("{group}/{index}");
            episode.harness = harness(name);
            episode.outcome = if solved { Outcome::Solved } else { Outcome::Unsolved };
            self.record.add_episode(&Place { round: 1, arm, group }, &episode).unwrap();
        }

        fn change(&self, statement: &str) {
            assert!(self.record.connection().execute(statement, []).unwrap() > 0, "{statement}");
        }

        fn explain(&self, id: &str) -> Explanation {
            explain(&self.record, id, true).unwrap()
        }
    }

    #[test]
    fn a_gate_is_recomputed_from_its_episodes() {
        let run = Run::new();
        run.gate(0, 40, |_| [0, 2]);
        let found = run.explain("r1/gate0");
        assert_eq!((found.recorded, found.recomputed.verdict), (Some(Verdict::Accept), Verdict::Accept));
        expect![[r#"
            gate r1/gate0: `hold-empty-patch`, harness 11507a0e2f5e against cba06b5736fa, policy v0
              the rule `paired` decides; decision 1 of the run at level 0.0608, of 0.1 for all
              6 of at most 40 tasks, 2 rollouts in each arm of a task
              accepted: better, and lower on neither rate: pass rate 0.0 % to 100.0 % on 6 tasks

            The paired rule: accept, all three must be shown
              better on one rate         evidence 17.83 of 16.4 needed: shown
              pass rate not lower        evidence 36.49 of 10 needed: shown
              trainable rate not lower   evidence 36.49 of 10 needed: shown
            The paper's rule: accept, one rate up and none down
              pass rate                  0.0 % to 100.0 %
              trainable rate             0.0 % to 0.0 %
              It saw the tasks up to the decision of the paired rule, no fixed sample.

            Wealth after each task, in drawn order
                 n   inc.  cand.       d     u     better       pass  trainable    no gain  task
                 1    0/2    2/2  +1.000    +1      1.500      1.650      1.650      0.525  t32
                 2    0/2    2/2  +1.000    +1      2.330      2.858      2.858      0.348  t9
                 3    0/2    2/2  +1.000    +1      3.735      5.161      5.161      0.258  t30
                 4    0/2    2/2  +1.000    +1      6.153      9.652      9.652      0.204  t21
                 5    0/2    2/2  +1.000    +1     10.375     18.560     18.560      0.168  t15
                 6    0/2    2/2  +1.000    +1     17.834     36.488     36.488      0.141  t33

            Tasks gained almost whole: t32, t9, t30, t21, t15, t33

            The record agrees with its episodes.
        "#]]
        .assert_eq(&found.to_string());
    }

    #[test]
    fn whatever_does_not_fit_the_episodes_is_told() {
        let check = |statement: &str, expected: Expect| {
            let run = Run::new();
            run.gate(0, 40, |at| if at == 0 { [2, 0] } else { [0, 2] });
            assert_eq!(run.explain("r1/gate0").differences, Vec::<String>::new());
            run.change(statement);
            let lines = run.explain("r1/gate0").differences;
            expected.assert_eq(&lines[..lines.len().min(3)].join("\n"));
        };
        let of = |arm: &str| {
            format!("id = (SELECT min(id) FROM episode WHERE arm = '{arm}' AND outcome = 'solved')")
        };
        check(
            &format!("UPDATE episode SET outcome = 'unsolved' WHERE {}", of("gate-candidate")),
            expect![[r#"
                episode r1/gate0/gate-candidate/t15/0: its row differs from its record
                evidence of superiority: recorded 19.322423, recomputed 17.410049
                evidence that the pass rate is not lower: recorded 128.862994, recomputed 104.026580"#]],
        );
        check(
            &format!("DELETE FROM episode WHERE {}", of("gate-candidate")),
            expect![[r#"
            task t15: 1 episodes are missing
            evidence of superiority: recorded 19.322423, recomputed 17.410049
            evidence that the pass rate is not lower: recorded 128.862994, recomputed 104.026580"#]],
        );
        check(
            &format!("UPDATE episode SET policy_version = 7 WHERE {}", of("gate-incumbent")),
            expect!["the episodes are of 2 versions of the policy, not of one"],
        );
        check(
            "DELETE FROM publication",
            expect!["the candidate was never published, and its episodes say accept"],
        );
        check(
            "UPDATE phase SET report = replace(report, '\"margin_pass\":0.3', '\"margin_pass\":0.9') WHERE name = 'gate-0'",
            expect![[r#"
                evidence that the pass rate is not lower: recorded 128.862994, recomputed 1900.918494
                the settings of the gate are not those that were kept before its first rollout
                the wealth path differs from task 1 on"#]],
        );
    }

    #[test]
    fn the_gates_of_a_run_share_its_error_and_start_with_fresh_tasks() {
        let run = Run::new();
        let first = run.gate(0, 40, |_| [0, 2]);
        let seen = run.explain("r1/gate0").recomputed.tasks.len();
        let second = run.gate(1, 40, |_| [2, 0]);
        assert_eq!((first.decision, second.decision), (1, 2));
        let used: BTreeSet<_> = first.order[..seen].iter().collect();
        assert!(second.order[..40 - seen].iter().all(|task| !used.contains(task)), "{:?}", second.order);
        let lines = gate_lines(&run.record).unwrap();
        let levels: Vec<_> = lines.iter().map(|line| format!("{:.4}", line.level.unwrap())).collect();
        assert_eq!(levels, ["0.0608", "0.0152"]);
        assert_eq!(run.explain("r1/gate1").differences, Vec::<String>::new());
    }

    #[test]
    fn a_resumed_gate_keeps_what_was_drawn_for_it() {
        let run = Run::new();
        let (config, names) = (config(), names(9));
        let plan = |names: &[String]| GatePlan::of(&run.record, 1, 0, &drawn(&config, names));
        let first = plan(&names).unwrap();
        assert_eq!(plan(&names[..3]).unwrap(), first);
        let mut other = drawn(&config, &names);
        other.candidate = harness("rebuilt");
        let error = GatePlan::of(&run.record, 1, 0, &other).unwrap_err().to_string();
        assert!(error.contains("was begun with harness"), "{error}");
        // A gate that is not done is explained as far as it went.
        assert_eq!(run.explain("r1/gate0").recorded, None);
    }

    #[test]
    fn a_gate_of_an_older_program_is_explained_from_its_report() {
        let run = Run::new();
        run.gate(0, 40, |_| [0, 2]);
        run.change("DELETE FROM phase WHERE name = 'gate-0'");
        let found = run.explain("r1/gate0");
        assert_eq!((found.differences.len(), found.notes.len()), (0, 1));
        let error = explain(&run.record, "r1/gate3", false).unwrap_err().to_string();
        expect![[r#"
            the run has no gate `r1/gate3`
            help: `tandem gate list RUN` names its gates, as `r1/gate0`"#]]
        .assert_eq(&error);
    }

    /// A candidate that brings episodes down, or keeps them from ending, must not look better by it.
    #[test]
    fn episodes_without_a_result_count_against_the_candidate() {
        let run = Run::new();
        let (config, names) = (config(), names(1));
        let plan = GatePlan::of(&run.record, 1, 0, &drawn(&config, &names)).unwrap();
        let id = gate_id(1, 0);
        for index in 0..2 {
            run.episode(&id, Arm::GateIncumbent, "t0", index, index == 0, "old");
        }
        // One was solved; of the other there is trouble instead of a verdict, try after try.
        run.episode(&id, Arm::GateCandidate, "t0", 0, true, "new");
        let pair = || GateEpisodes::of(&run.record, &id, &plan).unwrap().pair("t0", 2);
        // Not there at all: it never ended.
        assert_eq!(pair().candidate, ArmCounts { solved: 1, rollouts: 2 });
        let group = format!("{id}/{}/t0", Arm::GateCandidate.name());
        let mut episode = testkit::episode("t0");
        episode.id = format!("{group}/1");
        episode.harness = harness("new");
        episode.outcome = Outcome::Invalid(tandem_host::agent::InvalidCause::Workspace);
        run.record.add_episode(&Place { round: 1, arm: Arm::GateCandidate, group }, &episode).unwrap();
        assert_eq!(pair().candidate, ArmCounts { solved: 1, rollouts: 2 });
        assert_eq!(pair().gain(), 0.0);
    }

    #[test]
    fn a_training_group_serves_as_the_incumbent_and_the_audit_reads_it() {
        let run = Run::new();
        let (config, names) = (config(), names(2));
        let reusable = BTreeMap::from([("t1".to_owned(), "r1/collect/t1".to_owned())]);
        let drawn = Drawn { reusable: &reusable, ..drawn(&config, &names) };
        let plan = GatePlan::of(&run.record, 1, 0, &drawn).unwrap();
        assert_eq!(plan.order[0], "t1", "what needs no episodes of the incumbent comes first");
        let collect = |index: usize, solved: bool| {
            let group = "r1/collect/t1".to_owned();
            let mut episode = testkit::episode("t1");
            episode.id = format!("{group}/{index}");
            episode.harness = harness("old");
            episode.outcome = if solved { Outcome::Solved } else { Outcome::Unsolved };
            run.record.add_episode(&Place { round: 1, arm: Arm::Collect, group }, &episode).unwrap();
        };
        // Of four training episodes the first two serve: a gate has two in each arm.
        [true, false, true, true].into_iter().enumerate().for_each(|(index, solved)| collect(index, solved));
        run.episode("r1/gate0", Arm::GateCandidate, "t1", 0, true, "new");
        run.episode("r1/gate0", Arm::GateCandidate, "t1", 1, true, "new");
        let episodes = GateEpisodes::of(&run.record, "r1/gate0", &plan).unwrap();
        let pair = episodes.pair("t1", 2);
        assert_eq!((pair.incumbent.solved, pair.candidate.solved), (1, 2));
        assert_eq!(episodes.missing("t1", 2), 0);
        let found = run.explain("r1/gate0");
        assert_eq!((found.differences, found.recomputed.tasks.len()), (Vec::new(), 1));
    }

    #[test]
    fn a_run_says_how_often_its_tasks_are_solved() {
        let run = Run::new();
        run.gate(0, 1, |_| [1, 2]);
        assert_eq!(task_counts(&run.record).unwrap(), [ArmCounts { solved: 1, rollouts: 2 }]);
    }
}
