//! Does `tandem gc` leave nothing of a run that was killed?

mod program;

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use program::{Program, root};

/// A task whose scripted policy starts processes that would run for minutes.
fn write_task(folder: &Path) {
    let write = |name: &str, text: &str| {
        let path = folder.join("stuck").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write("task.toml", "schema_version = \"1.4\"\n");
    write("instruction.md", "Wait.\n");
    write("environment/workspace/a.txt", "a\n");
    write("tests/test.sh", "echo 0 > /logs/verifier/reward.txt\n");
    let reply = "I wait.\n\n```bash\nsetsid sleep 71717 & mkdir shut; chmod 0 shut; sleep 71717\n```";
    write("solution/demo.json", &serde_json::json!({"replies": [reply]}).to_string());
}

/// The harness of the quickstart, with commands that may take ten minutes.
fn patient_harness(folder: &Path) -> String {
    let text = fs::read_to_string(root().join("examples/quickstart/harness.toml")).unwrap();
    let patient = text.replace("command_seconds = 10", "command_seconds = 600");
    assert_ne!(text, patient);
    let path = folder.join("harness.toml");
    fs::write(&path, patient).unwrap();
    path.display().to_string()
}

fn running() -> usize {
    let lines =
        fs::read_dir("/proc").unwrap().filter_map(|entry| fs::read(entry.ok()?.path().join("cmdline")).ok());
    lines.filter(|line| line.as_slice() == b"sleep\x0071717\x00").count()
}

fn wait_until(what: &str, done: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !done() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn after_a_kill_gc_leaves_no_process_mount_group_or_folder() {
    let (tasks, spaces) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::set_permissions(spaces.path(), std::os::unix::fs::PermissionsExt::from_mode(0o711)).unwrap();
    write_task(tasks.path());
    let settings = tasks.path().join("spaces.toml");
    let text = format!("root = {:?}\nfiles = \"overlay\"\n", spaces.path().display().to_string());
    fs::write(&settings, text).unwrap();
    let harness = patient_harness(tasks.path());
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<String>>();
    let settings = settings.display().to_string();
    let tasks_folder = tasks.path().display().to_string();
    let out = tasks.path().join("out.jsonl").display().to_string();

    let run = Program::new(&words(&[
        "--workspaces",
        &settings,
        "demos",
        &tasks_folder,
        "--harness",
        &harness,
        "--out",
        &out,
    ]))
    .spawn();
    wait_until("the command never ran", || running() == 2);

    // Its owner lives: nothing of it goes.
    let gc = || Program::new(&words(&["gc", "--workspaces", &settings])).run();
    let living = gc();
    assert_eq!(living.code, Some(0), "{}", living.stderr);
    assert!(
        living.stdout.contains("nothing to remove; 1 sessions are in use\n  in use by process "),
        "{}",
        living.stdout
    );
    assert_eq!(running(), 2);

    run.kill();
    let told = Program::new(&words(&["--workspaces", &settings, "gc", "--dry-run"])).run();
    assert!(told.stdout.contains("would remove 1 sessions"), "{}", told.stdout);
    assert_eq!(fs::read_dir(spaces.path()).unwrap().count(), 1);
    let swept = gc();
    assert_eq!(swept.code, Some(0), "{} {}", swept.stdout, swept.stderr);
    assert!(
        swept.stdout.contains("removed 1 sessions") && swept.stdout.contains("caps of commands: "),
        "{}",
        swept.stdout
    );
    assert_eq!(fs::read_dir(spaces.path()).unwrap().count(), 0);
    wait_until("its commands still run", || running() == 0);
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(!mounts.contains(spaces.path().to_str().unwrap()), "{mounts}");
    let json = Program::new(&words(&["gc", "--json", "--root", &spaces.path().display().to_string()])).run();
    let json: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(json["roots"][0]["swept"]["sessions"], serde_json::json!([]));
}

#[test]
fn commands_without_a_sandbox_need_an_explicit_flag() {
    let folder = tempfile::tempdir().unwrap();
    write_task(folder.path());
    let demo = serde_json::json!({"replies": ["```bash\necho x > \"$HOME/../marker\"\n```"]});
    fs::write(folder.path().join("stuck/solution/demo.json"), demo.to_string()).unwrap();
    let settings = folder.path().join("spaces.toml");
    fs::write(&settings, "backend = \"host\"\n").unwrap();
    let run = |flag: &[&str]| {
        let harness = patient_harness(folder.path());
        let out = folder.path().join("out.jsonl").display().to_string();
        let (settings, tasks) = (settings.display().to_string(), folder.path().display().to_string());
        let words = ["--workspaces", &settings, "demos", &tasks, "--harness", &harness, "--out", &out];
        let words: Vec<String> = words.iter().chain(flag).map(|word| (*word).to_owned()).collect();
        Program::new(&words).run()
    };
    let refused = run(&[]);
    assert!(
        refused.stderr.contains("commands may not run without a sandbox\nhelp: give `--allow-host-commands`"),
        "{}",
        refused.stderr
    );
    let allowed = run(&["--allow-host-commands"]);
    assert!(allowed.stderr.contains("commands run on this host without a sandbox"), "{}", allowed.stderr);
}
