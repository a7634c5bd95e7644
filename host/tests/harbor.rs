//! Do Harbor and this host read the same task folders? Asked of Harbor's own models, where
//! they are in the cache (`scripts/agent_packages.sh`).

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use tandem_host::dataset::{ImportOptions, import};
use tandem_host::task::{Task, TaskSet, validate_folder};
use tandem_host::workspace::WorkspaceConfig;

/// Reads folders, or writes `task.toml` files from what it is told.
const HARBOR: &str = "
import json, sys, typing, warnings
sys.path[:0] = sys.argv[1:3]
import typing_extensions
typing.override = typing_extensions.override
warnings.simplefilter('ignore')
from harbor.models.task.config import TaskConfig
from harbor.models.task.task import Task
out = []
for said in json.loads(sys.argv[3]):
    if 'read' in said:
        try:
            task = Task(said['read'])
            steps = [step.name for step in task.config.steps or []]
            texts = [task.step_instruction(name) for name in steps] or [task.instruction]
            out.append({'name': task.name, 'steps': steps, 'texts': [text.strip() for text in texts]})
        except Exception as error:
            out.append({'error': str(error)})
    else:
        out.append(TaskConfig.model_validate(said['write']).model_dump_toml())
print(json.dumps(out))
";

fn ask(said: &Value) -> Option<Vec<Value>> {
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or_else(home)?.join("tandem");
    let folders = [cache.join("harbor-0.25.0"), cache.join("harbor-tasks-0.25.0")];
    if let Some(missing) = folders.iter().find(|folder| !folder.is_dir()) {
        eprintln!("left out: {} is not there; `scripts/agent_packages.sh` puts it there", missing.display());
        return None;
    }
    let output = Command::new("python3")
        .args(["-c", HARBOR])
        .args(&folders)
        .arg(said.to_string())
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

fn write(folder: &Path, files: &[(&str, &str)]) {
    for (path, text) in files {
        let path = folder.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
}

/// Every folder is read by both, as the same tasks.
fn check_folders(folders: &[PathBuf]) {
    let said: Vec<Value> = folders.iter().map(|folder| json!({ "read": folder })).collect();
    let Some(read) = ask(&json!(said)) else { return };
    for (folder, theirs) in folders.iter().zip(read) {
        assert_eq!(theirs.get("error"), None, "{}", folder.display());
        let ours = Task::load_all(folder).unwrap_or_else(|error| panic!("{error}"));
        let steps: Vec<&str> = ours.iter().filter_map(Task::step).collect();
        let texts: Vec<&str> = ours.iter().map(Task::instruction).collect();
        assert_eq!((json!(steps), json!(texts)), (theirs["steps"].clone(), theirs["texts"].clone()));
        assert!(ours[0].name().starts_with(theirs["name"].as_str().unwrap()), "{}", ours[0].name());
    }
}

#[test]
fn harbor_reads_the_example_tasks() {
    let set = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/tasks/first-steps");
    let folders: Vec<PathBuf> = fs::read_dir(set).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(folders.len() > 30);
    check_folders(&folders);
}

#[test]
fn harbor_reads_what_is_imported() {
    let scratch = tempfile::tempdir().unwrap();
    let rows = [
        json!({
            "instance_id": "own__calc-1", "repo": "own/calc", "base_commit": "b", "version": "1",
            "problem_statement": "It subtracts.", "patch": "", "test_patch": "", "image": "own/calc",
            "eval_script": "true", "log_parser": "parse_log_pytest", "eval_type": "pass_and_fail",
            "FAIL_TO_PASS": ["a"], "PASS_TO_PASS": [],
        }),
        json!({
            "task_id": "Python/3", "import": "", "declaration": "def f(x):\n", "buggy_solution": "    return x\n",
            "canonical_solution": "    return x + 1\n", "test_setup": "", "test": "assert f(1) == 2\n",
            "entry_point": "f", "docstring": "One more.", "bug_type": "missing logic",
        }),
    ];
    let mut folders = Vec::new();
    for (number, row) in rows.iter().enumerate() {
        let file = scratch.path().join(format!("{number}.jsonl"));
        fs::write(&file, format!("{row}\n")).unwrap();
        let imported = import(&file, &scratch.path().join(number.to_string()), &ImportOptions::default());
        folders.extend(imported.unwrap().folders);
    }
    assert_eq!(folders.len(), 2);
    check_folders(&folders);
}

#[test]
fn what_harbor_writes_is_read() {
    let configs = [
        json!({}),
        json!({
            "task": {"name": "org/single", "description": "d", "authors": [{"name": "A"}], "keywords": ["k"]},
            "metadata": {"difficulty": "hard"}, "agent": {"timeout_sec": 12.5, "user": "root"},
            "verifier": {"timeout_sec": 7, "env": {"A": "${B:-c}"}, "environment_mode": "separate"},
            "environment": {"cpus": 2, "memory_mb": 512, "network_mode": "allowlist", "allowed_hosts": ["*.example.com"],
                "env": {"X": "1"}, "workdir": "/app", "healthcheck": {"command": "true"}},
            "solution": {"env": {"S": "1"}},
            "artifacts": [{"source": "/app/out"}, {"source": "/var/log/app.log", "destination": "app.log"}],
        }),
        json!({
            "task": {"name": "org/steps"}, "multi_step_reward_strategy": "final",
            "steps": [
                {"name": "one", "agent": {"timeout_sec": 5}, "min_reward": 0.5, "artifacts": ["/workspace/a"]},
                {"name": "two", "verifier": {"timeout_sec": 9}, "min_reward": {"reward": 1, "style": 0.5}},
            ],
        }),
    ];
    let said: Vec<Value> = configs.iter().map(|config| json!({ "write": config })).collect();
    let Some(written) = ask(&json!(said)) else { return };
    let scratch = tempfile::tempdir().unwrap();
    let tasks = |number: usize| {
        let folder = scratch.path().join(number.to_string());
        let text = written[number].as_str().unwrap();
        write(
            &folder,
            &[("task.toml", text), ("environment/workspace/x", "x\n"), ("tests/test.sh", "true\n")],
        );
        for part in ["", "steps/one/", "steps/two/"] {
            write(
                &folder,
                &[(&format!("{part}instruction.md"), "# canary 1234\n<!-- canary -->\n\nDo it.\n")],
            );
        }
        Task::load_all(&folder).unwrap_or_else(|error| panic!("{error}"))
    };
    let plain = &tasks(0)[0];
    assert_eq!((plain.name(), plain.instruction(), plain.verifier_seconds()), ("0", "Do it.", 600.0));
    assert_eq!(plain.agent_timeout(), None);
    let full = &tasks(1)[0];
    assert_eq!((full.name(), full.difficulty(), full.verifier_seconds()), ("org/single", Some("hard"), 7.0));
    assert_eq!(full.agent_timeout(), Some(Duration::from_millis(12_500)));
    let notes = full.notes().join("\n");
    for part in
        ["`/var/log/app.log`", "allowlist", "`/app`", "[environment.env]", "healthcheck", "separate", "`A`"]
    {
        assert!(notes.contains(part), "{part}: {notes}");
    }
    assert!(!notes.contains("/app/out"), "{notes}");
    let steps = tasks(2);
    let shown: Vec<_> =
        steps.iter().map(|task| (task.name(), task.step(), task.verifier_seconds())).collect();
    assert_eq!(shown, [("org/steps/one", Some("one"), 600.0), ("org/steps/two", Some("two"), 9.0)]);
    assert_eq!(steps[0].agent_timeout(), Some(Duration::from_secs(5)));
}

/// Two steps: the second starts from the reference of the first, and has files of its own.
fn two_steps(folder: &Path) {
    write(
        folder,
        &[
            (
                "task.toml",
                "[task]\nname = \"org/two\"\n[verifier]\ntimeout_sec = 20\n[[steps]]\nname = \"first\"\nmin_reward = 0.5\n\
                 [[steps]]\nname = \"second\"\n",
            ),
            ("environment/workspace/base.txt", "base\n"),
            ("tests/check.sh", "want() { [ \"$(cat \"$1\" 2>/dev/null)\" = \"$2\" ]; }\n"),
            ("steps/first/instruction.md", "Write one.\n"),
            (
                "steps/first/tests/test.sh",
                ". /tests/check.sh\nif want one.txt 1; then echo 0.5; else echo 0; fi > /logs/verifier/reward.txt\n",
            ),
            ("steps/first/solution/solve.sh", "echo 1 > one.txt\n"),
            ("steps/second/instruction.md", "Write two.\n"),
            (
                "steps/second/tests/test.sh",
                ". /tests/check.sh\nif want two.txt 2 && want one.txt 1 && want brought.txt b && want made.txt m; then echo '{\"reward\": 1}'; \
                 else echo '{\"reward\": 0}'; fi > /logs/verifier/reward.json\n",
            ),
            ("steps/second/workdir/brought.txt", "b\n"),
            ("steps/second/workdir/setup.sh", "echo m > made.txt\n"),
            ("steps/second/solution/patch.diff", "--- /dev/null\n+++ b/two.txt\n@@ -0,0 +1 @@\n+2\n"),
        ],
    );
}

#[tokio::test]
async fn each_step_of_a_task_is_judged_from_where_the_step_before_it_ends() {
    let scratch = tempfile::tempdir().unwrap();
    two_steps(&scratch.path().join("two"));
    let set = TaskSet::load(scratch.path()).unwrap();
    let names: Vec<_> = set.tasks().iter().map(|task| task.name()).collect();
    assert_eq!(names, ["org/two/first", "org/two/second"]);
    assert_ne!(set.tasks()[0].fingerprint().unwrap(), set.tasks()[1].fingerprint().unwrap());
    let config = WorkspaceConfig::default();
    let report = validate_folder(scratch.path(), 1, &config, |_| {}).await.unwrap();
    assert!(report.is_fit(), "{report}");
    // A reward of a half is enough where a step says so.
    let one =
        set.tasks()[0].verify(b"--- /dev/null\n+++ b/one.txt\n@@ -0,0 +1 @@\n+1\n", &config).await.unwrap();
    assert_eq!((one.solved, one.reward), (true, 0.5));
    check_folders(&[scratch.path().join("two")]);
    // A step whose forerunner has no solution has nothing to start from.
    fs::remove_dir_all(scratch.path().join("two/steps/first/solution")).unwrap();
    let set = TaskSet::load(scratch.path()).unwrap();
    let error = set.tasks()[1].snapshot(&config).await.unwrap_err().to_string();
    assert!(error.contains("has no solution, and this step starts from it"), "{error}");
    assert!(set.tasks()[0].snapshot(&config).await.is_ok());
}
