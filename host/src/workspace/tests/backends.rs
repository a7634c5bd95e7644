//! Do all back-ends keep the same promises? One suite, run over each.

use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::Instant;

use super::podman::{self, Podman};
use super::*;

fn config_of(podman: &Podman) -> WorkspaceConfig {
    WorkspaceConfig {
        backend: Backend::Container,
        container: ContainerConfig {
            image: podman::IMAGE.into(),
            socket: Some(podman.socket()),
            writable_root: false,
        },
        // What the image's engine cannot cap here is not asked for.
        ..WorkspaceConfig::default()
    }
}

/// What every back-end must do.
async fn suite(config: &WorkspaceConfig) {
    let name = format!("{:?} {:?}", config.backend, config.files);
    let (root, own) = own_root();
    let mut config = WorkspaceConfig { root: own.root, ..config.clone() };
    (config.sandbox.output_head, config.sandbox.output_tail) = (100, 100);
    let workspace = workspace_over(&config, write_files).await;

    // Commands: exit codes, output in order, a fresh shell over the same files.
    let check = async |script: &str, code: Option<i32>, expected: &str| {
        assert_eq!(run(&workspace, script).await, (code, expected.to_owned()), "{name}: {script}");
    };
    check("echo a; echo b >&2; echo c; exit 3", Some(3), "a\nb\nc\n").await;
    check("kill -9 $$", Some(137), "").await;
    check("cd app; X=1; echo kept > ../note", Some(0), "").await;
    check("cat note; echo \"$X\"; ls app", Some(0), "kept\n\nmain.py\nold.py\n").await;
    check("echo x > \"$HOME/h\"; cat \"$HOME/h\"; rm note", Some(0), "x\n").await;
    assert!(matches!(workspace.bash("a\0b", LONG).await, Err(Error::BadCommand { .. })), "{name}");

    // Output is bytes, with head and tail.
    let output = workspace.bash("printf '\\377\\0'; seq 20000; printf '\\376'", LONG).await.unwrap().output;
    let bytes = output.bytes();
    assert!(bytes.starts_with(b"\xff\x001\n2\n") && bytes.ends_with(b"20000\n\xfe"), "{name}");
    assert_eq!(output.total(), 108_897, "{name}");

    // A deadline and an end both take the whole group with them.
    let script = "setsid sleep 88881 & sleep 88881 & echo started; sleep 88881";
    let output = workspace.bash(script, Duration::from_millis(1_500)).await.unwrap();
    assert_eq!((output.exit_code, output.output.bytes()), (None, b"started\n".to_vec()), "{name}");
    gone("sleep\x0088881", &name).await;
    check("setsid sleep 88882 & echo done", Some(0), "done\n").await;
    gone("sleep\x0088882", &name).await;
    // So does dropping the call.
    let dropped = workspace.bash("setsid sleep 88883 & sleep 88883", LONG);
    assert!(tokio::time::timeout(Duration::from_millis(1_000), dropped).await.is_err(), "{name}");
    gone("sleep\x0088883", &name).await;
    check("echo on", Some(0), "on\n").await;

    // Files of plugins, and the patch.
    use crate::plugin::WorkspaceAccess;
    workspace.write("deep/new.txt", b"by a plugin\n").await.unwrap();
    check("cat deep/new.txt; echo more >> deep/new.txt; echo x > deep/y", Some(0), "by a plugin\n").await;
    assert_eq!(workspace.read("deep/new.txt").await.unwrap(), b"by a plugin\nmore\n", "{name}");
    check("rm app/old.py; printf 'caf\\351' > latin.txt; chmod +x crlf.txt; ln -s nowhere link", Some(0), "")
        .await;
    let extracted = workspace.extract().await.unwrap();
    assert_eq!(extracted.work_tree.changed, ["app/old.py", "crlf.txt", "latin.txt"], "{name}");
    assert_eq!(extracted.work_tree.untracked, ["deep/new.txt", "deep/y", "link"], "{name}");
    let fresh =
        Workspace::patched(workspace.snapshot(), &config, &extracted.patch, Vec::new()).await.unwrap();
    assert_eq!(contents(fresh.host_tree()), contents(workspace.host_tree()), "{name}");

    // Nothing is left.
    drop((workspace, fresh));
    let end = Instant::now() + Duration::from_secs(20);
    while fs::read_dir(root.path()).unwrap().count() > 0 {
        assert!(Instant::now() < end, "{name}: something is left");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Waits until no process of that command line is there.
async fn gone(mark: &str, name: &str) {
    let end = Instant::now() + Duration::from_secs(10);
    while processes_with(mark) > 0 {
        assert!(Instant::now() < end, "{name}: {mark:?} still runs");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_back_end_keeps_the_same_promises() {
    for files in [Files::Copy, Files::Overlay] {
        suite(&WorkspaceConfig { files, ..WorkspaceConfig::default() }).await;
    }
    allow_host_backend();
    suite(&WorkspaceConfig { backend: Backend::Host, ..WorkspaceConfig::default() }).await;
    if let Some(podman) = Podman::start() {
        suite(&config_of(&podman)).await;
        assert_eq!(podman.containers(), 0);
        containers_of_a_killed_owner_go(&podman).await;
        an_image_that_is_missing_is_named(&podman).await;
    }
}

/// As if the owner had been killed: its record is there, and its lock is not held.
async fn containers_of_a_killed_owner_go(podman: &Podman) {
    let (root, own) = own_root();
    let config = WorkspaceConfig { root: own.root, ..config_of(podman) };
    let mut holder = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "workspace::tests::backends::container_holder", "--ignored", "--nocapture"])
        .env("TANDEM_TEST_CONFIG", serde_json::to_string(&config).unwrap())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let end = Instant::now() + Duration::from_secs(60);
    while processes_with("sleep\x0088884") == 0 {
        assert!(Instant::now() < end && holder.try_wait().unwrap().is_none(), "the holder does not hold");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    holder.kill().unwrap();
    holder.wait().unwrap();
    assert_eq!(podman.containers(), 1);
    let swept = sweep(root.path(), Act::Remove).unwrap();
    assert_eq!((swept.containers.len(), swept.failures.len()), (1, 0), "{swept:?}");
    assert_eq!(podman.containers(), 0);
    gone("sleep\x0088884", "a killed owner").await;
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0);
}

/// Not a test of its own: holds a container until it is killed.
#[tokio::test]
#[ignore = "the process that another test kills"]
async fn container_holder() {
    let Ok(config) = std::env::var("TANDEM_TEST_CONFIG") else { return };
    let workspace = workspace_over(&serde_json::from_str(&config).unwrap(), write_files).await;
    workspace.bash("setsid sleep 88884 & sleep 88884", Duration::from_secs(300)).await.unwrap();
}

async fn an_image_that_is_missing_is_named(podman: &Podman) {
    let mut config = config_of(podman);
    config.container.image = "localhost/none".into();
    let folder = tempfile::tempdir().unwrap();
    let snapshot = Arc::new(Snapshot::take(folder.path(), &config).await.unwrap());
    let error = Workspace::create(snapshot, &config).await.unwrap_err().to_string();
    assert!(error.starts_with("the container engine has no image `localhost/none`\nhelp: "), "{error}");
}

#[tokio::test]
async fn the_host_back_end_shows_no_mounts_and_says_so() {
    static ONCE: OnceLock<()> = OnceLock::new();
    ONCE.get_or_init(allow_host_backend);
    let config = WorkspaceConfig { backend: Backend::Host, ..WorkspaceConfig::default() };
    let folder = tempfile::tempdir().unwrap();
    let snapshot = Arc::new(Snapshot::take(folder.path(), &config).await.unwrap());
    let mounts = vec![Mount::read_only(folder.path(), "/tests")];
    let error = Workspace::create_with(snapshot, &config, mounts).await.unwrap_err().to_string();
    assert!(error.starts_with("without a sandbox `/tests` cannot be shown"), "{error}");
}

/// `nohup tandem train … &` is how runs are started, and Python leaves an ignored signal ignored.
#[test]
fn a_run_under_nohup_does_not_judge_otherwise_than_one_in_a_terminal() {
    let program = std::env::current_exe().unwrap();
    let output = Command::new("sh")
        .args(["-c", "trap '' HUP INT QUIT TERM; \"$0\" \"$@\"; kill -HUP $$; echo ignored"])
        .arg(program)
        .args(["--exact", "workspace::tests::backends::under_nohup", "--ignored", "--nocapture"])
        .output()
        .unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(stdout.contains("1 passed") && stdout.ends_with("ignored\n"), "{stdout}");
}

/// Not a test of its own: runs where signals are ignored.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "what another test starts"]
async fn under_nohup() {
    allow_host_backend();
    for backend in [Backend::Bubblewrap, Backend::Host] {
        let (_root, mut config) = own_root();
        config.backend = backend;
        let workspace = workspace_over(&config, write_files).await;
        for (signal, code) in [("HUP", 129), ("INT", 130), ("QUIT", 131), ("TERM", 143)] {
            let script = format!("python3 -c 'import os, signal; os.kill(os.getpid(), signal.SIG{signal})'");
            let expected = if signal == "INT" { "KeyboardInterrupt\n" } else { "" };
            let (found, output) = run(&workspace, &script).await;
            assert_eq!(found, Some(code), "{backend:?} {signal}: {output}");
            assert!(output.ends_with(expected), "{backend:?} {signal}: {output}");
            // SAFETY: asks this process, which goes on.
            unsafe { libc::raise(i32::from(u8::try_from(code - 128).unwrap())) };
        }
    }
}
