//! What do plugins reach of a folder that somebody works in, and what of it reaches them?

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use tandem_host::plugin::{WorkspaceAccess, WorkspaceError};
use tandem_host::workspace::{Project, ProjectSince, WorkspaceConfig};

fn git(folder: &Path, words: &[&str]) {
    let status = Command::new("git")
        .current_dir(folder)
        .args(["-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main"])
        .args(words)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .status()
        .unwrap();
    assert!(status.success(), "{words:?}");
}

/// A repository with a commit, whose configuration would run things.
fn project() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    git(path, &["init", "-q"]);
    fs::write(path.join(".gitignore"), "*.log\n").unwrap();
    fs::write(path.join("a.txt"), "one\n").unwrap();
    git(path, &["add", "."]);
    git(path, &["commit", "-qm", "base"]);
    fs::write(path.join("dirty.txt"), "before\n").unwrap();
    folder
}

#[tokio::test]
async fn changes_are_those_since_the_moment_and_not_since_the_commit() {
    let folder = project();
    let path = folder.path();
    let project = Project::open(path, &WorkspaceConfig::default()).await.unwrap();
    let since = project.mark().await.unwrap();
    assert_eq!(since.changes().await.unwrap().work_tree, tandem_host::harness::WorkTree::default());
    fs::write(path.join("a.txt"), "two\n").unwrap();
    fs::write(path.join("new.txt"), "").unwrap();
    fs::write(path.join("build.log"), "noise").unwrap();
    fs::remove_file(path.join("dirty.txt")).unwrap();
    fs::create_dir(path.join("nested")).unwrap();
    git(&path.join("nested"), &["init", "-q"]);
    fs::write(path.join("nested/x"), "x").unwrap();
    let changes = since.changes().await.unwrap();
    assert_eq!(changes.work_tree.changed, ["a.txt", "dirty.txt"]);
    assert_eq!(changes.work_tree.untracked, ["new.txt"]);
    let patch = String::from_utf8(changes.patch.clone()).unwrap();
    assert!(patch.contains("-one\n+two\n"), "{patch}");
    assert_eq!(ProjectSince::candidate(&changes).bytes, patch.len() as u64);
    assert_eq!(since.untracked().await.unwrap(), ["new.txt"]);
    // Nothing of it stands in the user's own repository.
    let status =
        Command::new("git").current_dir(path).args(["diff", "--cached", "--name-only"]).output().unwrap();
    assert!(status.stdout.is_empty());
    let unmarked = project.unmarked();
    assert!(matches!(unmarked.diff().await, Err(WorkspaceError::Failed(_))));
}

#[tokio::test]
async fn nothing_that_the_repository_is_set_up_to_run_runs() {
    let folder = project();
    let path = folder.path();
    let mark = path.join("ran.log");
    let run = format!("touch {} #", mark.display());
    for (name, value) in [
        ("core.fsmonitor", run.as_str()),
        ("filter.evil.clean", &format!("{run}; cat")),
        ("diff.evil.textconv", &run),
        ("core.hooksPath", "."),
    ] {
        git(path, &["config", name, value]);
    }
    fs::write(path.join(".gitattributes"), "* filter=evil diff=evil\n").unwrap();
    // A repository inside, which git would ask by its own means.
    let nested = path.join("nested");
    fs::create_dir(&nested).unwrap();
    git(&nested, &["init", "-q"]);
    fs::write(nested.join("x"), "x").unwrap();
    git(&nested, &["add", "."]);
    git(&nested, &["commit", "-qm", "inner"]);
    git(&nested, &["config", "core.fsmonitor", &run]);
    let project = Project::open(path, &WorkspaceConfig::default()).await.unwrap();
    let since = project.mark().await.unwrap();
    fs::write(path.join("a.txt"), "two\n").unwrap();
    fs::write(nested.join("x"), "y").unwrap();
    let changes = since.changes().await.unwrap();
    assert_eq!(changes.work_tree.changed, ["a.txt"]);
    assert!(!mark.exists(), "something of the repository ran");
}

#[tokio::test]
async fn plugins_stay_in_the_folder_and_out_of_its_repository() {
    let folder = project();
    let path = folder.path();
    let project = Project::open(path, &WorkspaceConfig::default()).await.unwrap();
    let files = project.unmarked();
    for name in ["a.txt", &format!("{}/a.txt", path.display()), "/workspace/a.txt"] {
        assert_eq!(files.read(name).await.unwrap(), b"one\n", "{name}");
    }
    std::os::unix::fs::symlink("/etc/passwd", path.join("link")).unwrap();
    for name in ["../x", "/etc/passwd", "link"] {
        assert!(files.read(name).await.is_err(), "{name}");
    }
    assert!(files.write(".git/hooks/post-checkout", b"#!/bin/sh").await.is_err());
    std::os::unix::fs::symlink(".git", path.join("x")).unwrap();
    fs::create_dir(path.join("inner")).unwrap();
    git(&path.join("inner"), &["init", "-q"]);
    let planted =
        ["x/config", "inner/.git/config", ".GIT/config", ".claude/settings.json", ".codex/hooks.json"];
    for name in planted.into_iter().chain([".openhands/hooks.json", ".mcp.json"]) {
        assert!(files.write(name, b"[core]").await.is_err(), "{name}");
    }
    for name in [".git/config", "x/config", "inner/.git/config"] {
        assert!(files.read(name).await.is_err(), "{name}");
    }
    assert!(!path.join(".claude").exists());
    files.write("sub/b.txt", b"b").await.unwrap();
    assert_eq!(fs::read(path.join("sub/b.txt")).unwrap(), b"b");
    let names: Vec<_> = files.list(".").await.unwrap().into_iter().map(|entry| entry.path).collect();
    assert!(names.contains(&"a.txt".to_owned()), "{names:?}");
    assert_eq!(files.search("one", ".txt", 5).await.unwrap().len(), 1);
    assert!(files.stat("sub").await.unwrap().is_folder);
}

#[tokio::test]
async fn commands_see_the_folder_and_cannot_plant_a_hook() {
    let folder = project();
    let path = folder.path();
    // Where the host is root, commands run as another user.
    for name in ["a.txt", ""] {
        fs::set_permissions(path.join(name), fs::Permissions::from_mode(0o777)).unwrap();
    }
    let project = Project::open(path, &WorkspaceConfig::default()).await.unwrap();
    let files = project.unmarked();
    let script = "cat a.txt; for f in new.txt .git/config sub/.git; do mkdir -p $(dirname $f); echo x > $f || echo kept out; done 2>/dev/null; echo y > /tmp/y && cat /tmp/y; ls /root 2>/dev/null";
    let argv = ["/bin/sh", "-c", script].map(String::from);
    let output = files.exec(&argv, Duration::from_secs(20)).await.unwrap();
    let text = String::from_utf8_lossy(&output.text).into_owned();
    assert_eq!(text, "one\nkept out\nkept out\nkept out\ny\n");
    assert!(!path.join("new.txt").exists() && !path.join("sub").exists());
}
