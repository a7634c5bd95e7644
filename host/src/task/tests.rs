//! Task folders as people write them, right and wrong, judged in real sandboxes.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use expect_test::{Expect, expect};

use super::*;
use crate::workspace::WorkspaceConfig;

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

/// A message without the places of this checkout.
fn plain(error: &TaskError) -> String {
    error.to_string().replace(&data("").display().to_string(), "")
}

#[test]
fn a_set_is_sorted_and_tolerates_unknown_keys() {
    let set = TaskSet::load(&data("tasks")).unwrap();
    let names: Vec<_> = set.tasks().iter().map(|task| task.name()).collect();
    assert_eq!(names, ["greet", "tandem/add"]);
    let task = set.get("tandem/add").unwrap();
    assert_eq!(task.difficulty(), Some("easy"));
    assert_eq!(task.instruction(), "In `calc.py`, `add(2, 3)` returns -1, but it should return 5.");
    assert_eq!(task.verifier_seconds(), 30.0);
    assert_eq!(task.notes(), ["`RUN` in the Dockerfile (line 2) is not used"]);
    assert_eq!(TaskSet::load(&data("tasks/add")).unwrap().tasks().len(), 1);
}

#[test]
fn broken_folders_say_what_is_missing() {
    let check = |name: &str, expected: Expect| {
        expected.assert_eq(&plain(&Task::load(&data(name)).unwrap_err()));
    };
    check(
        "broken-tasks/no-tests",
        expect![[r#"
        task folder `broken-tasks/no-tests` has no `tests/test.sh`
        help: write a script that leaves 1 or 0 in `/logs/verifier/reward.txt`"#]],
    );
    check(
        "broken-tasks/bad-toml",
        expect![[r#"
        `broken-tasks/bad-toml/task.toml` is not a task file: TOML parse error at line 2, column 6
          |
        2 | [task
          |      ^
        unclosed table, expected `]`
        help: see Harbor's task format, schema 1.4"#]],
    );
    check(
        "broken-tasks",
        expect![[r#"
        task folder `broken-tasks` has no `task.toml`
        help: start it with `schema_version = "1.4"`"#]],
    );
    let folder = tempfile::tempdir().unwrap();
    let shown = |error: TaskError| error.to_string().replace(&folder.path().display().to_string(), "SET");
    expect![[r#"
        `SET` holds no tasks
        help: a task is a folder with a `task.toml`"#]]
    .assert_eq(&shown(TaskSet::load(folder.path()).unwrap_err()));
    expect![[r#"
        `SET/none` could not be read: No such file or directory (os error 2)
        help: check the path and its permissions"#]]
    .assert_eq(&shown(TaskSet::load(&folder.path().join("none")).unwrap_err()));

    let write = |path: &str, text: &str| {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write("a/instruction.md", "do it");
    expect![[r#"
        task folder `SET/a` has no `task.toml`
        help: start it with `schema_version = "1.4"`"#]]
    .assert_eq(&shown(TaskSet::load(folder.path()).unwrap_err()));
    write("a/task.toml", "schema_version = \"2.0\"\n");
    expect![[r#"
        `SET/a/task.toml` is not a task file: schema version `2.0` is not 1.x
        help: see Harbor's task format, schema 1.4"#]]
    .assert_eq(&shown(TaskSet::load(folder.path()).unwrap_err()));
    write("a/task.toml", "[verifier]\ntimeout_sec = -1\n");
    expect![[r#"
        `SET/a/task.toml` is not a task file: `timeout_sec` under `[verifier]` is -1; it is between 0 and 86400
        help: see Harbor's task format, schema 1.4"#]].assert_eq(&shown(TaskSet::load(folder.path()).unwrap_err()));
    write("a/task.toml", "[task]\nname = \"x\"\n");
    write("a/tests/test.sh", "");
    expect![[r#"
        task folder `SET/a` has no `environment/workspace`
        help: put the files that the agent works on there; images are not built from a Dockerfile"#]]
    .assert_eq(&shown(TaskSet::load(folder.path()).unwrap_err()));
    write("a/environment/workspace/f", "");
    write("b/task.toml", "[task]\nname = \"x\"\n");
    write("b/tests/test.sh", "");
    write("b/instruction.md", "");
    write("b/environment/workspace/f", "");
    expect![[r#"
        two tasks are named `x`: `SET/a` and `SET/b`
        help: change `name` under `[task]` in one of them"#]]
    .assert_eq(&shown(TaskSet::load(folder.path()).unwrap_err()));
    write("b/task.toml", "[task]\nname = \"y\"\n[[steps]]\nname = \"one\"\n");
    expect![[r#"
        task folder `SET/b/steps/one` has no `instruction.md`
        help: write there what the agent is asked to do"#]]
    .assert_eq(&shown(TaskSet::load(folder.path()).unwrap_err()));
}

/// A task whose tests are `script`, over one file `code.py`.
fn task_with_tests(script: &str) -> (tempfile::TempDir, Task) {
    let folder = tempfile::tempdir().unwrap();
    for (path, text) in [
        ("task.toml", "[task]\nname = \"t\"\n[verifier]\ntimeout_sec = 3\n"),
        ("instruction.md", "do"),
        ("environment/workspace/code.py", "value = 1\n"),
        ("tests/test.sh", script),
    ] {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let task = Task::load(folder.path()).unwrap();
    (folder, task)
}

#[tokio::test]
async fn each_way_of_leaving_no_reward_has_its_own_message() {
    let check = async |script: &str, expected: &str| {
        let (_folder, task) = task_with_tests(script);
        let shown = match task.verify(b"", &WorkspaceConfig::default()).await {
            Ok(verdict) => format!("solved {} reward {}", verdict.solved, verdict.reward),
            Err(error) => error.to_string().lines().next().unwrap().to_owned(),
        };
        assert_eq!(shown, expected, "{script}");
    };
    let write = |text: &str| format!("printf '{text}' > /logs/verifier/reward.txt");
    check(&write("1"), "solved true reward 1").await;
    check(&write("1.5\\n"), "solved true reward 1.5").await;
    check(&write("0.99"), "solved false reward 0.99").await;
    check("exit 1", "the tests of `t` left no reward").await;
    check(&write(""), "the tests of `t` left an empty `reward.txt`").await;
    check(&write("good"), "the tests of `t` left `good` in `reward.txt`, which is not a number").await;
    check(&write("nan"), "the tests of `t` left a reward that is not finite in `reward.txt`").await;
    check("sleep 60", "the tests of `t` did not end within 3 seconds").await;
    // A lower `reward.txt` beside it counts: the code under test may write files too.
    check("echo 1 > /logs/verifier/reward.json; echo 0 > /logs/verifier/reward.txt", "solved false reward 0")
        .await;
    check("echo 1 > /logs/verifier/reward.json; echo 1 > /logs/verifier/reward.txt", "solved true reward 1")
        .await;
    // The first file wins, as in Harbor.
    check(&format!("{}; echo 0 > /logs/verifier/reward.json", write("1")), "solved false reward 0").await;
    check(
        "ln -s /etc/hosts /logs/verifier/reward.txt",
        "the tests of `t` left something else than a small file as `reward.txt`",
    )
    .await;
    check(
        "mkfifo /logs/verifier/reward.txt",
        "the tests of `t` left something else than a small file as `reward.txt`",
    )
    .await;
    check(
        "head -c 100000 /dev/zero > /logs/verifier/reward.txt",
        "the tests of `t` left something else than a small file as `reward.txt`",
    )
    .await;
    check("touch /tests/x && echo 1 > /logs/verifier/reward.txt", "the tests of `t` left no reward").await;
}

#[tokio::test]
async fn a_verdict_comes_from_the_patch_alone() {
    let (_folder, task) = task_with_tests(
        "test ! -e /workspace/.git && grep -q 'value = 2' code.py && echo 1 > /logs/verifier/reward.txt \
         || echo 0 > /logs/verifier/reward.txt",
    );
    let config = WorkspaceConfig::default();
    let check = async |patch: &[u8], solved: bool, applied: bool| {
        let verdict = task.verify(patch, &config).await.unwrap();
        assert_eq!((verdict.solved, verdict.applied), (solved, applied), "{}", verdict.output);
    };
    let good = b"--- a/code.py\n+++ b/code.py\n@@ -1 +1 @@\n-value = 1\n+value = 2\n";
    check(b"", false, true).await;
    check(good, true, true).await;
    check(b"", false, true).await;
    check(b"no patch", false, false).await;
    check(&good[..good.len() - 1], false, false).await;
    // A file that a patch puts where the reward goes is a file of the workspace.
    check(b"--- /dev/null\n+++ b/logs/verifier/reward.json\n@@ -0,0 +1 @@\n+1\n", false, true).await;
    check(b"--- /dev/null\n+++ b/../logs/verifier/reward.json\n@@ -0,0 +1 @@\n+1\n", false, false).await;
}

#[tokio::test]
async fn episodes_of_one_task_can_be_judged_at_once() {
    let task = Arc::new(Task::load(&data("tasks/add")).unwrap());
    let Some(Reference::Patch(patch)) = task.reference().unwrap() else { panic!("add has a patch") };
    let mut set = tokio::task::JoinSet::new();
    for at in 0..6 {
        let (task, patch) = (task.clone(), if at % 2 == 0 { patch.clone() } else { Vec::new() });
        set.spawn(
            async move { (at, task.verify(&patch, &WorkspaceConfig::default()).await.unwrap().solved) },
        );
    }
    while let Some(done) = set.join_next().await {
        let (at, solved) = done.unwrap();
        assert_eq!(solved, at % 2 == 0);
    }
}

#[tokio::test]
async fn validation_tells_fit_from_unfit() {
    let config = WorkspaceConfig::default();
    let mut seen = 0;
    let mut report = validate_folder(&data("broken-tasks"), 1, &config, |_| seen += 1).await.unwrap();
    let fit = validate_folder(&data("tasks"), 2, &config, |_| seen += 1).await.unwrap();
    assert!(fit.is_fit() && !report.is_fit(), "{fit}");
    assert_eq!(seen, 6);
    report.tasks.extend(fit.tasks);
    for task in &mut report.tasks {
        task.seconds = 0.5;
        task.trouble = task.trouble.take().map(|text| text.replace(&data("").display().to_string(), ""));
    }
    expect![[r#"
        task                    difficulty  reference   empty  seconds  verdict
        bad-toml                -                 0/0     0/0     0.50  NOT FIT
        tandem/empty-passes     easy              1/1     1/1     0.50  NOT FIT
        no-tests                -                 0/0     0/0     0.50  NOT FIT
        tandem/reference-fails  easy              0/1     0/0     0.50  NOT FIT
        tandem/add              easy              2/2     0/2     0.50  fit
        greet                   medium            2/2     0/2     0.50  fit

        6 tasks, 2 fit, 4 not fit

        bad-toml: `broken-tasks/bad-toml/task.toml` is not a task file: TOML parse error at line 2, column 6
          |
        2 | [task
          |      ^
        unclosed table, expected `]`
        help: see Harbor's task format, schema 1.4

        tandem/empty-passes: the empty patch is solved
        help: add a test that fails on the files as they are

        no-tests: task folder `broken-tasks/no-tests` has no `tests/test.sh`
        help: write a script that leaves 1 or 0 in `/logs/verifier/reward.txt`

        tandem/reference-fails: the reference patch is not solved (reward 0)
        help: the tests' output ends with:
        Traceback (most recent call last):
          File "/tests/test_hidden.py", line 7, in <module>
            assert add(2, 3) == int(os.environ["EXPECTED"]), add(2, 3)
                   ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
        AssertionError: 1

        note (1 of 6 tasks): `RUN` in the Dockerfile (line 2) is not used"#]]
    .assert_eq(&report.to_string());
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["tasks"][0]["task"], "bad-toml");
}
