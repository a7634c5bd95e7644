//! Does anything outlive its owner?

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Instant;

use super::*;

/// Set for the process that holds workspaces until it is killed.
const HOLD_ROOT: &str = "TANDEM_TEST_HOLD_ROOT";

/// Not a test of its own: holds workspaces with running commands until it is killed.
#[tokio::test]
#[ignore = "the process that other tests kill"]
async fn holder() {
    let Some(root) = std::env::var_os(HOLD_ROOT) else { return };
    let mut running = Vec::new();
    let mut held = Vec::new();
    for (at, files) in [Files::Copy, Files::Overlay].into_iter().enumerate() {
        let config = WorkspaceConfig { root: Some(root.clone().into()), files, ..WorkspaceConfig::default() };
        let workspace = Arc::new(workspace_over(&config, write_files).await);
        let own = workspace.clone();
        running.push(tokio::spawn(async move {
            let script = format!("setsid sleep 54{at}21 & mkdir -p shut/in; chmod 0 shut; sleep 54{at}21");
            own.bash(&script, Duration::from_secs(300)).await
        }));
        held.push((workspace, Folder::empty(&config).unwrap()));
    }
    while processes_with("sleep\x0054021") + processes_with("sleep\x0054121") < 4 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    println!("\nholding");
    futures_util::future::join_all(running).await;
}

/// Starts the holder and returns when its commands run.
fn start_holder(root: &Path) -> std::process::Child {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "workspace::tests::leases::holder", "--ignored", "--nocapture"])
        .env(HOLD_ROOT, root)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.map_while(Result::ok).any(|line| line == "holding"));
    child
}

fn wait_until(what: &str, done: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !done() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Sessions, groups and mounts that mention a root.
fn traces(root: &Path) -> Vec<String> {
    let mut found: Vec<_> =
        fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path().display().to_string()).collect();
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    found.extend(mounts.lines().filter(|line| line.contains(root.to_str().unwrap())).map(str::to_owned));
    found
}

#[test]
fn a_killed_owner_leaves_nothing_after_a_sweep() {
    let (root, _) = own_root();
    let mut holder = start_holder(root.path());
    let living = sweep(root.path(), Act::Remove).unwrap();
    assert!(living.is_empty(), "{living}");
    assert_eq!(living.living.len(), 1);
    assert_eq!(living.living[0].process.pid, holder.id());

    // SIGKILL: it can tidy up nothing.
    holder.kill().unwrap();
    holder.wait().unwrap();
    let told = sweep(root.path(), Act::Tell).unwrap();
    assert_eq!(told.sessions.len(), 1, "{told:?}");
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), 1);
    let groups = held_groups(root.path());

    // Between fork and exec, a child of another test's thread holds every descriptor of this process, the lock that
    // the look before took among them.
    let mut swept = sweep(root.path(), Act::Remove).unwrap();
    let end = Instant::now() + Duration::from_secs(5);
    while !swept.living.is_empty() && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(20));
        swept = sweep(root.path(), Act::Remove).unwrap();
    }
    assert_eq!((swept.sessions.len(), swept.failures.len()), (1, 0), "{swept:?}");
    assert_eq!(traces(root.path()), Vec::<String>::new());
    for group in groups {
        assert!(!group.exists(), "{}", group.display());
    }
    wait_until("the commands still run", || {
        processes_with("sleep\x0054021") + processes_with("sleep\x0054121") == 0
    });
    wait_until("a keeper still runs", || processes_with(root.path().to_str().unwrap()) == 0);
    assert!(sweep(root.path(), Act::Remove).unwrap().is_empty());
}

/// The control groups that records of a root name.
fn held_groups(root: &Path) -> Vec<PathBuf> {
    let session = fs::read_dir(root).unwrap().next().unwrap().unwrap().path();
    let records = fs::read_dir(session.join("held")).unwrap();
    let texts = records.map(|entry| fs::read_to_string(entry.unwrap().path()).unwrap());
    let read = texts.map(|text| serde_json::from_str::<serde_json::Value>(&text).unwrap());
    let paths = read.flat_map(|value| value["held"]["paths"].as_array().cloned().unwrap_or_default());
    paths.map(|path| path.as_str().unwrap().into()).collect()
}

#[tokio::test]
async fn the_next_start_sweeps_what_a_killed_owner_left() {
    let (root, config) = own_root();
    let mut holder = start_holder(root.path());
    holder.kill().unwrap();
    holder.wait().unwrap();
    let left = fs::read_dir(root.path()).unwrap().next().unwrap().unwrap().path();
    let workspace = workspace_over(&config, write_files).await;
    assert!(!left.exists());
    drop(workspace);
    assert_eq!(traces(root.path()), Vec::<String>::new());
}

#[tokio::test]
async fn a_lease_that_ran_out_is_taken_from_a_living_owner() {
    let (root, config) = own_root();
    let config = WorkspaceConfig { lease_hours: 0, ..config };
    let workspace = workspace_over(&config, write_files).await;
    std::thread::sleep(Duration::from_millis(1_100));
    let swept = sweep(root.path(), Act::Remove).unwrap();
    assert!(swept.expired.len() >= 2, "{swept:?}");
    assert_eq!((swept.sessions.len(), swept.living.len()), (0, 1));
    assert!(workspace.bash("true", LONG).await.is_err());
    let (other_root, config) = own_root();
    let workspace = workspace_over(&config, write_files).await;
    assert!(sweep(other_root.path(), Act::Remove).unwrap().is_empty());
    assert_eq!(run(&workspace, "echo here").await.1, "here\n");
}

#[test]
fn strangers_folders_are_left_alone() {
    let (root, _) = own_root();
    let held = root.path().join("tandem-x/held");
    fs::create_dir_all(&held).unwrap();
    fs::create_dir(root.path().join("tandem-notes")).unwrap();
    fs::create_dir(root.path().join(".tandem-new-y")).unwrap();
    // No lock file: not a session.
    assert!(sweep(root.path(), Act::Remove).unwrap().is_empty());
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), 3);
    // A record that leads out of its session removes nothing there.
    fs::write(root.path().join("tandem-x/lock"), "").unwrap();
    fs::create_dir(root.path().join("precious")).unwrap();
    fs::write(held.join("1.json"), r#"{"held":{"kind":"folder","name":"../precious"},"until":0}"#).unwrap();
    let swept = sweep(root.path(), Act::Remove).unwrap();
    assert_eq!(swept.failures, ["`../precious` is no folder of a session"]);
    assert!(root.path().join("precious").exists());
    assert!(!root.path().join("tandem-x").exists());
}

#[tokio::test]
async fn a_full_disk_pauses_new_workspaces_and_says_both_numbers() {
    let (_root, config) = own_root();
    let full = WorkspaceConfig { min_free_bytes: u64::MAX / 2, free_wait_seconds: 0, ..config.clone() };
    let folder = tempfile::tempdir().unwrap();
    let error = Snapshot::take(folder.path(), &full).await.unwrap_err();
    let Error::DiskFull { free, needed, .. } = error else { panic!("{error}") };
    assert!(free > 0 && needed == u64::MAX / 2);
    assert!(error.to_string().contains(&format!("{free} bytes free and {needed} are needed")), "{error}");
    assert!(!error.is_caused_by_agent());

    // It goes on as soon as there is room.
    let snapshot = Arc::new(Snapshot::take(folder.path(), &config).await.unwrap());
    let waiting = WorkspaceConfig { free_wait_seconds: 3600, ..full };
    let paused = Workspace::create(snapshot.clone(), &waiting);
    assert!(tokio::time::timeout(Duration::from_millis(300), paused).await.is_err());
    Workspace::create(snapshot, &config).await.unwrap();
}
