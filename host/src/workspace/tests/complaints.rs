//! Faults that users of other sandboxes and harnesses reported. Each test is named
//! after the report that it answers.

use std::time::Instant;

use super::*;

async fn plain() -> Workspace {
    workspace_over(&WorkspaceConfig::default(), write_files).await
}

async fn patch_of(script: &str) -> (Workspace, Extracted) {
    let workspace = plain().await;
    let (code, output) = run(&workspace, script).await;
    assert_eq!(code, Some(0), "{script}: {output}");
    let extracted = workspace.extract().await.unwrap();
    assert!(workspace.applies(&extracted.patch).await.unwrap(), "{script}");
    (workspace, extracted)
}

// Deadlines, zombies, leaks.

/// The deadline fired, and nothing killed the processes in the container.
#[tokio::test]
async fn stella_1078_and_2198_a_deadline_ends_what_runs() {
    let workspace = plain().await;
    let script =
        "(setsid nohup sleep 31078 >/dev/null 2>&1 &); (trap '' TERM INT HUP; sleep 31078); sleep 31078";
    let output = workspace.bash(script, Duration::from_millis(400)).await.unwrap();
    assert_eq!(output.exit_code, None);
    assert_eq!(processes_with("sleep\x0031078"), 0);
}

/// Only the direct child was killed, and its grandchildren lived on.
#[tokio::test]
async fn mini_swe_agent_only_the_direct_child_was_killed() {
    let workspace = plain().await;
    let script = "python3 -c 'import subprocess; subprocess.run(\"sleep 31036 & sleep 31036\", shell=True)'";
    assert_eq!(workspace.bash(script, Duration::from_millis(600)).await.unwrap().exit_code, None);
    assert_eq!(processes_with("sleep\x0031036"), 0);
}

/// `kill -TERM` with the process number of another namespace, without waiting.
#[tokio::test]
async fn swebench_a_test_run_that_survives_its_time_limit_writes_no_report() {
    let workspace = plain().await;
    let script = "trap '' TERM; (sleep 1; echo late > report) & sleep 30";
    assert_eq!(workspace.bash(script, Duration::from_millis(300)).await.unwrap().exit_code, None);
    tokio::time::sleep(Duration::from_millis(1_200)).await;
    assert_eq!(run(&workspace, "ls report 2>/dev/null; echo").await.1, "\n");
}

/// Killing the wrapper orphaned the tests.
#[tokio::test]
async fn hud_python_516_the_end_of_the_shell_ends_its_children() {
    let workspace = plain().await;
    let output = workspace.bash("sleep 31516 & disown; kill -9 $$", LONG).await.unwrap();
    assert_eq!(output.exit_code, Some(137));
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(processes_with("sleep\x0031516"), 0);
}

/// A sandbox sat silent for two hours; nothing watched for output.
#[tokio::test]
async fn qwen_code_8816_and_swe_rex_9_silence_ends_a_command() {
    let mut config = WorkspaceConfig::default();
    config.sandbox.silent_seconds = Some(1);
    let workspace = workspace_over(&config, write_files).await;
    let start = Instant::now();
    let (code, output) = run(&workspace, "echo one; sleep 0.5; echo two; sleep 31816").await;
    assert_eq!((code, output.as_str()), (None, "one\ntwo\n\n[stopped: no output for 1 seconds]\n"));
    assert!(start.elapsed() < LONG);
    assert_eq!(processes_with("sleep\x0031816"), 0);
    // Output keeps it going.
    assert_eq!(run(&workspace, "for i in 1 2 3 4 5; do sleep 0.4; echo $i; done").await.0, Some(0));
}

/// Commands were bounded only where the image ships `timeout`.
#[tokio::test]
async fn openenv_1018_a_time_limit_needs_no_program_of_the_task() {
    let workspace = plain().await;
    let output =
        workspace.bash("PATH=/nowhere; while :; do :; done", Duration::from_millis(300)).await.unwrap();
    assert_eq!(output.exit_code, None);
}

/// A time-out covered the agent, and not the start of its sandbox.
#[tokio::test]
async fn openenv_1036_the_start_of_a_workspace_has_a_time_limit() {
    let folder = tempfile::tempdir().unwrap();
    // An engine that takes calls and never answers.
    let socket = folder.path().join("socket");
    let _engine = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let config = WorkspaceConfig {
        backend: Backend::Container,
        container: ContainerConfig { socket: Some(socket), ..ContainerConfig::default() },
        start_seconds: 1,
        ..WorkspaceConfig::default()
    };
    let files = tempfile::tempdir().unwrap();
    let snapshot = Arc::new(Snapshot::take(files.path(), &config).await.unwrap());
    let error = Workspace::create(snapshot, &config).await.unwrap_err();
    assert!(error.to_string().starts_with("a workspace did not start in 1 seconds"), "{error}");
    assert!(!error.is_caused_by_agent());
}

/// Too many sandboxes in the starting state were the commonest failure.
#[tokio::test]
async fn uni_agent_47_many_starts_at_once_all_come_through() {
    let folder = tempfile::tempdir().unwrap();
    write_files(folder.path());
    let config = WorkspaceConfig::default();
    let snapshot = Arc::new(Snapshot::take(folder.path(), &config).await.unwrap());
    let starts = (0..48).map(|_| async {
        let workspace = Workspace::create(snapshot.clone(), &config).await.unwrap();
        run(&workspace, "cat app/old.py").await
    });
    for (code, output) in futures_util::future::join_all(starts).await {
        assert_eq!((code, output.as_str()), (Some(0), "gone = True\n"));
    }
}

/// Cleaning up only on the way of success left folders behind.
#[tokio::test]
async fn kuberay_4911_and_mini_swe_agent_797_a_failed_start_leaves_nothing() {
    let (root, config) = own_root();
    let folder = tempfile::tempdir().unwrap();
    let snapshot = Arc::new(Snapshot::take(folder.path(), &config).await.unwrap());
    let error = Workspace::patched(snapshot.clone(), &config, b"no patch\n", Vec::new()).await;
    assert!(matches!(error, Err(Error::DoesNotApply { .. })));
    drop((error, snapshot));
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0);
}

// Patches.

/// Edits inside a submodule were missing from the patch.
#[tokio::test]
async fn mini_swe_agent_736_edits_in_a_submodule_of_the_task_are_in_the_patch() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir_all(folder.path().join("lib")).unwrap();
    fs::write(folder.path().join("lib/.git"), "gitdir: ../.git/modules/lib\n").unwrap();
    fs::write(folder.path().join("lib/code.py"), "x = 1\n").unwrap();
    let config = WorkspaceConfig::default();
    let snapshot = Arc::new(Snapshot::take(folder.path(), &config).await.unwrap());
    let workspace = Workspace::create(snapshot, &config).await.unwrap();
    run(&workspace, "sed -i s/1/2/ lib/code.py; cd lib; git init -q; git add -A; git commit -qm x").await;
    assert_eq!(workspace.extract().await.unwrap().work_tree.changed, ["lib/code.py"]);
}

/// The last newline was lost, and the patch "ends in the middle of a line".
#[tokio::test]
async fn mini_swe_agent_410_nemo_skills_778_and_swebench_345_the_final_newline_is_kept() {
    let (_, extracted) = patch_of("sed -i 's/1/2/' app/main.py").await;
    assert!(extracted.patch.ends_with(b"\n"));
    let (workspace, extracted) = patch_of("printf 'x' >> no_newline.txt").await;
    assert!(extracted.patch.ends_with(b"\\ No newline at end of file\n"));
    let cut = &extracted.patch[..extracted.patch.len() - 1];
    assert!(workspace.candidate(crate::harness::PatchSource::Submitted, cut).await.is_ok());
}

/// Carriage returns were added or removed on the way.
#[tokio::test]
async fn swe_agent_702_and_swebench_652_carriage_returns_stay() {
    let (_, extracted) = patch_of("sed -i 's/two/2/' crlf.txt; sed -i 's/1/2/' app/main.py").await;
    let count = |needle: &[u8]| extracted.patch.windows(needle.len()).filter(|part| *part == needle).count();
    assert_eq!((count(b"-two\r\n"), count(b"+2\r\n"), count(b"+    return 2\n")), (1, 1, 1));
}

/// One binary file made the whole patch void.
#[tokio::test]
async fn swe_bench_pro_74_a_binary_file_does_not_void_the_patch() {
    let script = "cp /bin/true built; printf 'REDIS0009\\0\\377' > dump.rdb; sed -i 's/1/2/' app/main.py";
    let (workspace, extracted) = patch_of(script).await;
    assert!(String::from_utf8_lossy(&extracted.patch).contains("GIT binary patch"));
    let config = WorkspaceConfig::default();
    let fresh =
        Workspace::patched(workspace.snapshot(), &config, &extracted.patch, Vec::new()).await.unwrap();
    assert_eq!(run(&fresh, "cmp built /bin/true && grep -c 'return 2' app/main.py").await.1, "1\n");
}

/// Caches and compiled files were swept into the patch.
#[tokio::test]
async fn mini_swe_agent_636_and_705_caches_are_no_part_of_a_patch() {
    let script = "cd app; PYTHONDONTWRITEBYTECODE= python3 -c 'import main'; test -d __pycache__; \
                  mkdir -p ../.pytest_cache/v ../.mypy_cache/3; touch ../.pytest_cache/v/x ../.mypy_cache/3/y; echo n > new.py";
    let (_, extracted) = patch_of(script).await;
    assert_eq!(
        (extracted.work_tree.changed.len(), extracted.work_tree.untracked),
        (0, vec!["app/new.py".into()])
    );
}

/// A plain `git diff` misses new files, and the remedy disturbed the index.
#[tokio::test]
async fn sztu_code_34_new_files_are_in_the_patch_and_the_index_is_not_touched() {
    let workspace = plain().await;
    run(&workspace, "echo x > new.py; echo y >> app/main.py; git add app/main.py; git status").await;
    let before = run(&workspace, "sha256sum .git/index; git status --porcelain").await;
    assert_eq!(workspace.extract().await.unwrap().work_tree.untracked, ["new.py"]);
    assert_eq!(run(&workspace, "sha256sum .git/index; git status --porcelain").await, before);
}

/// Generated files with other line ends made patches that do not apply.
#[tokio::test]
async fn openhands_10087_copies_with_other_line_ends_apply() {
    patch_of("mkdir -p build/lib; sed 's/$/\\r/' app/main.py > build/lib/main.py; sed 's/\\r$//' crlf.txt > build/lib/crlf.txt").await;
}

/// "No patch" after a run that did the work: staged, committed, or on another branch.
#[tokio::test]
async fn swe_agent_717_and_841_work_is_found_wherever_git_put_it() {
    for script in [
        "echo x >> app/main.py; git add -A",
        "echo x >> app/main.py; git commit -qam x",
        "git checkout -qb fix; echo x >> app/main.py; git commit -qam x; git branch -qf main fix",
        "echo x >> app/main.py; git update-index --assume-unchanged app/main.py",
        "echo x >> app/main.py; git update-index --skip-worktree app/main.py",
        "git config diff.noprefix true; git config diff.mnemonicPrefix true; echo x >> app/main.py",
        "git config core.worktree /tmp; echo x >> app/main.py",
    ] {
        let (_, extracted) = patch_of(script).await;
        assert_eq!(extracted.work_tree.changed, ["app/main.py"], "{script}");
        assert!(String::from_utf8_lossy(&extracted.patch).contains("--- a/app/main.py\n+++ b/app/main.py\n"));
    }
}

/// Decoding as UTF-8 changed Latin-1 files.
#[tokio::test]
async fn latin_1_hunks_are_bytes() {
    let (_, extracted) = patch_of("printf 'na\\357ve\\n' >> latin.txt").await;
    assert!(extracted.patch.windows(7).any(|part| part == b"+na\xefve\n"));
}
