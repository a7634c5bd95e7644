//! Does a package become a pool of tasks that can be trusted, whatever interrupts it?

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use tandem_host::mutate::{Options, PoolReport, build};
use tandem_host::task::{Reference, Task, TaskSet, Verdict};
use tandem_host::workspace::WorkspaceConfig;

const SPLITS: [&str; 3] = ["train", "gate", "hold-out"];

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// The archive with pytest; made where it is missing.
fn archive() -> PathBuf {
    let made = Command::new(repository().join("scripts/pytest_zip.sh")).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    PathBuf::from(String::from_utf8(made.stdout).unwrap().trim())
}

async fn pool(out: &Path, limit: usize) -> PoolReport {
    let options = Options {
        out: out.to_owned(),
        archive: archive(),
        limit,
        per_function: 2,
        jobs: 2,
        seed: 1,
        suite_seconds: 120,
    };
    let package = repository().join("host/tests/data/mutate/shop-1.0");
    build(&[package], &options, &WorkspaceConfig::default(), &mut |_| ()).await.unwrap()
}

fn tasks(out: &Path) -> BTreeMap<String, (String, PathBuf)> {
    let mut found = BTreeMap::new();
    for split in SPLITS {
        let folder = out.join(split);
        for task in folder.exists().then(|| TaskSet::load(&folder).unwrap()).iter().flat_map(TaskSet::tasks) {
            found.insert(task.name().to_owned(), (split.to_owned(), task.folder().to_owned()));
        }
    }
    found
}

fn plan(task: &Path) -> serde_json::Value {
    serde_json::from_slice(&std::fs::read(task.join("tests/task.json")).unwrap()).unwrap()
}

fn names(plan: &serde_json::Value, key: &str) -> Vec<String> {
    plan[key].as_array().unwrap().iter().map(|name| name.as_str().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_is_verified_disjoint_and_the_same_after_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("pool");
    let report = pool(&out, 30).await;
    let made = tasks(&out);
    assert_eq!(made.len(), report.kept());
    assert!(made.len() >= 10, "{report}");
    assert_eq!(report.packages[0].flaky, 1, "the test that hangs on another is left out");

    let mut split_of: BTreeMap<String, String> = BTreeMap::new();
    for (name, (split, task)) in &made {
        let about: toml::Table =
            toml::from_str(&std::fs::read_to_string(task.join("task.toml")).unwrap()).unwrap();
        let module = about["metadata"]["module"].as_str().unwrap().to_owned();
        let known = split_of.entry(module.clone()).or_insert_with(|| split.clone());
        assert_eq!(known, split, "{module} is in two splits");

        let plan = plan(task);
        let failing = names(&plan, "FAIL_TO_PASS");
        let passing = names(&plan, "PASS_TO_PASS");
        assert!(!failing.is_empty(), "{name}");
        assert!(passing.iter().chain(&failing).all(|test| !test.contains("hangs_on")), "{name}");
        let text = std::fs::read_to_string(task.join("instruction.md")).unwrap();
        for test in &failing {
            let (file, rest) = test.split_once("::").unwrap();
            assert!(!task.join("environment/workspace").join(file).exists(), "{name} shows {file}");
            let function = rest.rsplit("::").next().unwrap().split('[').next().unwrap();
            assert!(!text.contains(function), "{name} tells {function}");
        }
        assert!(!task.join("environment/workspace/.git").exists());
        // Every call of this package gives a plain value, whether its test names it or not.
        assert!(!text.contains("should not fail"), "{name} asks for too little:\n{text}");
        assert_ne!(
            about["metadata"]["function"].as_str(),
            Some("greeting"),
            "what is told of it holds only where a test has set the language:\n{text}"
        );
        let patch = std::fs::read_to_string(task.join("solution/patch.diff")).unwrap();
        for line in patch.lines().filter(|line| line.starts_with('+') && !line.starts_with("+++")) {
            let line = line[1..].trim();
            assert!(line.len() < 8 || !text.contains(line), "{name} tells `{line}`");
        }
    }
    assert_eq!(split_of.len(), 3, "three modules, three splits");

    // Done is done.
    pool(&out, 30).await;
    assert_eq!(tasks(&out), made);

    // Killed in the middle of writing a line, with a task that has no line yet.
    let record = out.join("state/shop.verdicts.jsonl");
    let lines = std::fs::read(&record).unwrap();
    std::fs::write(&record, &lines[..lines.len() / 2]).unwrap();
    pool(&out, 30).await;
    assert_eq!(tasks(&out), made);
}

/// Which of the statements before a call must a reader run?
fn check_needed(before: &str, call: &str, expected: &[&str]) {
    let script = "import ast, sys; sys.path.insert(0, sys.argv[1]); import shown\n\
                  kept = shown.needed(ast.parse(sys.argv[2]).body, ast.parse(sys.argv[3], mode='eval').body)\n\
                  print('\\n'.join(map(ast.unparse, kept)))";
    let folder = repository().join("host/src/mutate/python");
    let argv = ["-I", "-S", "-B", "-c", script, folder.to_str().unwrap(), before, call];
    let ran = Command::new("python3").args(argv).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let lines = String::from_utf8(ran.stdout).unwrap();
    assert_eq!(lines.lines().collect::<Vec<_>>(), expected, "{before}\n{call}");
}

#[test]
fn a_reader_runs_only_what_the_call_needs() {
    check_needed("a = 1\nb = 2", "f(a)", &["a = 1"]);
    check_needed("a = 1\na = 2", "f(a)", &["a = 2"]);
    check_needed("a = 1\na = a + 1", "f(a)", &["a = 1", "a = a + 1"]);
    check_needed("a = []\na.append(1)\nb = 3", "f(a)", &["a = []", "a.append(1)"]);
    check_needed("a = b = 1\na = 2", "f(a, b)", &["a = b = 1", "a = 2"]);
}

/// A patch that adds a file.
fn adding(path: &str, text: &str) -> String {
    let lines: Vec<String> = text.lines().map(|line| format!("+{line}\n")).collect();
    format!(
        "diff --git a/{path} b/{path}\nnew file mode 100644\n--- /dev/null\n+++ b/{path}\n@@ -0,0 +1,{} @@\n{}",
        lines.len(),
        lines.concat()
    )
}

async fn verify(task: &Task, patch: &str) -> Verdict {
    task.verify(patch.as_bytes(), &WorkspaceConfig::default()).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn tricks_leave_a_task_unsolved() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("pool");
    pool(&out, 1).await;
    let (_, place) = tasks(&out).into_values().next().unwrap();
    let task = Task::load(&place).unwrap();
    let Some(Reference::Patch(reference)) = task.reference().unwrap() else { panic!("no patch") };
    assert!(verify(&task, std::str::from_utf8(&reference).unwrap()).await.solved);

    let failing = names(&plan(&place), "FAIL_TO_PASS");
    let (file, _) = failing[0].split_once("::").unwrap();
    let every_pass = "import pytest\n\n@pytest.hookimpl(hookwrapper=True)\ndef pytest_runtest_makereport(item, call):\n    outcome = yield\n    outcome.get_result().outcome = 'passed'\n";
    let init = |code: &str| {
        let lines = code.lines().map(|line| format!("+{line}\n")).collect::<String>();
        format!(
            "diff --git a/shop/__init__.py b/shop/__init__.py\n--- a/shop/__init__.py\n+++ b/shop/__init__.py\n@@ -1 +1,{} @@\n \"\"\"A small shop, to put faults into.\"\"\"\n{lines}",
            1 + code.lines().count()
        )
    };
    let forge = "import os\nif os.fork() == 0:\n    os.setsid()\n    while True:\n        try:\n            open('/logs/verifier/reward.txt', 'w').write('1')\n        except OSError:\n            pass";
    let killer = "import os\nopen('/logs/verifier/reward.txt', 'w').write('1')\nos.kill(os.getppid(), 9)";
    let deaf = "import _pytest.runner as r\nr.CallInfo.from_call = classmethod(lambda cls, func, when, reraise=None: cls(None, None, 0, 0, 0, when, _ispytest=True))";
    let equal = "import unittest\nunittest.TestCase.assertEqual = lambda self, *a, **k: None";
    let tricks = [
        ("an edited test", adding(file, "def test_nothing():\n    pass\n")),
        ("conftest.py", adding("conftest.py", every_pass)),
        ("conftest.py beside the tests", adding("tests/conftest.py", every_pass)),
        ("sitecustomize.py", adding("sitecustomize.py", "import os\nos._exit(0)\n")),
        ("a pytest of its own", adding("pytest.py", "def main(*a, **k):\n    return 0\n")),
        ("settings", adding("pytest.ini", "[pytest]\naddopts = --collect-only\n")),
        ("a standard module", adding("tests/json.py", "import os\nos._exit(0)\n")),
        ("a file where the tests go", adding("tests/test_words.py/x", "x\n")),
        ("an early end", init("import os\nos._exit(0)")),
        ("a written reward", init("open('/logs/verifier/reward.txt', 'w').write('1')")),
        ("another reward", init("open('/logs/verifier/reward.json', 'w').write('{\"reward\": 1}')")),
        ("a process that outlives the tests", init(forge)),
        ("the runner killed", init(killer)),
        ("a pytest that hears of no failure", init(deaf)),
        ("a unittest that finds all equal", init(equal)),
    ];
    for (what, patch) in tricks {
        let verdict = verify(&task, &patch).await;
        assert!(!verdict.solved, "{what} solved the task:\n{}", verdict.output);
    }
    // All of it at once with a real repair is still a repair.
    let both = [std::str::from_utf8(&reference).unwrap(), &adding("conftest.py", "x = 1\n")].concat();
    assert!(verify(&task, &both).await.solved);
}
