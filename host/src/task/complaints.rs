//! What users of other evaluators complained of, a test each, named after the report.

use std::fs;

use tempfile::TempDir;

use super::*;
use crate::swebench::{EvalType, Expected, ParseContext, Status, parse};
use crate::workspace::WorkspaceConfig;

const CODE: &str = "# a\n# b\n# c\nvalue = 1\n# d\n# e\n# f\n";
const GOOD: &str = "--- a/code.py\n+++ b/code.py\n@@ -1,7 +1,7 @@\n # a\n # b\n # c\n-value = 1\n+value = 2\n # d\n # e\n # f\n";
const BAD: &str = "--- a/code.py\n+++ b/code.py\n@@ -1,7 +1,7 @@\n # a\n # b\n # c\n-value = 1\n+value = 3\n # d\n # e\n # f\n";

/// A script that runs `command` as the scripts of SWE-bench run tests.
fn marked(command: &str) -> String {
    crate::swebench::record_exit_code(&format!(
        "cd /workspace\n: '>>>>> Start Test Output'\n{command}\n: '>>>>> End Test Output'\n"
    ))
}

/// Prints as Django's runner does: `kept` passes, and `value` when it is 2.
const SUITE: &str = "scope = {}
exec(open('code.py').read(), scope)
good = scope['value'] == 2
print('kept ... ok')
print('value ... ' + ('ok' if good else 'FAIL'))
print('Ran 2 tests in 0.001s')
raise SystemExit(0 if good else 1)
";
const RUN: &str = "python3 -I /tests/suite.py";

/// A task graded by its log, over one file `code.py`.
fn graded(script: &str) -> (TempDir, Task) {
    let grading = Grading {
        instance_id: "a__b-1".into(),
        apply: Apply::Ladder,
        rule: Rule::SwebenchLog {
            version: "1".into(),
            log_parser: "parse_log_django".into(),
            eval_type: EvalType::PassAndFail,
            expected: Expected { fail_to_pass: vec!["value".into()], pass_to_pass: vec!["kept".into()] },
        },
    };
    let folder = tempfile::tempdir().unwrap();
    for (path, text) in [
        ("task.toml", "[task]\nname = \"t\"\n[verifier]\ntimeout_sec = 20\n"),
        ("instruction.md", "do"),
        ("environment/workspace/code.py", CODE),
        ("tests/test.sh", script),
        ("tests/suite.py", SUITE),
        ("tests/grading.json", &serde_json::to_string(&grading).unwrap()),
        ("solution/patch.diff", GOOD),
    ] {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let task = Task::load(folder.path()).unwrap();
    (folder, task)
}

async fn check(task: &Task, patch: &str, expected: &str) {
    let shown = match task.verify(patch.as_bytes(), &WorkspaceConfig::default()).await {
        Ok(verdict) => {
            let why = verdict.output.lines().next().unwrap_or_default();
            format!("solved {} applied {}: {why}", verdict.solved, verdict.applied)
        }
        Err(error) => error.to_string().lines().next().unwrap_or_default().to_owned(),
    };
    assert_eq!(shown, expected, "{patch}");
}

/// SWE-bench #294, SWE-bench-Live #15: reference patches that fail or do not apply.
#[tokio::test]
async fn swe_bench_294_reference_and_empty_patch_are_controls_on_this_host() {
    let (folder, task) = graded(&marked(RUN));
    let config = WorkspaceConfig::default();
    let report = validate(&task, 2, &config).await;
    assert_eq!((report.trouble, report.reference.solved, report.empty.solved), (None, 2, 0));
    fs::write(folder.path().join("solution/patch.diff"), BAD).unwrap();
    let trouble = validate(&task, 1, &config).await.trouble.unwrap();
    assert!(trouble.starts_with("the reference patch is not solved"), "{trouble}");
    fs::write(folder.path().join("solution/patch.diff"), "--- a/none\n+++ b/none\n@@ -1 +1 @@\n-a\n+b\n")
        .unwrap();
    let trouble = validate(&task, 1, &config).await.trouble.unwrap();
    assert!(trouble.starts_with("the reference patch does not apply"), "{trouble}");
}

/// SWE-bench #167: output of a test between its name and its status.
#[test]
fn swe_bench_167_output_between_a_name_and_its_status_is_no_failure() {
    let log = "test_a (x.T) ... Testing against Django installed in '/testbed/django' (1 silenced).\nok\n\
               test_b (x.T) ... some\nprinted lines\nok\ntest_c (x.T) ... FAIL\n";
    let map = parse("parse_log_django", log, &ParseContext::default()).unwrap();
    assert_eq!(map.get("test_a (x.T)"), Some(&Status::Passed));
    assert_eq!(map.get("test_b (x.T)"), Some(&Status::Passed));
    assert_eq!(map.get("test_c (x.T)"), Some(&Status::Failed));
}

/// R2E-Gym #27: a reward of 1 with nothing changed. tunix PR 2073: the exit code is no label.
#[tokio::test]
async fn r2e_gym_27_an_unchanged_tree_is_never_solved_whatever_the_exit_code() {
    let (_folder, task) = graded(&marked(&format!("{RUN} || true")));
    check(
        &task,
        "",
        "solved false applied true: 0 of 1 to be repaired and 1 of 1 to be kept succeed; the first that does not is `value`",
    )
    .await;
    let (_folder, task) = graded(&format!("{}exit 7\n", marked(RUN)));
    check(&task, GOOD, "solved true applied true: 1 of 1 to be repaired and 1 of 1 to be kept succeed").await;
    // A rule without a single expected test solves nothing: R2E rows with none are not imported.
    let nothing = Rule::ExactSummary { expected: std::collections::BTreeMap::new() };
    let grading = Grading { instance_id: "x".into(), apply: Apply::Ladder, rule: nothing };
    assert_eq!(grading.judge(b"", None).unwrap().resolution, crate::swebench::Resolution::No);
}

/// echoVic/orca-agent #65: tests that download, and a server that does not answer.
#[tokio::test]
async fn orca_agent_65_a_machine_without_network_is_no_zero() {
    let (_folder, task) = graded(&marked("echo 'curl: (6) Could not resolve host: example.org'; exit 6"));
    check(&task, GOOD, "the log of `t` says that the machine broke (`network_unreachable`), not the patch")
        .await;
}

/// SWE-smith #154: an image that is not there; here, no place to run images at all.
#[tokio::test]
async fn swe_smith_154_a_task_without_its_image_is_no_zero() {
    let (folder, _) = graded(&marked(RUN));
    fs::remove_dir_all(folder.path().join("environment")).unwrap();
    fs::write(folder.path().join("task.toml"), "[environment]\ndocker_image = \"swebench/x\"\n").unwrap();
    let task = Task::load(folder.path()).unwrap();
    assert_eq!((task.image(), task.instance_id()), (Some("swebench/x"), "a__b-1"));
    let error = task.verify(GOOD.as_bytes(), &WorkspaceConfig::default()).await.unwrap_err();
    let expected = "the tests of `c` could not run: the files lie in the image `swebench/x`, and the back-end is not `container`";
    let text = error.to_string().replace(&format!("`{}`", task.name()), "`c`");
    assert_eq!(text.lines().next(), Some(expected), "{error}");
}

/// SWE-bench #637: runs that were never graded, counted as run.
#[tokio::test]
async fn swe_bench_637_what_was_not_graded_says_so() {
    let (_folder, task) = graded("echo no markers\n");
    check(
        &task,
        GOOD,
        "solved false applied true: not graded: the script of the tests did not come to its end",
    )
    .await;
    let (_folder, task) = graded(&marked("true"));
    check(&task, GOOD, "solved false applied true: not graded: the log names no test and no suite that ran")
        .await;
    let (_folder, task) = graded(&marked("echo 'value ... ok'; false"));
    check(
        &task,
        GOOD,
        "solved false applied true: not graded: the test command failed, and the log names no failure",
    )
    .await;
    let (_folder, task) = graded(&marked("sleep 60"));
    fs::write(task.folder().join("task.toml"), "[verifier]\ntimeout_sec = 1\n").unwrap();
    let task = Task::load(task.folder()).unwrap();
    let error = task.verify(GOOD.as_bytes(), &WorkspaceConfig::default()).await.unwrap_err();
    assert!(matches!(error, VerifyError::TimedOut { .. }), "{error}");
}

/// swebench keeps results by run, model and instance: a new patch under the same names
/// was not run again.
#[tokio::test]
async fn swebench_cache_another_patch_or_task_is_judged_again() {
    let (folder, task) = graded(&marked(RUN));
    let place = tempfile::tempdir().unwrap();
    let cache = ResultCache::new(place.path());
    let config = WorkspaceConfig::default();
    let solved = async |task: &Task, patch: &str| {
        let (verdict, kept) = cache.verify(task, patch.as_bytes(), &config).await.unwrap();
        (verdict.solved, kept)
    };
    assert_eq!(solved(&task, GOOD).await, (true, false));
    assert_eq!(solved(&task, GOOD).await, (true, true));
    assert_eq!(solved(&task, BAD).await, (false, false));
    // The tests of the task changed: what was judged before says nothing.
    fs::write(folder.path().join("tests/suite.py"), SUITE.replace("== 2", "== 3")).unwrap();
    let changed = Task::load(folder.path()).unwrap();
    assert_eq!(solved(&changed, BAD).await, (true, false));
    // An entry that was cut or is for something else is none.
    for entry in fs::read_dir(place.path()).unwrap() {
        fs::write(entry.unwrap().path(), "{\"solved\": true}").unwrap();
    }
    assert_eq!(solved(&changed, GOOD).await, (false, false));
}

/// The same of a campaign, which hands in equal patches by the dozen; validation never
/// takes what is kept, or a flaky task would look steady.
#[tokio::test]
async fn a_task_that_keeps_verdicts_judges_a_patch_once_and_is_validated_anew() {
    let (_folder, task) = graded(&marked(RUN));
    let place = tempfile::tempdir().unwrap();
    task.keep_verdicts(ResultCache::new(place.path()));
    let config = WorkspaceConfig::default();
    assert!(!task.verify(BAD.as_bytes(), &config).await.unwrap().solved);
    let kept: Vec<_> = fs::read_dir(place.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    let text = fs::read_to_string(&kept[0]).unwrap();
    fs::write(&kept[0], text.replacen("\"solved\":false", "\"solved\":true", 1)).unwrap();
    assert!(task.verify(BAD.as_bytes(), &config).await.unwrap().solved);
    assert!(!task.verify_afresh(BAD.as_bytes(), &config).await.unwrap().solved);
    fs::write(task.folder().join("solution/patch.diff"), BAD).unwrap();
    assert_eq!(validate(&task, 1, &config).await.reference.solved, 0);
}

/// Harbor's parity runs: three trials of one agent gave 7, 6 and 9 of 10.
#[test]
fn harbor_parity_a_flaky_task_is_told_and_kept_out() {
    let (folder, task) = graded(&marked(RUN));
    let reference = Check { solved: 2, runs: 3 };
    let trouble = super::validate::flaky("the reference patch", &reference).unwrap_err();
    let first = "the task is flaky: the reference patch is solved in 2 of 3 runs";
    assert_eq!(trouble.lines().next(), Some(first));
    for solved in [0, 3] {
        assert_eq!(super::validate::flaky("the reference patch", &Check { solved, runs: 3 }), Ok(()));
    }
    let report = TaskReport {
        task: task.name().to_owned(),
        difficulty: None,
        reference,
        empty: Check::default(),
        trouble: Some(trouble),
        notes: Vec::new(),
        seconds: 0.0,
    };
    let quarantine = Quarantine::from_report(&ValidationReport { tasks: vec![report] });
    assert_eq!(quarantine.tasks["t"], first);
    quarantine.write(folder.path()).unwrap();
    let refused = TaskSet::load(folder.path()).unwrap_err().to_string();
    assert!(refused.contains("every task of") && refused.contains("quarantine"), "{refused}");
    Quarantine::default().write(folder.path()).unwrap();
    assert_eq!(TaskSet::load(folder.path()).unwrap().tasks().len(), 1);
}

/// A patch whose context changed at its ends: the official evaluator applies it on its fourth try.
#[tokio::test]
async fn the_ladder_applies_what_the_official_evaluator_applies() {
    let (_folder, task) = graded(&marked(RUN));
    let moved = GOOD.replace(" # a", " # moved").replace(" # f", " # gone");
    check(&task, &moved, "solved true applied true: 1 of 1 to be repaired and 1 of 1 to be kept succeed")
        .await;
    let (_folder, task) = graded(&marked(RUN));
    let verdict = task.verify(b"no patch at all\n", &WorkspaceConfig::default()).await.unwrap();
    assert!(!verdict.applied && verdict.output.starts_with("the patch does not apply"), "{}", verdict.output);
}
