//! Gates as a campaign runs them, on made-up episodes: do plan, record and recomputation agree?

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
                kind: Default::default(),
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
    let of =
        |arm: &str| format!("id = (SELECT min(id) FROM episode WHERE arm = '{arm}' AND outcome = 'solved')");
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
