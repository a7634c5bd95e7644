//! Does a patch carry exactly what was changed, byte for byte, whatever it is?

use std::os::unix::ffi::OsStrExt;

use super::*;

/// Files that a case starts from.
type FileList = &'static [(&'static str, &'static [u8])];

const PLAIN: FileList = &[
    ("app/main.py", b"def main():\n    return 1\n"),
    ("app/old.py", b"gone = True\n"),
    ("run.sh", b"#!/bin/sh\necho hi\n"),
    ("one.txt", b"one\n"),
];

/// What an agent does to files, and what of it no patch carries.
struct Case {
    files: FileList,
    script: &'static str,
    /// Paths, and all below them, that stay behind or stay as they were.
    left_out: &'static [&'static str],
}

/// Runs the script in a dirty work tree, applies the patch to a fresh workspace,
/// and compares both trees; with a copy of the files and with an overlay.
async fn check(case: Case) -> (Extracted, Vec<u8>) {
    let mut last = None;
    for files in [Files::Copy, Files::Overlay] {
        let config = WorkspaceConfig { files, ..WorkspaceConfig::default() };
        let workspace = workspace_over(&config, |folder| {
            for (name, content) in case.files {
                let path = folder.join(name);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, content).unwrap();
            }
        })
        .await;
        assert_eq!(workspace.is_overlay(), files == Files::Overlay);
        let (code, output) = run(&workspace, case.script).await;
        assert_eq!(code, Some(0), "{files:?} {}: {output}", case.script);
        let dirty = contents(workspace.host_tree());
        let extracted = workspace.extract().await.unwrap();
        assert!(workspace.applies(&extracted.patch).await.unwrap(), "{files:?} {}", case.script);
        let fresh = Workspace::patched(workspace.snapshot(), &config, &extracted.patch, Vec::new());
        let fresh = contents(fresh.await.unwrap().host_tree());
        let kept = |path: &Path| !case.left_out.iter().any(|out| path.starts_with(out));
        let only = |tree: BTreeMap<PathBuf, String>| -> BTreeMap<PathBuf, String> {
            tree.into_iter().filter(|(path, _)| kept(path)).collect()
        };
        let base = contents(&workspace.snapshot().tree());
        // What is left out is as the base commit has it.
        for (path, content) in base.iter().filter(|(path, _)| !kept(path)) {
            assert_eq!(fresh.get(path), Some(content), "{files:?} {}: {}", case.script, path.display());
        }
        for path in fresh.keys().filter(|path| !kept(path)) {
            assert!(base.contains_key(path), "{files:?} {}: {}", case.script, path.display());
        }
        assert_eq!(only(dirty), only(fresh), "{files:?} {}", case.script);
        let extracted_before = last.replace(extracted.clone());
        // The same patch, however the files came to be there.
        assert!(extracted_before.is_none_or(|before| before == extracted), "{}", case.script);
    }
    let extracted = last.unwrap();
    let patch = extracted.patch.clone();
    (extracted, patch)
}

async fn plain(script: &'static str) -> String {
    let (_, patch) = check(Case { files: PLAIN, script, left_out: &[] }).await;
    String::from_utf8_lossy(&patch).into_owned()
}

#[tokio::test]
async fn untracked() {
    assert!(plain("mkdir -p a/b; echo x > a/b/c; echo y > .hidden; touch empty").await.contains("b/a/b/c"));
}

#[tokio::test]
async fn staged() {
    plain("echo x >> one.txt; echo n > new; git add -A; echo later >> one.txt; rm new").await;
}

#[tokio::test]
async fn committed() {
    plain("echo x >> one.txt; git add -A; git commit -qm a; git checkout -qb b; echo y > two; git add -A; git commit -qm b").await;
    plain("echo x > two; git add -A; git commit -qm a; git tag t; rm -rf .git; git init -q").await;
}

#[tokio::test]
async fn deleted() {
    plain("rm app/old.py").await;
    plain("git rm -rq app; rmdir app 2>/dev/null; true").await;
    plain("rm -r app; echo 'a file now' > app").await;
    plain("rm one.txt; mkdir one.txt; echo x > one.txt/inner").await;
    plain("rm -r app; mkdir app; echo other > app/main.py").await;
}

#[tokio::test]
async fn renamed() {
    let patch = plain("git mv app/old.py app/new.py; mv one.txt two.txt; mv app/main.py .").await;
    assert!(!patch.contains("rename "), "{patch}");
    plain("cp -r app lib; rm -r app").await;
}

#[tokio::test]
async fn mode_change() {
    assert!(plain("chmod +x one.txt; chmod -x run.sh").await.contains("new mode 100755"));
    plain("chmod 400 one.txt; chmod 777 app/main.py; echo x > new; chmod 711 new").await;
}

#[tokio::test]
async fn symlink() {
    plain("ln -s /etc/passwd abs; ln -s nowhere dangling; ln -s app folder; ln -sf app/main.py one.txt")
        .await;
    plain("rm -r app; ln -s /usr app").await;
}

#[tokio::test]
async fn binary() {
    plain("head -c 3000 /bin/true > r; printf '\\0\\1\\2' > app/main.py; printf 'a\\0b' > z; cp /bin/true t")
        .await;
}

#[tokio::test]
async fn no_newline_at_end() {
    plain("printf 'no end' > new; printf 'more' >> one.txt; printf 'def main():' > app/main.py").await;
    plain("printf '' > one.txt").await;
}

#[tokio::test]
async fn crlf() {
    let files: FileList =
        &[("dos.txt", b"one\r\ntwo\r\n"), ("mixed.txt", b"a\r\nb\nc\r"), ("unix.txt", b"a\nb\n")];
    let script = "sed -i 's/two/2/' dos.txt; printf 'd\\r\\n' >> mixed.txt; sed -i 's/$/\\r/' unix.txt; printf 'x\\r\\ny\\r\\n' > new";
    check(Case { files, script, left_out: &[] }).await;
}

#[tokio::test]
async fn latin_1() {
    let files: FileList = &[("latin.py", b"# caf\xe9\nx = 'th\xe9'\n")];
    check(Case {
        files,
        script: "printf \"# na\\357ve\\n\" >> latin.py; printf 'se\\361or' > new",
        left_out: &[],
    })
    .await;
}

#[tokio::test]
async fn utf_16() {
    let files: FileList = &[
        ("wide.txt", b"\xff\xfeo\0n\0e\0\n\0"),
        (".gitattributes", b"*.txt working-tree-encoding=UTF-16LE text\n"),
    ];
    let script = "printf 't\\0w\\0o\\0\\n\\0' >> wide.txt; printf '\\377\\376n\\0' > new.txt; printf '\\376\\377\\0n' > big.txt";
    check(Case { files, script, left_out: &[] }).await;
}

#[tokio::test]
async fn huge_file() {
    let script =
        "head -c 9000000 /dev/zero > core.1; head -c 9000000 /dev/urandom > one.txt; echo fix >> app/main.py";
    let (extracted, _) = check(Case { files: PLAIN, script, left_out: &["core.1", "one.txt"] }).await;
    assert_eq!(extracted.work_tree.changed, ["app/main.py"]);
    let huge = |path: &str| LeftOut::TooLarge { path: path.into(), bytes: 9_000_000, limit: 8 << 20 };
    assert_eq!(extracted.left_out, [huge("core.1"), huge("one.txt")]);
}

#[tokio::test]
async fn nested_repository() {
    let script = "git init -q inner; cd inner; echo x > f; git add f; git commit -qm x; cd ..; echo y > outer; \
                  mkdir -p a/deep; git init -q a/deep; echo z > a/beside";
    let (extracted, patch) = check(Case { files: PLAIN, script, left_out: &["inner", "a/deep"] }).await;
    assert_eq!(extracted.work_tree.untracked, ["a/beside", "outer"]);
    assert!(!String::from_utf8_lossy(&patch).contains("Subproject"));
    assert_eq!(
        extracted.left_out,
        [LeftOut::Repository("a/deep".into()), LeftOut::Repository("inner".into())]
    );
    // A repository made over the task's own files hides nothing.
    plain("cd app; git init -q; git add -A; git commit -qm x; echo more >> main.py; echo n > n").await;
}

#[tokio::test]
async fn submodule() {
    // The task's submodule is files like any others; one that the agent adds is left out.
    let files: FileList = &[
        (".gitmodules", b"[submodule \"lib\"]\n\tpath = lib\n\turl = ../lib\n"),
        ("lib/code.c", b"int x;\n"),
    ];
    let script = "echo 'int y;' >> lib/code.c; git init -q /tmp/other; git -C /tmp/other commit -q --allow-empty -m x; \
                  git -c protocol.file.allow=always submodule --quiet add /tmp/other new 2>&1";
    let (extracted, _) = check(Case { files, script, left_out: &["new"] }).await;
    assert_eq!(extracted.work_tree.changed, [".gitmodules", "lib/code.c"]);
}

#[tokio::test]
async fn sparse_checkout() {
    let files: FileList = &[("app/main.py", b"x\n"), ("docs/page.md", b"text\n"), ("top", b"t\n")];
    let script = "git sparse-checkout set app 2>&1; echo y >> app/main.py; test ! -e docs; rm top";
    let (extracted, _) = check(Case { files, script, left_out: &["docs"] }).await;
    assert_eq!(extracted.work_tree.changed, ["app/main.py", "top"]);
}

#[tokio::test]
async fn lfs_pointer() {
    const POINTER: &[u8] = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n";
    let files: FileList =
        &[("model.bin", POINTER), (".gitattributes", b"*.bin filter=lfs diff=lfs merge=lfs -text\n")];
    let script = "sed -i 's/12345/99999/' model.bin; printf 'version https://git-lfs.github.com/spec/v1\\noid sha256:1\\nsize 1\\n' > new.bin; \
                  printf 'raw\\0bytes' > raw.bin";
    check(Case { files, script, left_out: &[] }).await;
}

#[tokio::test]
async fn ignored_build_litter() {
    let files: FileList = &[
        (".gitignore", b"build/\n*.o\n/out/*\n!/out/keep\n"),
        ("src/.gitignore", b"gen\n"),
        ("src/a.c", b"int a;\n"),
        ("tracked.o", b"tracked although ignored\n"),
    ];
    let script = "mkdir -p build/deep out src/build; echo x > build/deep/x; echo x > a.o; echo x > src/gen; echo x > src/build/y; \
                  echo x > out/drop; echo x > out/keep; echo x >> tracked.o; echo x >> src/a.c; mkdir __pycache__; echo x > __pycache__/a.pyc; \
                  mkdir .pytest_cache; echo x > .pytest_cache/v; for i in $(seq 600); do echo > many$i.o; done";
    let case = Case {
        files,
        script,
        left_out: &["build", "a.o", "src/gen", "src/build", "out/drop", "__pycache__", ".pytest_cache"],
    };
    // The many object files have names of their own; all of them are left out.
    let workspace = workspace_over(&WorkspaceConfig::default(), |folder| {
        for (name, content) in case.files {
            let path = folder.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
    })
    .await;
    assert_eq!(run(&workspace, case.script).await, (Some(0), String::new()));
    let extracted = workspace.extract().await.unwrap();
    assert_eq!(extracted.work_tree.changed, ["src/a.c", "tracked.o"]);
    assert_eq!(extracted.work_tree.untracked, ["out/keep"]);
    assert_eq!(extracted.left_out.len(), 600 + case.left_out.len());
    // What the agent itself ignores hides nothing, and what it staged or committed is meant.
    let script = "echo '*' > .gitignore; echo x > new; mkdir -p build; echo x > build/meant; git add -f build/meant; \
                  echo x > b.o; git add -f b.o; git commit -qm b; echo x > c.o; git add -f c.o; git reset -q";
    let (extracted, _) = check(Case { files, script, left_out: &["c.o"] }).await;
    assert_eq!(extracted.work_tree.untracked, ["b.o", "build/meant", "new"]);
}

#[tokio::test]
async fn unusual_file_names() {
    let script = "for name in 'sp ace' '  lead' 'trail ' $'new\\nline' $'tab\\t' $'\\x01' 'quo\"te' \"apo's\" 'back\\slash' '*' '?' '[a]' ':(top)x' \
                  '-rf' '--' '!x' '#x' 'é' $'\\xff\\xfe' $'caf\\xe9' 'a => b' '{a => b}' 'git~1' 'con' '...' 'x;rm -rf y' '$(id)' '`id`' '%s' '0'; \
                  do echo x > \"./$name\"; mkdir \"d $name\"; echo y > \"d $name/f\"; done; mv app/main.py $'app/\\xe9\\n\"'";
    let (extracted, patch) = check(Case { files: PLAIN, script, left_out: &[] }).await;
    assert_eq!(extracted.work_tree.untracked.len(), 61);
    let quoted = b"+++ \"b/\\377\\376\"\n";
    assert!(patch.windows(quoted.len()).any(|part| part == quoted));
    assert_eq!(Path::new("\u{e9}").as_os_str().as_bytes().len(), 2);
}

#[tokio::test]
async fn nothing_changed() {
    assert_eq!(plain("true").await, "");
    assert_eq!(plain("touch one.txt; chmod 600 app/main.py; mkdir empty; echo x > n; rm n").await, "");
}

/// A git that its caller's time-out ended in the middle leaves the lock of the index.
#[tokio::test]
async fn the_lock_that_a_stopped_git_leaves_hinders_no_later_patch() {
    let workspace = workspace().await;
    run(&workspace, "echo two > one.txt").await;
    let lock = workspace.git.lock().await.lock();
    fs::write(&lock, "").unwrap();
    let extracted = workspace.extract().await.unwrap();
    assert_eq!(extracted.work_tree.untracked, ["one.txt"]);
    assert!(!lock.exists());
    fs::write(&lock, "").unwrap();
    assert!(workspace.applies(&extracted.patch).await.unwrap());

    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.txt"), "one\n").unwrap();
    let project = Project::open(folder.path(), &WorkspaceConfig::default()).await.unwrap();
    let since = project.mark().await.unwrap();
    fs::write(folder.path().join("a.txt"), "two\n").unwrap();
    let lock = project.git.lock().await.lock();
    fs::write(&lock, "").unwrap();
    assert_eq!(since.changes().await.unwrap().work_tree.changed, ["a.txt"]);
    assert!(!lock.exists());
    fs::write(&lock, "").unwrap();
    project.mark().await.unwrap();
}
