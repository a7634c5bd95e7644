//! What does a command see, and what does it leave?

use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::super::*;
use super::*;
use crate::plugin::{WorkspaceAccess, WorkspaceError};

/// Runs a script, extracts the patch, applies it to fresh files, and compares
/// byte for byte what both trees hold, apart from repositories and litter.
async fn check_patch(script: &str, changed: &[&str], untracked: &[&str]) -> Vec<u8> {
    let workspace = workspace().await;
    let (code, output) = run(&workspace, script).await;
    assert_eq!(code, Some(0), "{script}: {output}");
    let extracted = workspace.extract().await.unwrap();
    assert_eq!(extracted.work_tree.changed, changed, "{script}");
    assert_eq!(extracted.work_tree.untracked, untracked, "{script}");
    assert!(workspace.applies(&extracted.patch).await.unwrap(), "{script}");
    let config = WorkspaceConfig::default();
    let fresh = Workspace::patched(workspace.snapshot(), &config, &extracted.patch, Vec::new());
    let fresh = fresh.await.unwrap();
    let list = "find . -name .git -prune -o -name __pycache__ -prune -o \\( -type f -o -type l \\) \
                ! -path './nested/*' -print0 | sort -z | xargs -0 stat -c '%n %A %N' ; \
                find . -name .git -prune -o -name __pycache__ -prune -o -type f ! -path './nested/*' \
                -print0 | sort -z | xargs -0 sha256sum";
    assert_eq!(run(&workspace, list).await, run(&fresh, list).await, "{script}");
    extracted.patch
}

#[tokio::test]
async fn a_command_sees_a_fixed_place_and_nothing_of_the_host() {
    let workspace = workspace().await;
    let check = async |script: &str, expected: &str| {
        assert_eq!(run(&workspace, script).await.1.trim(), expected, "{script}");
    };
    check("pwd; id -un; id -u; hostname", "/workspace\nagent\n1000\nworkspace").await;
    check("env | cut -d= -f1 | grep -vE '^(GIT_|_$)' | sort | tr '\\n' ' '", "HOME LANG LESS MANPAGER PAGER PATH PIP_PROGRESS_BAR PWD PYTHONDONTWRITEBYTECODE PYTHONHASHSEED SHLVL TERM TQDM_DISABLE TZ USER")
        .await;
    check("git log --format='%an %ad %s' --date=iso", "tandem 2000-01-01 00:00:00 +0000 base").await;
    check("ls -A / | tr '\\n' ' '", "bin dev etc home lib lib64 proc sbin tmp usr workspace").await;
    check("touch /x /usr/x /dev/x 2>&1 | grep -c 'Read-only'", "3").await;
    check("ls /etc | tr '\\n' ' '", "alternatives group hosts ld.so.cache nsswitch.conf passwd").await;
    check("cat crlf.txt | wc -c; ls -l --time-style=full-iso run.sh | cut -d' ' -f6", "17\n2000-01-01").await;
}

#[tokio::test]
async fn the_same_files_give_the_same_commit() {
    let (first, second) = (workspace().await, workspace().await);
    assert_eq!(first.commit(), second.commit());
    assert_eq!(run(&first, "git rev-parse HEAD").await.1.trim(), first.commit());
}

#[tokio::test]
async fn each_command_is_a_fresh_shell_over_the_same_files() {
    let workspace = workspace().await;
    run(&workspace, "cd app; export A=1; echo kept > /tmp/note; echo home > ~/note").await;
    assert_eq!(
        run(&workspace, "pwd; echo \"$A\"; cat /tmp/note ~/note").await.1,
        "/workspace\n\nkept\nhome\n"
    );
}

#[tokio::test]
async fn standard_output_and_error_come_in_order() {
    let workspace = workspace().await;
    let (code, output) = run(&workspace, "echo a; echo b >&2; echo c; exit 3").await;
    assert_eq!((code, output.as_str()), (Some(3), "a\nb\nc\n"));
    assert_eq!(run(&workspace, "kill -9 $$").await.0, Some(137));
    assert_eq!(run(&workspace, "no-such-program").await.0, Some(127));
}

#[tokio::test]
async fn a_host_file_cannot_be_read() {
    let secret = tempfile::NamedTempFile::new().unwrap();
    fs::write(secret.path(), "secret").unwrap();
    let workspace = workspace().await;
    let script = format!("cat {0} /proc/1/root{0} /etc/shadow /root/.profile", secret.path().display());
    let (code, output) = run(&workspace, &script).await;
    assert_eq!(code, Some(1));
    assert!(!output.contains("secret"), "{output}");
}

#[tokio::test]
async fn there_is_no_network() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let workspace = workspace().await;
    let (code, output) = run(&workspace, &format!("exec 3<>/dev/tcp/127.0.0.1/{port} && echo reached")).await;
    assert_ne!(code, Some(0), "{output}");
    assert!(!output.contains("reached"), "{output}");
}

#[tokio::test]
async fn an_endless_command_and_its_background_children_die_at_the_limit() {
    let workspace = workspace().await;
    let start = Instant::now();
    let script = "setsid sleep 98765 & (trap '' TERM HUP; sleep 98765) & echo started; sleep 98765";
    let output = workspace.bash(script, Duration::from_millis(700)).await.unwrap();
    assert_eq!(output.exit_code, None);
    assert_eq!(output.output.bytes(), b"started\n");
    assert!(start.elapsed() < Duration::from_secs(4), "{:?}", start.elapsed());
    assert_eq!(processes_with("98765"), 0);
}

#[tokio::test]
async fn background_children_die_with_a_command_that_ends() {
    let workspace = workspace().await;
    let output = workspace.bash("setsid sleep 87654 & echo done", LONG).await.unwrap();
    assert_eq!((output.exit_code, output.output.bytes()), (Some(0), b"done\n".to_vec()));
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(processes_with("87654"), 0);
}

#[tokio::test]
async fn a_sandbox_that_is_killed_from_outside_is_no_result_of_the_command() {
    for resident in [true, false] {
        killed_from_outside(resident).await;
    }
}

async fn killed_from_outside(resident: bool) {
    let (_root, mut config) = own_root();
    config.sandbox.resident = resident;
    let mark = config.root().display().to_string();
    let workspace = workspace_over(&config, write_files).await;
    let run = workspace.bash("sleep 65432", LONG);
    let kill = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        // Only bubblewrap's own process, which is the parent of the namespace.
        let found = fs::read_dir("/proc").unwrap().filter_map(|entry| {
            let path = entry.ok()?.path();
            let line = fs::read(path.join("cmdline")).ok()?;
            let is_bwrap = String::from_utf8_lossy(&line).contains("bwrap\0");
            let holds_mark = String::from_utf8_lossy(&line).contains(&mark);
            (is_bwrap && holds_mark).then(|| path.file_name()?.to_str()?.parse::<i32>().ok()).flatten()
        });
        let parent = found.min().unwrap();
        // SAFETY: a signal to a process that this test started.
        unsafe { libc::kill(parent, libc::SIGTERM) };
    };
    let (result, ()) = tokio::join!(run, kill);
    assert!(matches!(result, Err(Error::Killed { signal: libc::SIGTERM, .. })), "{result:?}");
    assert_eq!(processes_with("sleep 65432"), 0);
}

#[tokio::test]
async fn dropping_a_running_command_kills_it() {
    let workspace = workspace().await;
    let run = workspace.bash("setsid sleep 76543 & sleep 76543", LONG);
    assert!(tokio::time::timeout(Duration::from_millis(500), run).await.is_err());
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(processes_with("76543"), 0);
}

#[tokio::test]
async fn endless_output_is_kept_in_bounded_memory() {
    let config = WorkspaceConfig {
        sandbox: SandboxLimits { output_head: 10, output_tail: 10, ..SandboxLimits::default() },
        ..WorkspaceConfig::default()
    };
    let folder = tempfile::tempdir().unwrap();
    let snapshot = Arc::new(Snapshot::take(folder.path(), &config).await.unwrap());
    let workspace = Workspace::create(snapshot, &config).await.unwrap();
    let output = workspace.bash("echo start; head -c 30000000 /dev/zero | tr '\\0' x; echo; echo end", LONG);
    let output = output.await.unwrap();
    assert_eq!(output.output.total(), 30_000_011);
    let text = String::from_utf8(output.output.bytes()).unwrap();
    assert_eq!(text, "start\nxxxx\n[29999991 of 30000011 bytes not kept]\nxxxxx\nend\n");
}

#[tokio::test]
async fn limits_of_memory_files_and_processes_hold() {
    let config = WorkspaceConfig {
        sandbox: SandboxLimits { processes: 40, file_bytes: 1 << 20, ..SandboxLimits::default() },
        ..WorkspaceConfig::default()
    };
    let folder = tempfile::tempdir().unwrap();
    let snapshot = Arc::new(Snapshot::take(folder.path(), &config).await.unwrap());
    let workspace = Workspace::create(snapshot, &config).await.unwrap();
    let (code, output) = run(&workspace, "python3 -c 'bytearray(6 << 30)'").await;
    assert_eq!(code, Some(1));
    assert!(output.contains("MemoryError"), "{output}");
    let (code, output) = run(&workspace, "head -c 2000000 /dev/zero > big").await;
    assert_ne!(code, Some(0), "{output}");
    let fork = "import os, time\nn = 0\ntry:\n    while n < 200:\n        if os.fork() == 0:\n            time.sleep(9)\n            os._exit(0)\n        n += 1\nexcept OSError: pass\nprint(n)";
    let (_, output) = run(&workspace, &format!("python3 -c '{fork}'")).await;
    let forked: u32 = output.trim().parse().unwrap();
    assert!(forked < 40, "{forked} processes past the limit of 40");
}

#[tokio::test]
async fn a_command_that_cannot_be_started_is_told_so() {
    let workspace = workspace().await;
    let error = workspace.bash(&"x".repeat(200_000), LONG).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the command cannot be started: it has 200000 bytes and the limit is 131000"
    );
    let error = workspace.bash("a\0b", LONG).await.unwrap_err();
    assert_eq!(error.to_string(), "the command cannot be started: it holds a zero byte");
    assert!(error.is_caused_by_agent());
}

#[tokio::test]
async fn patches_carry_every_kind_of_change() {
    assert!(check_patch("true", &[], &[]).await.is_empty());
    check_patch("sed -i 's/1/2/' app/main.py", &["app/main.py"], &[]).await;
    check_patch("sed -i 's/two/2/' crlf.txt", &["crlf.txt"], &[]).await;
    check_patch("printf 'caf\\351s\\n' > latin.txt", &["latin.txt"], &[]).await;
    check_patch("printf '\\0\\3\\377' > data.bin", &["data.bin"], &[]).await;
    check_patch("printf ' more' >> no_newline.txt", &["no_newline.txt"], &[]).await;
    check_patch("rm app/old.py", &["app/old.py"], &[]).await;
    check_patch("git mv app/old.py app/new.py", &["app/old.py"], &["app/new.py"]).await;
    check_patch("chmod +x run.sh", &["run.sh"], &[]).await;
    check_patch(
        "mkdir -p a/b; echo x > a/b/c.txt; echo '*.txt' > .gitignore",
        &[],
        &[".gitignore", "a/b/c.txt"],
    )
    .await;
    check_patch("echo y >> app/main.py; git add -A", &["app/main.py"], &[]).await;
    check_patch("echo y >> app/main.py; git commit -qam done", &["app/main.py"], &[]).await;
    check_patch(
        "echo y > n; git add -A; git commit -qm x; git reset -q --hard HEAD; rm -rf .git",
        &[],
        &["n"],
    )
    .await;
    check_patch("ln -s /etc/passwd link; ln -sf crlf.txt inner", &[], &["inner", "link"]).await;
    check_patch("rm run.sh; mkdir run.sh; echo x > run.sh/y", &["run.sh"], &["run.sh/y"]).await;
    check_patch(
        "printf x > 'sp ace'; printf x > $'new\\nline'; printf x > tab$'\\t'",
        &[],
        &["new\nline", "sp ace", "tab\t"],
    )
    .await;
    check_patch("printf 'x' > 'git~1'; printf x > 'a\\b'", &[], &["a\\b", "git~1"]).await;
    check_patch("echo x >> app/main.py; chmod 000 app/main.py; chmod 755 app/main.py", &["app/main.py"], &[])
        .await;
}

#[tokio::test]
async fn unreadable_files_and_pipes_do_not_stop_extraction() {
    let workspace = workspace().await;
    let script = "echo 2 >> app/main.py; printf x > .GIT; mkdir app/.Git; chmod 000 app/main.py app; mkfifo pipe; rm crlf.txt; mkfifo crlf.txt; \
                  python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"sock\")'";
    assert_eq!(run(&workspace, script).await, (Some(0), String::new()));
    let extracted = workspace.extract().await.unwrap();
    assert_eq!(extracted.work_tree.changed, ["app/main.py"]);
}

#[tokio::test]
async fn litter_and_nested_repositories_are_left_out() {
    check_patch("mkdir app/__pycache__; echo x > app/__pycache__/m.cpython-311.pyc", &[], &[]).await;
    let nested = "mkdir nested; cd nested; git init -q; echo x > file; git add -A; git commit -qm x; cd ..; \
                  mkdir nested/empty; git init -q nested/empty; echo new > new";
    check_patch(nested, &[], &["new"]).await;
    // A repository made over the task's own files must not hide the work in them.
    check_patch(
        "cd app; git init -q; echo x >> main.py; echo y > extra.py",
        &["app/main.py"],
        &["app/extra.py"],
    )
    .await;
}

#[tokio::test]
async fn nothing_of_a_hostile_repository_runs_on_the_host() {
    let marks = tempfile::tempdir().unwrap();
    let mark = marks.path().join("mark");
    let workspace = workspace().await;
    let touch = format!("touch {}", mark.display());
    let script = format!(
        "git config filter.evil.clean '{touch}; cat'; git config filter.evil.smudge '{touch}; cat'; \
         git config filter.evil.process '{touch}'; git config diff.evil.textconv '{touch}; cat'; \
         git config diff.evil.command '{touch}'; git config diff.external '{touch}'; \
         git config core.fsmonitor '{touch}'; git config core.hooksPath hooks; mkdir -p hooks; \
         printf '#!/bin/sh\\n{touch}\\n' > hooks/pre-commit; cp hooks/pre-commit hooks/post-index-change; \
         chmod +x hooks/*; git config diff.noprefix true; git config core.autocrlf true; \
         printf '[core]\\n\\tfsmonitor = {touch}\\n' > .gitconfig; \
         echo '* filter=evil diff=evil text eol=crlf working-tree-encoding=UTF-16' > app/.gitattributes; \
         echo '# changed' >> app/main.py; printf 'x\\r\\n' >> crlf.txt"
    );
    let (code, output) = run(&workspace, &script).await;
    assert_eq!(code, Some(0), "{output}");
    let extracted = workspace.extract().await.unwrap();
    assert_eq!(extracted.work_tree.changed, ["app/main.py", "crlf.txt"]);
    assert!(String::from_utf8_lossy(&extracted.patch).contains("+++ b/app/main.py"));
    assert!(workspace.applies(&extracted.patch).await.unwrap());
    assert!(!mark.exists(), "the agent's configuration ran on the host");
}

#[tokio::test]
async fn the_agents_index_is_left_as_it_was() {
    let workspace = workspace().await;
    run(&workspace, "echo x > n; git add n; echo z >> app/main.py").await;
    let before = run(&workspace, "sha256sum .git/index; git ls-files --stage").await;
    workspace.extract().await.unwrap();
    assert_eq!(run(&workspace, "sha256sum .git/index; git ls-files --stage").await, before);
}

#[tokio::test]
async fn patches_that_do_not_apply_are_told_apart() {
    let workspace = workspace().await;
    let good = b"--- a/app/main.py\n+++ b/app/main.py\n@@ -1,2 +1,2 @@\n def main():\n-    return 1\n+    return 2\n";
    let check = async |patch: &[u8], expected: bool| {
        assert_eq!(workspace.applies(patch).await.unwrap(), expected, "{}", String::from_utf8_lossy(patch));
    };
    check(good, true).await;
    check(b"", true).await;
    check(b"\n \n", true).await;
    check(&good[..good.len() - 1], false).await;
    check(b"I am done.\n", false).await;
    check(&String::from_utf8_lossy(good).replace("return 1", "return 7").into_bytes(), false).await;
    check(&String::from_utf8_lossy(good).replace("app/main.py", "../escape.py").into_bytes(), false).await;
    let escape = b"--- /dev/null\n+++ b/.git/hooks/x\n@@ -0,0 +1 @@\n+x\n";
    check(escape, false).await;
    run(&workspace, "echo junk > app/main.py").await;
    check(good, true).await;

    let candidate = workspace.candidate(crate::harness::PatchSource::Submitted, good).await.unwrap();
    assert_eq!((candidate.files, candidate.applies), (vec!["app/main.py".to_owned()], true));
    let config = WorkspaceConfig::default();
    let error = Workspace::patched(workspace.snapshot(), &config, b"I am done.\n", Vec::new()).await;
    assert!(matches!(error, Err(Error::DoesNotApply { .. })));
}

#[tokio::test]
async fn a_patch_cannot_write_through_a_link() {
    let outside = tempfile::tempdir().unwrap();
    let folder = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(outside.path(), folder.path().join("out")).unwrap();
    let config = WorkspaceConfig::default();
    let snapshot = Arc::new(Snapshot::take(folder.path(), &config).await.unwrap());
    let patch = b"--- /dev/null\n+++ b/out/x\n@@ -0,0 +1 @@\n+x\n";
    assert!(Workspace::patched(snapshot, &config, patch, Vec::new()).await.is_err());
    assert!(!outside.path().join("x").exists());
}

#[tokio::test]
async fn a_work_tree_past_its_limits_has_no_patch() {
    let mut config = WorkspaceConfig::default();
    config.extract.total_bytes = 100_000;
    config.extract.patch_bytes = 10_000;
    let folder = tempfile::tempdir().unwrap();
    let snapshot = Arc::new(Snapshot::take(folder.path(), &config).await.unwrap());
    let workspace = Workspace::create(snapshot, &config).await.unwrap();
    run(&workspace, "seq 5000 > numbers").await;
    let error = workspace.extract().await.unwrap_err();
    assert!(error.is_caused_by_agent());
    assert_eq!(error.to_string(), "the output of git: 10001 bytes and the limit is 10000");
    run(&workspace, "head -c 200000 /dev/zero > zeros").await;
    let error = workspace.extract().await.unwrap_err().to_string();
    assert!(error.starts_with("the work tree: 2") && error.ends_with("and the limit is 100000"), "{error}");
}

#[tokio::test]
async fn plugins_reach_the_workspace_and_nothing_else() {
    let workspace = workspace().await;
    run(
        &workspace,
        "ln -s /etc abs; ln -s ../../.. up; ln -s app/main.py inner; ln -s app folder; mkfifo pipe",
    )
    .await;
    let denied = |path: &str| Err::<Vec<u8>, _>(WorkspaceError::Denied(path.into()));
    let read = async |path: &str| workspace.read(path).await;

    assert_eq!(read("app/main.py").await.unwrap(), b"def main():\n    return 1\n");
    assert_eq!(read("inner").await.unwrap(), b"def main():\n    return 1\n");
    assert_eq!(read("app/../crlf.txt").await.unwrap().len(), 17);
    for path in ["../x", "/etc/passwd", "abs/passwd", "up/etc/passwd", "app/../../x", "app", "pipe"] {
        assert_eq!(read(path).await, denied(path), "{path}");
    }
    assert_eq!(read("none").await, Err(WorkspaceError::NotFound("none".into())));
    assert!(matches!(read("a\0b").await, Err(WorkspaceError::Failed(_))));

    for path in ["../x", "/tmp/x", "abs/x", "up/tmp/x", ".git/config", "app/.git/x", "pipe", "app"] {
        let error = workspace.write(path, b"x").await.unwrap_err();
        assert_eq!(error, WorkspaceError::Denied(path.into()), "{path}");
    }
    workspace.write("new/deep/file.py", b"a needle here\n").await.unwrap();
    workspace.write("app/main.py", b"short").await.unwrap();
    assert_eq!(
        run(&workspace, "cat app/main.py; echo more >> new/deep/file.py && touch new/x").await.1,
        "short"
    );

    let hits = workspace.search("needle", ".py", 10).await.unwrap();
    assert_eq!(hits.len(), 1);
    assert_eq!((hits[0].path.as_str(), hits[0].line), ("new/deep/file.py", 1));
    let names: Vec<_> = workspace.list("app").await.unwrap().into_iter().map(|entry| entry.path).collect();
    assert_eq!(names, ["app/main.py", "app/old.py"]);
    assert!(workspace.stat("folder").await.unwrap().is_folder);
    assert_eq!(
        workspace.untracked().await.unwrap(),
        ["abs", "folder", "inner", "new/deep/file.py", "new/x", "up"]
    );
    let argv = ["cat".to_owned(), "app/main.py".to_owned()];
    let output = workspace.exec(&argv, LONG).await.unwrap();
    assert_eq!((output.exit_code, output.text), (Some(0), b"short".to_vec()));
    let too_large = workspace.write("big", &vec![0; 2 << 20]).await;
    assert_eq!(
        too_large,
        Err(WorkspaceError::TooLarge("the content: 2097152 and the limit is 1048576".into()))
    );
}

#[tokio::test]
async fn a_workspace_leaves_nothing_behind() {
    let (root, files) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    super::scratch::open_to_others(root.path()).unwrap();
    let config = WorkspaceConfig { root: Some(root.path().to_owned()), ..WorkspaceConfig::default() };
    let snapshot = Arc::new(Snapshot::take(files.path(), &config).await.unwrap());
    let workspace = Workspace::create(snapshot.clone(), &config).await.unwrap();
    run(&workspace, "mkdir -p a/b; chmod 000 a; echo x > y").await;
    drop(workspace);
    // A tree so deep that recursion over it would end the program.
    let workspace = Workspace::create(snapshot.clone(), &config).await.unwrap();
    let deep = "import os\nfor _ in range(20000):\n    os.mkdir('d')\n    os.chdir('d')\nos.chmod('.', 0)";
    assert_eq!(run(&workspace, &format!("python3 -c \"{deep}\"")).await, (Some(0), String::new()));
    let error = workspace.extract().await.unwrap_err();
    assert!(error.is_caused_by_agent(), "{error}");
    drop((workspace, snapshot));
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn how_soon_commands_start_is_printed() {
    let workspace = workspace().await;
    let mut times = Vec::new();
    for _ in 0..30 {
        let start = Instant::now();
        workspace.bash("true", LONG).await.unwrap();
        times.push(start.elapsed());
    }
    times.sort();
    println!("per command: median {:?}, best {:?}", times[15], times[0]);
    let start = Instant::now();
    let other = Workspace::create(workspace.snapshot(), &WorkspaceConfig::default()).await.unwrap();
    println!("workspace: {:?}", start.elapsed());
    run(&other, "echo x >> crlf.txt").await;
    let start = Instant::now();
    other.extract().await.unwrap();
    println!("extraction: {:?}", start.elapsed());
    // Figures, not verdicts: a loaded machine is no fault.
}
