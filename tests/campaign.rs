//! A campaign end to end, on the real policy: killed ten times and resumed, it
//! loses no episode and counts none twice.

mod program;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use program::{Program, root, weights_are_here};

/// Small enough for a test, with every phase in it.
fn campaign(folder: &Path) -> std::path::PathBuf {
    let examples = root().join("examples");
    let text = format!(
        r#"
name = "test"
seed = 3
rounds = 1
[policy]
base = "smollm2-135m"
adapter = "{adapter}"
slots = 8
context = 900
lora = {{ rank = 8, alpha = 16.0, first_layer = 28 }}
[tasks]
train = "{tasks}"
[harness]
manifest = "{harness}"
[rollout]
group_size = 2
groups = 4
concurrency = 8
sampling = {{ max_tokens = 48 }}
[evolve]
min_tasks = 1
candidates = 1
[evolve.gate]
tasks = 2
batch = 1
group_size = 1
[update]
learning_rate = 1e-4
micro_batch_tokens = 1024
max_tokens = 1500
steps = 2
kl.coefficient = 0.01
[evaluation]
episodes = 1
tasks = 2
"#,
        adapter = examples.join("quickstart/adapter").display(),
        tasks = examples.join("tasks/first-steps").display(),
        harness = examples.join("quickstart/harness.toml").display(),
    );
    let path = folder.join("campaign.toml");
    std::fs::write(&path, text).unwrap();
    path
}

/// Episode id to record digest, as an outsider reads them.
fn episodes(run: &Path) -> BTreeMap<String, String> {
    let path = run.join("run.sqlite");
    if !path.exists() {
        return BTreeMap::new();
    }
    let connection = rusqlite::Connection::open(path).unwrap();
    let Ok(mut statement) = connection.prepare("SELECT id, record FROM episode") else {
        return BTreeMap::new();
    };
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    rows.collect::<Result<_, _>>().unwrap()
}

/// The published harnesses, as an outsider reads them in the record.
fn publications(run: &Path) -> Vec<String> {
    let connection = rusqlite::Connection::open(run.join("run.sqlite")).unwrap();
    let mut statement = connection.prepare("SELECT digest FROM publication ORDER BY seq").unwrap();
    let rows = statement.query_map([], |row| row.get(0)).unwrap();
    rows.collect::<Result<_, _>>().unwrap()
}

/// The published harnesses, as `tandem harness log` says.
fn ledger(run: &Path) -> Vec<String> {
    let arguments = ["harness".into(), "log".into(), "--json".into(), "--home".into(), path(run)];
    let output = Program::new(&arguments).run();
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    let entry = |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap();
    output.stdout.lines().map(|line| entry(line)["harness"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_campaign_killed_ten_times_loses_no_episode_and_counts_none_twice() {
    if !weights_are_here() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let campaign = campaign(folder.path());
    let run = folder.path().join("run");
    let mut seen = BTreeMap::new();
    // Moments from the first second to well into the campaign, spread by a fixed rule.
    for kill in 0..10u64 {
        let mut arguments = vec!["train".to_owned(), path(&campaign), "--run".into(), path(&run)];
        if run.join("campaign.json").exists() {
            arguments.push("--resume".into());
        }
        let mut child = Program::new(&arguments).spawn();
        let wait = Duration::from_millis(300 + 1_700 * ((kill * 7) % 10));
        let finished = child.wait_at_most(wait);
        child.kill();
        let now = episodes(&run);
        for (id, record) in &seen {
            assert_eq!(now.get(id), Some(record), "episode {id} was lost or changed by kill {kill}");
        }
        seen = now;
        // The ledger is whole after every kill.
        if run.join("ledger").exists() {
            ledger(&run);
        }
        if finished {
            break;
        }
    }
    let mut arguments = vec!["train".to_owned(), path(&campaign), "--run".into(), path(&run)];
    if run.join("campaign.json").exists() {
        arguments.push("--resume".into());
    }
    let output = Program::new(&arguments).run();
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    let last = episodes(&run);
    for (id, record) in &seen {
        assert_eq!(last.get(id), Some(record), "episode {id} was lost or changed");
    }
    // Four groups of two: each exactly once, whatever was killed.
    let collected = last.keys().filter(|id| id.starts_with("r1/collect/")).count();
    assert_eq!(collected, 8);
    for id in last.keys().filter(|id| id.starts_with("evaluate/")) {
        assert!(id.ends_with("/0"), "{id}");
    }
    assert_eq!(Program::new(&["pair".into(), "verify".into(), path(&run.join("pair"))]).run().code, Some(0));
    // The ledger has what the record published, each once, in order.
    let published = publications(&run);
    assert!(!published.is_empty());
    assert_eq!(ledger(&run), published);
    let report = Program::new(&["report".into(), path(&run)]).run();
    for part in ["Training episodes", "Gate ledger", "Policy updates", "Final table"] {
        assert!(report.stdout.contains(part), "the report lacks `{part}`:\n{}", report.stdout);
    }
    let report = Program::new(&["report".into(), path(&run), "--json".into()]).run();
    let report: serde_json::Value = serde_json::from_str(&report.stdout).unwrap();
    let updates = report["updates"].as_array().unwrap().iter();
    let steps: usize = updates.map(|update| update["steps"].as_array().unwrap().len()).sum();
    assert_eq!(steps_in_events(&run), steps);
}

/// How many steps the newest event file of a run tells the KL of.
fn steps_in_events(run: &Path) -> usize {
    let files = std::fs::read_dir(run.join("tensorboard")).unwrap();
    let newest = files.map(|entry| entry.unwrap().path()).max().unwrap();
    std::fs::read(newest).unwrap().windows(8).filter(|window| window == b"train/kl").count()
}

/// A disk of 3 MiB that is really full when the first checkpoint is due, and larger afterwards.
#[test]
fn a_full_disk_ends_a_campaign_that_goes_on_when_there_is_room() {
    if !weights_are_here() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let campaign = campaign(folder.path());
    let disk = folder.path().join("disk");
    std::fs::create_dir(&disk).unwrap();
    // The disk is seen in this name space alone, so all that needs it happens there.
    let script = r#"
        mount -t tmpfs -o size=3m tmpfs "$DISK" || exit 90
        "$TANDEM" train "$CAMPAIGN" --run "$DISK/run" 2>"$OUT/full"
        [ $? = 1 ] || exit 91
        mount -o remount,size=1g "$DISK" || exit 92
        "$TANDEM" train "$CAMPAIGN" --run "$DISK/run" --resume 2>"$OUT/again" || exit 93
        cp "$DISK/run/run.sqlite" "$OUT/run.sqlite"
        "$TANDEM" pair verify "$DISK/run/pair" || exit 94
    "#;
    let status = std::process::Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "sh", "-c", script])
        .env("TANDEM", env!("CARGO_BIN_EXE_tandem"))
        .env("CAMPAIGN", &campaign)
        .env("DISK", &disk)
        .env("OUT", folder.path())
        .status()
        .unwrap();
    let said = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap_or_default();
    assert!(status.success(), "{status}\n{}\n{}", said("full"), said("again"));
    let full = said("full");
    assert!(full.contains("help: the disk is full") && !full.contains("path is right"), "{full}");
    let collected = episodes(folder.path()).keys().filter(|id| id.starts_with("r1/collect/")).count();
    assert_eq!(collected, 8, "four groups of two, each once");
}

#[test]
fn ctrl_c_ends_with_130_and_says_how_to_go_on() {
    if !weights_are_here() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let campaign = campaign(folder.path());
    let run = folder.path().join("run");
    let mut child = Program::new(&["train".into(), path(&campaign), "--run".into(), path(&run)]).spawn();
    child.wait_at_most(Duration::from_secs(8));
    child.interrupt();
    let output = child.output();
    assert_eq!(output.code, Some(130), "{}", output.stderr);
    assert!(output.stderr.contains("--resume"), "{}", output.stderr);
    // The folder is free again: nothing holds the lock.
    let again = Program::new(&["report".into(), path(&run)]).run();
    assert_eq!(again.code, Some(0), "{}", again.stderr);
}

fn path(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
