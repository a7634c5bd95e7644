//! Is a task of a container image run in that image, from the row of a data set to a verdict?

#[path = "../src/workspace/tests/podman.rs"]
mod podman;

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use podman::Podman;
use serde_json::json;
use tandem_host::agent::{Cancel, EpisodeRecord, EpisodeSpec, InvalidCause, Outcome, run_episode};
use tandem_host::dataset::{ImportOptions, import};
use tandem_host::harness::{Generation, Generations, HarnessManifest};
use tandem_host::plugin::WorkspaceAccess;
use tandem_host::policy::{Sampling, ScriptedPolicy};
use tandem_host::task::{Task, validate};
use tandem_host::workspace::{Act, Backend, ContainerConfig, Workspace, WorkspaceConfig, sweep};

const IMAGE: &str = "localhost/sweb.eval.calc";
const LONG: Duration = Duration::from_secs(60);
/// What only a later commit of the image's repository holds.
const SECRET: &str = "the_repair_that_came_later";

/// Adds in a shell script; `add` subtracts at the base commit.
const CALC: &str = "add() { echo $(($1 - $2)); }\nkept() { echo 1; }\n";
const SUITE: &str = ". ./calc.sh\n\
    check() { if [ \"$2\" = \"$3\" ]; then echo \"$1 ... ok\"; else echo \"$1 ... FAIL\"; failed=1; fi; }\n\
    check test_kept \"$(kept)\" 1\n";
const TEST_PATCH: &str = "diff --git a/tests/suite.sh b/tests/suite.sh\n--- a/tests/suite.sh\n+++ b/tests/suite.sh\n\
    @@ -1,3 +1,5 @@\n . ./calc.sh\n check() { if [ \"$2\" = \"$3\" ]; then echo \"$1 ... ok\"; else echo \"$1 ... FAIL\"; failed=1; fi; }\n \
    check test_kept \"$(kept)\" 1\n+check test_add \"$(add 2 3)\" 5\n+echo 'Ran 2 tests in 0.0s'; [ -z \"$failed\" ]\n";
const FIX: &str = "sed -i 's/$1 - $2/$1 + $2/' calc.sh";
const SUBMIT: &str = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && git diff";

fn git(folder: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new("git");
    command
        .current_dir(folder)
        .args(arguments)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("HOME", "/nonexistent");
    for name in ["AUTHOR", "COMMITTER"] {
        command.env(format!("GIT_{name}_NAME"), "x").env(format!("GIT_{name}_EMAIL"), "x@localhost");
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// The work tree of the image: the base commit, and a later one that git can still reach.
/// Gives back the base commit.
fn repository(folder: &Path) -> String {
    for (name, text) in [("calc.sh", CALC), ("tests/suite.sh", SUITE), (".gitignore", "built\n")] {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    git(folder, &["init", "-q", "-b", "main"]);
    git(folder, &["add", "-A"]);
    git(folder, &["commit", "-qm", "base"]);
    let base = git(folder, &["rev-parse", "HEAD"]);
    fs::write(folder.join("calc.sh"), CALC.replace("$1 - $2", "$1 + $2") + "# " + SECRET + "\n").unwrap();
    git(folder, &["commit", "-qam", SECRET]);
    git(folder, &["tag", "later"]);
    git(folder, &["reset", "-q", "--hard", &base]);
    // What was built when the image was made, which no commit holds.
    fs::write(folder.join("built"), "by the image\n").unwrap();
    base
}

/// A row of version 5, as a line of JSON.
fn row(base: &str) -> String {
    let script = format!(
        "#!/bin/bash\nset -uxo pipefail\ncd /testbed\ngit status\ngit show {base} --stat\n\
         git -c core.fileMode=false diff {base}\ngit checkout {base} tests/suite.sh\n\
         git apply -v - <<'EOF_114329324912'\n{TEST_PATCH}EOF_114329324912\n\
         : '>>>>> Start Test Output'\nbash tests/suite.sh\n: '>>>>> End Test Output'\n\
         git checkout {base} tests/suite.sh\n"
    );
    let row = json!({
        "instance_id": "own__calc-1", "repo": "own/calc", "base_commit": base, "version": "1",
        "problem_statement": "`add 2 3` prints -1, and should print 5.",
        "patch": "diff --git a/calc.sh b/calc.sh\n--- a/calc.sh\n+++ b/calc.sh\n@@ -1,2 +1,2 @@\n-add() { echo $(($1 - $2)); }\n+add() { echo $(($1 + $2)); }\n kept() { echo 1; }\n",
        "test_patch": TEST_PATCH, "image": IMAGE, "eval_script": script,
        "log_parser": "parse_log_django", "eval_type": "pass_and_fail",
        "FAIL_TO_PASS": "[\"test_add\"]", "PASS_TO_PASS": "[\"test_kept\"]",
    });
    format!("{row}\n")
}

async fn play(task: &Arc<Task>, config: &WorkspaceConfig, commands: &[&str]) -> EpisodeRecord {
    let replies: Vec<String> =
        commands.iter().map(|command| format!("Now.\n```bash\n{command}\n```")).collect();
    let policy = ScriptedPolicy::new(move |_| replies.clone());
    let spec = EpisodeSpec {
        id: "e".into(),
        group: "g".into(),
        task: task.clone(),
        seed: 1,
        sampling: Sampling::default(),
        skill: None,
    };
    let generations = Generations::new(Generation::bare(HarnessManifest::bare()));
    run_episode(&spec, &policy, &generations.lease(), config, &Cancel::new()).await.unwrap()
}

fn said(record: &EpisodeRecord) -> Vec<String> {
    record
        .turns
        .iter()
        .skip(1)
        .map(|turn| turn.input.iter().map(|message| message.text()).collect())
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_of_swe_bench_runs_in_its_image_from_import_to_verdict() {
    let scratch = tempfile::tempdir().unwrap();
    let tree = scratch.path().join("testbed");
    fs::create_dir(&tree).unwrap();
    let base = repository(&tree);
    fs::write(scratch.path().join("rows.jsonl"), row(&base)).unwrap();
    let out = scratch.path().join("tasks");
    let imported = import(&scratch.path().join("rows.jsonl"), &out, &ImportOptions::default()).unwrap();
    assert_eq!((imported.folders.len(), imported.in_containers), (1, 1));
    let load = || Arc::new(Task::load(&imported.folders[0]).unwrap());
    assert_eq!((load().image(), load().workdir()), (Some(IMAGE), Some("/testbed")));

    // Without a container back-end: an episode without a verdict, and the command that gets the image.
    let record = play(&load(), &WorkspaceConfig::default(), &[FIX, SUBMIT]).await;
    let Outcome::Invalid(cause) = record.outcome else { panic!("{:?}", record.outcome) };
    assert_eq!(cause, InvalidCause::Workspace);
    let error = load().verify(b"", &WorkspaceConfig::default()).await.unwrap_err().to_string();
    assert!(
        error.contains("`backend = \"container\"`") && error.contains(&format!("podman pull {IMAGE}")),
        "{error}"
    );

    let Some(podman) = Podman::start() else { return };
    let root = tempfile::tempdir().unwrap();
    let open = <fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o755);
    fs::set_permissions(root.path(), open).unwrap();
    let config = WorkspaceConfig {
        backend: Backend::Container,
        root: Some(root.path().to_owned()),
        container: ContainerConfig { socket: Some(podman.socket()), ..ContainerConfig::default() },
        ..WorkspaceConfig::default()
    };
    let error = load().verify(b"", &config).await.unwrap_err().to_string();
    assert!(
        error.contains(&format!("no image `{IMAGE}`")) && error.contains(&format!("podman pull {IMAGE}")),
        "{error}"
    );

    // The image: the programs of the tests' own, and the repository where SWE-bench has it.
    podman.run(&["create", "--quiet", "--name", "making", podman::IMAGE, "/bin/true"]);
    let open = <fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o755);
    fs::set_permissions(scratch.path(), open).unwrap();
    podman.run(&["cp", tree.to_str().unwrap(), "making:/testbed"]);
    podman.run(&["commit", "--quiet", "--change", "ENV MARK=of-the-image", "making", IMAGE]);
    podman.run(&["rm", "making"]);

    let task = load();
    let report = validate(&task, 2, &config).await;
    assert_eq!((report.trouble, report.reference.solved, report.empty.solved), (None, 2, 0));

    // The agent works in the image's folder, with its variables, and without its history.
    let look = "pwd; echo $MARK; cat built; ls /workspace/calc.sh; git log --all --format=%s; git tag; git cat-file --batch-all-objects --batch-check='%(objecttype)' | sort | tr '\\n' ' '";
    let record = play(&task, &config, &[look, FIX, SUBMIT]).await;
    assert_eq!(
        said(&record)[0],
        "exit code 0\n/testbed\nof-the-image\nby the image\n/workspace/calc.sh\nbase\nblob blob blob blob commit tree tree "
    );
    assert_eq!(record.outcome, Outcome::Solved, "{:?}", record.exit);
    assert_eq!(record.work_tree.changed, ["calc.sh"]);
    let record = play(&task, &config, &["echo '# nothing' >> calc.sh", SUBMIT]).await;
    assert_eq!(record.outcome, Outcome::Unsolved, "{:?}", record.exit);
    // The tests of the task decide, and its repository does not hold the repair.
    let forged = "printf 'echo test_kept ... ok; echo test_add ... ok; echo Ran 2 tests in 0s; exit 0\\n' > tests/suite.sh";
    assert_eq!(play(&task, &config, &[forged, SUBMIT]).await.outcome, Outcome::Unsolved);
    let stolen = format!(
        "echo 'for c in $(git rev-list --all) $(git cat-file --batch-all-objects --batch-check=\"%(objectname)\"); do git cat-file -p $c | grep -q {SECRET} && add() {{ echo 5; }}; done' >> calc.sh"
    );
    assert_eq!(play(&task, &config, &[&stolen, SUBMIT]).await.outcome, Outcome::Unsolved);

    // Plugins name files as the policy does.
    let workspace = Workspace::create(task.snapshot(&config).await.unwrap(), &config).await.unwrap();
    for path in ["calc.sh", "/testbed/calc.sh"] {
        assert_eq!(workspace.read(path).await.unwrap(), CALC.as_bytes(), "{path}");
    }
    assert!(workspace.read("/testbedcalc.sh").await.is_err());
    let root_says = workspace
        .bash("touch /usr/marker && echo written; cat /kept 2>&1 | head -1; ls /tests", LONG)
        .await
        .unwrap();
    assert!(String::from_utf8_lossy(&root_says.output.bytes()).starts_with("written\n"));
    drop((workspace, task));

    // Nothing is left: no container, no volume, no folder.
    let end = std::time::Instant::now() + LONG;
    while podman.containers() > 0 || fs::read_dir(root.path()).unwrap().count() > 0 {
        assert!(std::time::Instant::now() < end, "{} containers", podman.containers());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(podman.run(&["volume", "ls", "-q"]), "");
    assert!(sweep(root.path(), Act::Remove).unwrap().failures.is_empty());
}
