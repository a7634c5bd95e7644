//! Is the history of a repository gone: no object of it, and no name?

use std::fs;
use std::path::Path;
use std::process::Command;

use tandem_host::task::Task;
use tandem_host::workspace::{Workspace, WorkspaceConfig};

use crate::LONG;

/// What only later commits hold.
const SECRET: &str = "the_repair_that_came_later";

fn git(folder: &Path, arguments: &[&str]) {
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
}

/// A task whose files came with their repository: a later commit on a branch, under a tag,
/// in a stash, in the reflog, packed and loose.
fn task_with_history(folder: &Path) -> Task {
    for (path, text) in [
        ("task.toml", ""),
        ("instruction.md", "do"),
        ("tests/test.sh", "echo 0 > /logs/verifier/reward.txt\n"),
        ("environment/workspace/code.py", "value = 1\n"),
    ] {
        let path = folder.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let tree = folder.join("environment/workspace");
    git(&tree, &["init", "-q", "-b", "main"]);
    git(&tree, &["add", "-A"]);
    git(&tree, &["commit", "-qm", "first"]);
    fs::write(tree.join("code.py"), format!("value = 2  # {SECRET}\n")).unwrap();
    git(&tree, &["commit", "-qam", SECRET]);
    git(&tree, &["tag", "later"]);
    git(&tree, &["branch", "later-branch"]);
    git(&tree, &["update-ref", "refs/remotes/origin/main", "HEAD"]);
    git(&tree, &["pack-refs", "--all"]);
    git(&tree, &["gc", "-q"]);
    fs::write(tree.join("code.py"), format!("value = 3  # {SECRET}\n")).unwrap();
    git(&tree, &["stash", "-q"]);
    git(&tree, &["reset", "-q", "--hard", "HEAD~1"]);
    Task::load(folder).unwrap()
}

#[tokio::test]
async fn history_after_the_base_commit_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let task = task_with_history(folder.path());
    let config = WorkspaceConfig::default();
    let workspace = Workspace::create(task.snapshot(&config).await.unwrap(), &config).await.unwrap();
    let check = async |script: &str, expected: &str| {
        let ran = workspace.bash(script, LONG).await.unwrap();
        assert_eq!(String::from_utf8_lossy(&ran.output.bytes()).trim(), expected, "{script}");
    };
    check("git log --all --reflog --format=%s", "base").await;
    check("git reflog --all --format=%gs | sort -u", "commit (initial): base").await;
    check("git stash list; git tag; git branch -a --format='%(refname)'; git remote", "refs/heads/main")
        .await;
    check("git fsck --full --unreachable --lost-found --no-progress 2>&1", "").await;
    // Every object there is, reachable or not: a commit, its tree and the one file.
    check(
        "git cat-file --batch-all-objects --batch-check='%(objecttype)' | sort | tr '\\n' ' '",
        "blob commit tree",
    )
    .await;
    check("for o in $(git cat-file --batch-all-objects --batch-check='%(objectname)'); do git cat-file -p $o; done | grep -c later; cat code.py", "0\nvalue = 1").await;
    check("cat .git/packed-refs .git/ORIG_HEAD .git/FETCH_HEAD .git/objects/info/alternates 2>/dev/null", "")
        .await;
    check(&format!("grep -rl {SECRET} / --include='*' -s --exclude-dir=proc --exclude-dir=usr --exclude-dir=sys | wc -l"), "0").await;
}
