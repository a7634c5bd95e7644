//! What holds for a sandbox that stays between the commands of an agent?

use super::*;

async fn both(check: impl AsyncFn(&Workspace, &str)) {
    for resident in [true, false] {
        let (_root, mut config) = own_root();
        config.sandbox.resident = resident;
        let workspace = workspace_over(&config, write_files).await;
        check(&workspace, if resident { "resident" } else { "fresh" }).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_are_told_apart_from_the_sandbox_that_stays_by_nothing_but_their_number() {
    both(async |workspace, name| {
        let check = async |script: &str, code: Option<i32>, expected: &str| {
            assert_eq!(run(workspace, script).await, (code, expected.to_owned()), "{name}: {script}");
        };
        check("X=1; export Y=2; cd /; umask 0; ulimit -f 1; trap '' TERM", Some(0), "").await;
        check(
            "echo $X$Y; pwd; ulimit -f; trap; [ $(umask) = 0000 ] || echo own",
            Some(0),
            "\n/workspace\n262144\nown\n",
        )
        .await;
        check(
            "echo $OLDPWD; readlink /proc/self/fd/0; ls /proc/self/fd | wc -l",
            Some(0),
            "\n/dev/null\n4\n",
        )
        .await;
        check("kill -INT $$", Some(130), "").await;
        check("sleep 99991 & disown; setsid sleep 99991 & sleep 0.1", Some(0), "").await;
        let sleeping = "for p in /proc/[0-9]*; do tr '\\0' ' ' < $p/cmdline; echo; done | grep -c '^sleep'";
        check(sleeping, Some(1), "0\n").await;
        check("python3 -c 'import os; os.set_blocking(1, False)'", Some(0), "").await;
        check("head -c 300000 /dev/zero | tr '\\0' x | wc -c; echo on", Some(0), "300000\non\n").await;
        check("cat", Some(0), "").await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn descriptors_of_the_host_stay_there() {
    let secret = tempfile::NamedTempFile::new().unwrap();
    let file = fs::File::open(secret.path()).unwrap();
    let descriptor = std::os::fd::AsRawFd::as_raw_fd(&file);
    both(async |workspace, name| {
        // SAFETY: takes the flag from a descriptor of this test.
        unsafe { libc::fcntl(descriptor, libc::F_SETFD, 0) };
        let script = "for p in 1 self; do readlink /proc/$p/fd/* ; done 2>/dev/null | grep -c tmp";
        assert_eq!(run(workspace, script).await, (Some(1), "0\n".into()), "{name}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_byte_of_a_command_arrives() {
    both(async |workspace, name| {
        use std::os::unix::ffi::OsStringExt;
        let bytes: Vec<u8> = (1..=255).collect();
        let argv =
            ["printf".into(), "%s".into(), std::ffi::OsString::from_vec(bytes.clone()), String::new().into()];
        let output = workspace.run(&SandboxCommand::argv(argv, LONG)).await.unwrap();
        assert_eq!(output.output.bytes(), bytes, "{name}");
        let long = "y".repeat(100_000);
        let output = workspace.bash(&format!("printf %s {long} | wc -c"), LONG).await.unwrap();
        assert_eq!(output.output.bytes(), b"100000\n", "{name}");
        let command =
            SandboxCommand::bash("printf %s \"$A\" \"$B\"", LONG).env("A", "a'\"\n$(id)\\").env("B", "");
        assert_eq!(workspace.run(&command).await.unwrap().output.bytes(), b"a'\"\n$(id)\\", "{name}");
        for odd in ["0x", "a b", "a-b", "PPID"] {
            let command = SandboxCommand::bash("true", LONG).env(odd, "1");
            assert_eq!(workspace.run(&command).await.unwrap().exit_code, Some(0), "{name}: {odd}");
        }
        // Large output, and its last line.
        let output = workspace.bash("seq 300000", LONG).await.unwrap().output;
        assert!(output.bytes().ends_with(b"\n299999\n300000\n"), "{name}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_command_does_to_the_sandbox_ends_with_it() {
    both(async |workspace, name| {
        for attack in [
            "kill -9 1; kill -STOP 1; kill -INT 1; kill -TERM 1; kill -HUP 1",
            "kill -9 -1",
            // Answers of its own, and input that is none of its business.
            "echo '1-0 0' > /proc/1/fd/3; sleep 0.2",
            "printf 'x\\0' > /proc/1/fd/0; head -c 1 /proc/1/fd/0; exec 3>&-",
            "for i in 1 2 3; do (sleep 77771; echo late) & done",
            "chmod 0 .; cd /; rmdir /workspace; mv /workspace /gone",
            "yes > /proc/1/fd/4 & sleep 0.05",
        ] {
            let short = Duration::from_secs(5);
            let ended = workspace.bash(attack, short).await;
            assert!(ended.is_ok(), "{name}: {attack}: {ended:?}");
            let _ = workspace.run(&SandboxCommand::argv(["/bin/chmod", "755", "/workspace"], LONG)).await;
            assert_eq!(run(workspace, "echo on").await, (Some(0), "on\n".into()), "{name}: {attack}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_runs_while_the_host_reads_the_work_tree() {
    let (_root, config) = own_root();
    let workspace = workspace_over(&config, write_files).await;
    // A shell that was taken over would go on: here it just waits for the next command.
    assert_eq!(run(&workspace, "echo 1 > made").await.0, Some(0));
    let root = config.root().display().to_string();
    assert!(processes_with(&root) > 0);
    workspace.extract().await.unwrap();
    assert_eq!(processes_with(&root), 0);
    assert_eq!(run(&workspace, "cat made").await, (Some(0), "1\n".into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_beside_another_has_its_own_sandbox() {
    let (_root, config) = own_root();
    let workspace = workspace_over(&config, write_files).await;
    let slow = workspace.bash("sleep 0.5; echo slow", LONG);
    let quick = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        workspace.bash("ls /proc | grep -c '^[0-9]'; echo quick", LONG).await
    };
    let (slow, quick) = tokio::join!(slow, quick);
    assert_eq!(slow.unwrap().output.bytes(), b"slow\n");
    assert!(quick.unwrap().output.bytes().ends_with(b"quick\n"));
}
