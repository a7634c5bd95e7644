//! Does an attack on the verifier ever count as a solved task? Each is played by a script in
//! a real workspace, as a policy would; its patch is judged in another.

mod attacks;
mod history;

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use futures_util::{StreamExt, stream};
use tandem_host::agent::{Cancel, EpisodeSpec, Outcome, run_episode};
use tandem_host::harness::{Generation, Generations, HarnessManifest};
use tandem_host::policy::{Sampling, ScriptedPolicy};
use tandem_host::swebench::{EvalType, Expected, record_exit_code};
use tandem_host::task::{Apply, Grading, Rule, Task};
use tandem_host::workspace::{Workspace, WorkspaceConfig};

use attacks::{ATTACKS, Attack, CANNOT_BE_TOLD, On, PATCHES};

/// Attacks that are played at once.
const AT_ONCE: usize = 4;
const LONG: Duration = Duration::from_secs(60);

const CALC: &str = "def kept():\n    return 1\n\n\ndef add(left, right):\n    return left - right\n";
/// What solves each of the tasks.
const FIX: &str = "sed -i 's/left - right/left + right/' calc.py";
/// The tests that decide.
const TESTS: &str = "import unittest\n\nimport calc\n\n\nclass CalcTests(unittest.TestCase):\n    \
    def test_kept(self):\n        self.assertEqual(calc.kept(), 1)\n\n    \
    def test_add(self):\n        self.assertEqual(calc.add(2, 3), 5)\n";
/// The tests in the work tree before the patch of tests is applied.
const OLD_TESTS: &str = "import unittest\n\nimport calc\n\n\nclass CalcTests(unittest.TestCase):\n    \
    def test_kept(self):\n        self.assertEqual(calc.kept(), 1)\n";
const TEST_PATCH: &str = "diff --git a/tests/test_calc.py b/tests/test_calc.py\n--- a/tests/test_calc.py\n\
    +++ b/tests/test_calc.py\n@@ -6,3 +6,6 @@\n class CalcTests(unittest.TestCase):\n     \
    def test_kept(self):\n         self.assertEqual(calc.kept(), 1)\n+\n+    \
    def test_add(self):\n+        self.assertEqual(calc.add(2, 3), 5)\n";

/// A task whose tests are run by the program of our own example tasks, which leaves a reward.
static REWARD: LazyLock<(tempfile::TempDir, Arc<Task>)> = LazyLock::new(|| {
    let example = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../examples/tasks/first-steps/even-numbers/tests/test.sh");
    let script = fs::read_to_string(example).unwrap();
    write_task(&[("tests/test.sh", script.as_bytes()), ("tests/test_hidden.py", TESTS.as_bytes())])
});

/// As SWE-bench grades with pytest: a script over the work tree, and its log.
static PYTEST: LazyLock<(tempfile::TempDir, Arc<Task>)> = LazyLock::new(|| {
    let made = Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/pytest_zip.sh"))
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let archive = fs::read(String::from_utf8(made.stdout).unwrap().trim()).unwrap();
    let run = "PYTHONPATH=/tests/pytest.zip python3 -m pytest -rA tests/test_calc.py";
    let name = |test: &str| format!("tests/test_calc.py::CalcTests::{test}");
    let script = eval_script(run);
    let grading = grading("parse_log_pytest", name);
    write_task(&[
        ("tests/test.sh", script.as_bytes()),
        ("tests/pytest.zip", &archive),
        ("tests/grading.json", grading.as_bytes()),
        ("environment/workspace/tests/test_calc.py", OLD_TESTS.as_bytes()),
    ])
});

/// As SWE-bench grades Django: unittest prints the log.
static UNITTEST: LazyLock<(tempfile::TempDir, Arc<Task>)> = LazyLock::new(|| {
    let script = eval_script("python3 -m unittest -v tests.test_calc");
    let name = |test: &str| format!("{test} (tests.test_calc.CalcTests.{test})");
    let grading = grading("parse_log_django", name);
    write_task(&[
        ("tests/test.sh", script.as_bytes()),
        ("tests/grading.json", grading.as_bytes()),
        ("environment/workspace/tests/__init__.py", b""),
        ("environment/workspace/tests/test_calc.py", OLD_TESTS.as_bytes()),
    ])
});

/// A script as SWE-bench writes it: tests of the base commit, the patch of tests, markers.
fn eval_script(run: &str) -> String {
    record_exit_code(&format!(
        "#!/bin/bash\nset -uxo pipefail\ncd /workspace\ngit checkout HEAD -- tests/test_calc.py\n\
         git apply -v - <<'EOF_114329324912'\n{TEST_PATCH}EOF_114329324912\n\
         : '>>>>> Start Test Output'\n{run}\n: '>>>>> End Test Output'\n\
         git checkout HEAD -- tests/test_calc.py\n"
    ))
}

fn grading(parser: &str, name: impl Fn(&str) -> String) -> String {
    let expected = Expected { fail_to_pass: vec![name("test_add")], pass_to_pass: vec![name("test_kept")] };
    let rule = Rule::SwebenchLog {
        version: "1".into(),
        log_parser: parser.into(),
        eval_type: EvalType::PassAndFail,
        expected,
    };
    let grading = Grading { instance_id: "a__b-1".into(), apply: Apply::Ladder, rule };
    serde_json::to_string(&grading).unwrap()
}

fn write_task(files: &[(&str, &[u8])]) -> (tempfile::TempDir, Arc<Task>) {
    let folder = tempfile::tempdir().unwrap();
    let shared: [(&str, &[u8]); 5] = [
        ("task.toml", b"[task]\nname = \"t/calc\"\n[verifier]\ntimeout_sec = 60\n"),
        ("instruction.md", b"`add` subtracts."),
        ("environment/workspace/calc.py", CALC.as_bytes()),
        ("environment/workspace/.gitignore", b"__pycache__/\n*.log\n"),
        ("environment/workspace/README.md", b"calc\n"),
    ];
    for (path, bytes) in shared.iter().chain(files) {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
    let task = Arc::new(Task::load(folder.path()).unwrap());
    (folder, task)
}

/// The patch that a script leaves in a workspace of the task, beside what it leaves running.
async fn patch_of(task: &Task, script: &str) -> Vec<u8> {
    let config = WorkspaceConfig::default();
    let workspace = Workspace::create(task.snapshot(&config).await.unwrap(), &config).await.unwrap();
    let ran = workspace.bash(script, LONG).await.unwrap();
    let said = String::from_utf8_lossy(&ran.output.bytes()).into_owned();
    assert_eq!(ran.exit_code, Some(0), "{script}: {said}");
    workspace.extract().await.unwrap().patch
}

/// What came of a patch: solved, unsolved, or the sentence that says why there is no verdict.
async fn outcome(task: &Task, patch: &[u8]) -> (String, String) {
    match task.verify(patch, &WorkspaceConfig::default()).await {
        Ok(verdict) if verdict.solved => ("solved".into(), verdict.output),
        Ok(verdict) => ("unsolved".into(), verdict.output),
        Err(error) => (error.to_string(), String::new()),
    }
}

fn task(on: On) -> Arc<Task> {
    match on {
        On::Reward => REWARD.1.clone(),
        On::Pytest => PYTEST.1.clone(),
        On::Unittest => UNITTEST.1.clone(),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn honest_work_is_solved_and_nothing_is_not() {
    for on in [On::Reward, On::Pytest, On::Unittest] {
        let task = task(on);
        let (said, why) = outcome(&task, b"").await;
        assert_eq!(said, "unsolved", "{on:?}: {why}");
        // With an honest test beside it, which graded tasks put aside.
        let script = format!("{FIX}; mkdir -p tests; echo 'import calc' > tests/test_more.py");
        let (said, why) = outcome(&task, &patch_of(&task, &script).await).await;
        assert_eq!(said, "solved", "{on:?}: {why}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_attack_ends_unsolved() {
    let played = ATTACKS.iter().flat_map(|attack| attack.on.iter().map(move |on| (attack, *on)));
    let failed = stream::iter(played)
        .map(async |(Attack { name, script, .. }, on)| {
            let task = task(on);
            let patch = patch_of(&task, script).await;
            let (said, why) = outcome(&task, &patch).await;
            (said != "unsolved").then(|| format!("{name} on {on:?} is {said}: {why}"))
        })
        .buffer_unordered(AT_ONCE)
        .filter_map(async |failed| failed)
        .collect::<Vec<_>>()
        .await;
    assert!(failed.is_empty(), "{}", failed.join("\n\n"));
}

/// Patches that no workspace gives, handed in as text.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_written_patch_reaches_past_the_work_tree() {
    for (name, patch) in PATCHES {
        for on in [On::Reward, On::Pytest, On::Unittest] {
            let (said, why) = outcome(&task(on), patch.as_bytes()).await;
            assert_eq!(said, "unsolved", "{name} on {on:?}: {why}");
        }
    }
}

/// What code in the process of the test runner can do, said plainly: see docs/tasks.md.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_whole_forged_log_cannot_be_told_from_a_true_one() {
    for Attack { name, script, on } in CANNOT_BE_TOLD {
        for on in *on {
            let task = task(*on);
            let (said, why) = outcome(&task, &patch_of(&task, script).await).await;
            assert_eq!(said, "solved", "{name} on {on:?} is found out now: take it into ATTACKS; {why}");
        }
    }
}

/// The same through the turn loop: what a policy leaves behind is not there when its patch is judged.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_episode_of_attacks_is_unsolved() {
    let bash = |command: &str| format!("Now.\n```bash\n{command}\n```");
    let replies = vec![
        bash(
            "mkdir -p ~/.local/bin bin; for p in python3 git bash pytest sh; do printf '#!/bin/sh\\necho 1 > /logs/verifier/reward.txt\\nexit 0\\n' | tee ~/.local/bin/$p bin/$p > /dev/null; chmod +x ~/.local/bin/$p bin/$p; done; echo 'exit 0' > ~/.bashrc; cp ~/.bashrc ~/.bash_profile; cp ~/.bashrc ~/.profile",
        ),
        bash(
            "mkdir -p ~/.config/git ~/.local/lib/python3.11/site-packages; printf '[alias]\\ndiff = !true\\n[core]\\nfsmonitor = /workspace/bin/sh\\nhooksPath = /workspace/bin\\n' > ~/.gitconfig; echo 'import os; os._exit(0)' > ~/.local/lib/python3.11/site-packages/usercustomize.py",
        ),
        bash(
            "(setsid bash -c 'until cp /tests/* /tmp && echo 1 > /logs/verifier/reward.txt; do sleep 0.05; done; sleep 30; sed -i s/-/+/ /workspace/calc.py' > /dev/null 2>&1 &); echo started",
        ),
        bash("echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && git diff"),
    ];
    for on in [On::Reward, On::Pytest, On::Unittest] {
        let spec = EpisodeSpec {
            id: "e".into(),
            group: "g".into(),
            task: task(on),
            seed: 1,
            sampling: Sampling::default(),
            skill: None,
        };
        let replies = replies.clone();
        let policy = ScriptedPolicy::new(move |_| replies.clone());
        let generations = Generations::new(Generation::bare(HarnessManifest::bare()));
        let config = WorkspaceConfig::default();
        let record =
            run_episode(&spec, &policy, &generations.lease(), &config, &Cancel::new()).await.unwrap();
        assert_eq!(record.outcome, Outcome::Unsolved, "{on:?}: {:?}", record.exit);
    }
}

/// A process that outlives its command changes nothing later.
#[tokio::test]
async fn a_process_that_outlives_its_command_is_gone() {
    let config = WorkspaceConfig::default();
    let task = task(On::Reward);
    let workspace = Workspace::create(task.snapshot(&config).await.unwrap(), &config).await.unwrap();
    let script = "(setsid bash -c 'trap \"\" TERM HUP; while true; do date +%N >> later; done' > /dev/null 2>&1 &); \
                  until [ -s later ]; do :; done";
    assert_eq!(workspace.bash(script, LONG).await.unwrap().exit_code, Some(0));
    let read = async || workspace.bash("cat later", LONG).await.unwrap().output.bytes();
    let first = read().await;
    let again =
        workspace.bash("for i in $(seq 200); do wc -c < later; done | sort -u | wc -l", LONG).await.unwrap();
    assert_eq!(String::from_utf8_lossy(&again.output.bytes()).trim(), "1");
    assert_eq!(read().await, first);
}
