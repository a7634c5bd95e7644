//! Does anything that an agent leaves in its repository or tree run on the host?

use super::*;

/// A canary for each way in which git runs a program that its configuration or
/// attributes name. `{touch}` makes the file that must not appear on the host.
const CONFIG: &str = r#"
[core]
    fsmonitor = {touch}
    hooksPath = /workspace/hooks
    sshCommand = {touch}
    editor = {touch}
    pager = {touch}
    attributesFile = /workspace/hooks/attributes
    excludesFile = /workspace/hooks/excludes
    worktree = /
    autocrlf = true
    gitProxy = {touch}
    alternateRefsCommand = {touch}
    askPass = {touch}
[filter "evil"]
    clean = {touch}; cat
    smudge = {touch}; cat
    process = {touch}
    required = true
[diff]
    external = {touch}
    noprefix = true
    mnemonicPrefix = true
    renames = copies
    algorithm = patience
    context = 0
    wordRegex = .
[diff "evil"]
    textconv = {touch}; cat
    command = {touch}
    cachetextconv = true
[merge "evil"]
    driver = {touch}
[credential]
    helper = !{touch}
[gpg]
    program = {touch}
[commit]
    gpgSign = true
[sequence]
    editor = {touch}
[pager]
    diff = {touch}
[alias]
    add = !{touch}
    apply = !{touch}
    update-index = !{touch}
[include]
    path = /workspace/hooks/more
[includeIf "gitdir:/"]
    path = /workspace/hooks/more
[uploadpack]
    packObjectsHook = {touch}
[extensions]
    partialClone = evil
[remote "evil"]
    url = ext::{touch}
    promisor = true
[safe]
    directory = *
[apply]
    whitespace = fix
    ignoreWhitespace = change
[color]
    ui = always
"#;

const ATTRIBUTES: &str = "* filter=evil diff=evil merge=evil text eol=crlf ident working-tree-encoding=UTF-16 export-subst\n\
    [attr]binary filter=evil\n*.py -text -diff binary\n*.txt whitespace=tab-in-indent,cr-at-eol\n";

async fn check(files: Files, extra: &str) {
    let marks = tempfile::tempdir().unwrap();
    fs::set_permissions(marks.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let mark = marks.path().join("canary");
    let touch = format!("touch {}", mark.display());
    // The canary can be put there: without a sandbox it would be.
    assert!(std::process::Command::new("sh").args(["-c", &touch]).status().unwrap().success());
    fs::remove_file(&mark).unwrap();

    let config = WorkspaceConfig { files, ..WorkspaceConfig::default() };
    let workspace = workspace_over(&config, write_files).await;
    let text = CONFIG.replace("{touch}", &format!("\"{touch}\""));
    let script = format!(
        "mkdir hooks; printf '#!/bin/sh\\n{touch}\\n' > hooks/pre-commit; \
         for h in post-index-change post-checkout applypatch-msg pre-applypatch fsmonitor-watchman; do cp hooks/pre-commit hooks/$h; done; \
         chmod +x hooks/*; cp hooks/* .git/hooks/ 2>/dev/null || {{ mkdir -p .git/hooks; cp hooks/* .git/hooks/; }}; \
         cat > hooks/more <<'EOF'\n[core]\n fsmonitor = \"{touch}\"\nEOF\n\
         cat > hooks/attributes <<'EOF'\n{ATTRIBUTES}EOF\n\
         cat > .gitattributes <<'EOF'\n{ATTRIBUTES}EOF\n\
         mkdir -p .git/info; cp .gitattributes .git/info/attributes; cp .gitattributes app/.gitattributes; \
         cp hooks/more ~/.gitconfig; mkdir -p ~/.config/git; cp hooks/more ~/.config/git/config; \
         cat >> .git/config <<'EOF'\n{text}EOF\n\
         echo '# changed' >> app/main.py; printf 'x\\r\\n' >> crlf.txt; printf '$Id$\\n' > ident.txt; {extra}"
    );
    let (code, output) = run(&workspace, &script).await;
    assert_eq!(code, Some(0), "{output}");
    let dirty = contents(workspace.host_tree());
    let extracted = workspace.extract().await.unwrap();
    assert!(String::from_utf8_lossy(&extracted.patch).contains("+++ b/app/main.py"));
    assert!(workspace.applies(&extracted.patch).await.unwrap());
    workspace.candidate(crate::harness::PatchSource::WorkTree, &extracted.patch).await.unwrap();
    let fresh =
        Workspace::patched(workspace.snapshot(), &config, &extracted.patch, Vec::new()).await.unwrap();
    assert_eq!(contents(fresh.host_tree()), dirty);
    assert!(!mark.exists(), "something of the agent's ran on the host");
}

#[tokio::test]
async fn hostile_git_config() {
    for files in [Files::Copy, Files::Overlay] {
        check(files, "true").await;
    }
}

#[tokio::test]
async fn hostile_git_attributes() {
    for files in [Files::Copy, Files::Overlay] {
        // The repository itself may be gone, a file, or a link to one elsewhere.
        check(files, "rm -rf .git; printf 'gitdir: /workspace/hooks\\n' > .git").await;
        check(files, "mv .git /tmp/moved; ln -s /tmp/moved .git").await;
    }
}

#[tokio::test]
async fn a_sparse_or_ignoring_repository_is_asked_in_the_sandbox_alone() {
    for files in [Files::Copy, Files::Overlay] {
        check(files, "echo x > .gitignore; mkdir -p .git/info; echo '/*' > .git/info/sparse-checkout").await;
    }
}
