//! The first-party plugins as real components: built by the forge, called through the engine.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use async_trait::async_trait;
use expect_test::{Expect, expect};
use serde_json::{Value, json};
use tandem_host::forge::{Forge, ForgeConfig, Source};
use tandem_host::plugin::{
    AdmissionOptions, Engine, ExecOutput, HookPoint, NoWorkspace, PluginLimits, RunPoint, SearchHit,
    WorkspaceAccess, WorkspaceEntry, WorkspaceError, run_point,
};

const NAMES: [&str; 6] =
    ["budget-warning", "check-names", "edit", "hold-empty-patch", "new-file-reminder", "rescue-patch"];

static ENGINE: LazyLock<Engine> = LazyLock::new(|| Engine::new(PluginLimits::default()).unwrap());

static FORGE: LazyLock<Forge> = LazyLock::new(|| {
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("forge");
    Forge::new(ForgeConfig::new(cache)).unwrap_or_else(|error| panic!("{error}"))
});

fn plugin_dir(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../plugins").join(name)
}

/// The components of the first-party plugins, built from their crates.
static COMPONENTS: LazyLock<BTreeMap<&str, Vec<u8>>> = LazyLock::new(|| {
    let build = |name| {
        let built = FORGE.build(&Source::Crate { dir: plugin_dir(name) });
        (name, built.unwrap_or_else(|error| panic!("{name}: {error}")).component)
    };
    NAMES.map(build).into()
});

/// What a plugin answers at a point. Missing input is completed as `plugin run` does.
async fn answer(
    component: &[u8],
    point: HookPoint,
    input: Value,
    workspace: Arc<dyn WorkspaceAccess>,
) -> String {
    let how = RunPoint { grants: None, settings: Default::default(), seed: 1, workspace };
    let output = run_point(&ENGINE, component, point, &input, how, &AdmissionOptions::default()).await;
    output.unwrap_or_else(|error| panic!("{error}")).output.to_string()
}

/// A plugin with the point that a test asks.
struct Asked {
    component: &'static [u8],
    point: HookPoint,
    workspace: Arc<dyn WorkspaceAccess>,
}

impl Asked {
    fn new(name: &str, point: HookPoint) -> Self {
        Self { component: &COMPONENTS[name], point, workspace: Arc::new(NoWorkspace) }
    }

    async fn check(&self, input: Value, expected: Expect) {
        expected.assert_eq(&answer(self.component, self.point, input, self.workspace.clone()).await);
    }
}

/// A git repository in a folder of its own, reached as a workspace is.
struct Folder(tempfile::TempDir);

impl Folder {
    /// Commits `base`, then writes `changes` over it.
    fn new(base: &[(&str, &str)], changes: &[(&str, &str)]) -> Self {
        let folder = Self(tempfile::tempdir().unwrap());
        folder.git(&["init", "-q"]);
        folder.put(base);
        folder.git(&["add", "-A"]);
        folder.git(&["-c", "user.name=t", "-c", "user.email=t@t", "commit", "-q", "-m", "base"]);
        folder.put(changes);
        folder
    }

    fn put(&self, files: &[(&str, &str)]) {
        for (name, text) in files {
            let path = self.0.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
    }

    fn git(&self, arguments: &[&str]) -> Vec<u8> {
        let output = Command::new("git").arg("-C").arg(self.0.path()).args(arguments).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    }
}

#[async_trait]
impl WorkspaceAccess for Folder {
    async fn read(&self, path: &str) -> Result<Vec<u8>, WorkspaceError> {
        std::fs::read(self.0.path().join(path)).map_err(|_| WorkspaceError::NotFound(path.into()))
    }

    async fn list(&self, path: &str) -> Result<Vec<WorkspaceEntry>, WorkspaceError> {
        Err(WorkspaceError::NotFound(path.into()))
    }

    async fn stat(&self, path: &str) -> Result<WorkspaceEntry, WorkspaceError> {
        Err(WorkspaceError::NotFound(path.into()))
    }

    async fn search(&self, _: &str, _: &str, _: u32) -> Result<Vec<SearchHit>, WorkspaceError> {
        Ok(Vec::new())
    }

    async fn diff(&self) -> Result<Vec<u8>, WorkspaceError> {
        Ok(self.git(&["diff"]))
    }

    async fn untracked(&self) -> Result<Vec<String>, WorkspaceError> {
        let output = self.git(&["ls-files", "--others", "--exclude-standard"]);
        Ok(String::from_utf8_lossy(&output).lines().map(str::to_owned).collect())
    }

    async fn write(&self, path: &str, content: &[u8]) -> Result<(), WorkspaceError> {
        if path.starts_with('/') || path.contains("..") {
            return Err(WorkspaceError::Denied(path.into()));
        }
        std::fs::write(self.0.path().join(path), content)
            .map_err(|error| WorkspaceError::Failed(error.to_string()))
    }

    async fn exec(&self, _: &[String], _: Duration) -> Result<ExecOutput, WorkspaceError> {
        Err(WorkspaceError::Denied("exec".into()))
    }
}

#[test]
fn file_and_crate_give_the_same_component() {
    for name in NAMES {
        let text = std::fs::read_to_string(plugin_dir(name).join("src/lib.rs")).unwrap();
        let source = Source::File { name: format!("{name}.rs"), text };
        let built = FORGE.build(&source).unwrap_or_else(|error| panic!("{error}"));
        assert!(built.component == COMPONENTS[name], "{name}");
    }
}

#[test]
fn a_changed_parameter_gives_another_component() {
    let text = std::fs::read_to_string(plugin_dir("budget-warning").join("src/lib.rs")).unwrap();
    let changed =
        text.replace("const TURNS_LEFT: u64 = 3; // parameter", "const TURNS_LEFT: u64 = 5; // parameter");
    assert_ne!(text, changed);
    let source = Source::File { name: "budget-warning.rs".into(), text: changed };
    assert!(FORGE.build(&source).unwrap().component != COMPONENTS["budget-warning"]);
}

#[tokio::test]
async fn budget_warning_warns_once_for_each_threshold() {
    let asked = Asked::new("budget-warning", HookPoint::OnModelCall);
    let at = |turn: u64, limit: Value| json!({"context": {"turn": turn, "budget": {"turns": {"used": turn - 1, "limit": limit}}}});
    asked.check(at(1, json!(10)), expect!["null"]).await;
    asked.check(at(6, json!(10)), expect!["null"]).await;
    asked
        .check(
            at(7, json!(10)),
            expect![[r#"{"note":"4 of 10 turns are left. Keep to the shortest way to a fix."}"#]],
        )
        .await;
    asked.check(at(8, json!(10)), expect![[r#"{"note":"3 of 10 turns are left. Finish the fix and hand in; work that is not handed in does not count."}"#]]).await;
    asked.check(at(9, json!(10)), expect!["null"]).await;
    asked.check(at(10, json!(10)), expect!["null"]).await;
    asked.check(at(200, Value::Null), expect!["null"]).await;
    asked
        .check(
            at(151, json!(250)),
            expect![[r#"{"note":"100 of 250 turns are left. Keep to the shortest way to a fix."}"#]],
        )
        .await;
    asked.check(at(248, json!(250)), expect![[r#"{"note":"3 of 250 turns are left. Finish the fix and hand in; work that is not handed in does not count."}"#]]).await;
    asked.check(at(1, json!(1)), expect!["null"]).await;
    asked.check(at(5, json!(1)), expect!["null"]).await;
    asked.check(at(1, json!(0)), expect!["null"]).await;
}

fn submission(bytes: u64, files: &[&str], changed: &[&str], untracked: &[&str], deferrals: u32) -> Value {
    json!({"submission": {
        "patch": {"source": "submitted", "bytes": bytes, "files": files, "applies": true},
        "work_tree": {"changed": changed, "untracked": untracked},
        "deferrals": deferrals,
    }})
}

#[tokio::test]
async fn hold_empty_patch_holds_only_empty_patches() {
    let asked = Asked::new("hold-empty-patch", HookPoint::OnSubmit);
    asked.check(submission(10, &["a.py"], &["a.py"], &[], 0), expect!["null"]).await;
    asked.check(submission(1, &[], &[], &[], 0), expect!["null"]).await;
    asked.check(submission(0, &[], &["a.py"], &[], 0), expect![[r#""Your patch is empty, but you changed a.py. Hand in the difference:\necho COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && git diff""#]]).await;
    asked.check(submission(0, &[], &["a.py", "b/ü.py"], &["c.py"], 1), expect![[r#""Your patch is empty, but you changed a.py, b/ü.py. Hand in the difference:\necho COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && git diff""#]]).await;
    asked.check(submission(0, &[], &[], &["new.py", "x.log"], 0), expect![[r#""Your patch is empty. These files are new, and `git diff` leaves them out: new.py. Name those that belong to the fix, then hand in:\ngit add -N new.py""#]]).await;
    asked.check(submission(0, &[], &[], &["__pycache__/x.pyc"], 0), expect![[r#""Your patch is empty and no file is changed. Edit the source file that has the fault, check the fix, then hand in.""#]]).await;
    asked.check(submission(0, &[], &[], &[], 0), expect![[r#""Your patch is empty and no file is changed. Edit the source file that has the fault, check the fix, then hand in.""#]]).await;
    asked.check(submission(0, &[], &["a.py"], &[], 2), expect!["null"]).await;
}

#[tokio::test]
async fn new_file_reminder_names_files_that_the_patch_leaves_out() {
    let mut asked = Asked::new("new-file-reminder", HookPoint::OnSubmit);
    asked.check(submission(10, &["a.py"], &["a.py"], &["new.py"], 0), expect![[r#""`git diff` leaves out new files: new.py. For those that belong to the fix run: git add -N new.py. Then hand in again. If none belongs to the fix, hand in again as it is.""#]]).await;
    asked.check(submission(10, &["a.py", "new.py"], &["a.py"], &["new.py"], 0), expect!["null"]).await;
    asked.check(submission(10, &["a.py"], &["a.py"], &["new.py"], 1), expect!["null"]).await;
    asked.check(submission(10, &["a.py"], &["a.py"], &[], 0), expect!["null"]).await;
    asked
        .check(submission(10, &["a.py"], &["a.py"], &["p/__pycache__/a.pyc", "repro.py"], 0), expect!["null"])
        .await;

    asked.point = HookPoint::OnToolResult;
    asked.workspace =
        Arc::new(Folder::new(&[("a.py", "x = 1\n")], &[("a.py", "x = 2\n"), ("pkg/new.py", "y = 1\n")]));
    let result = |command: &str, exit_code: i32, text: &str| {
        json!({
            "call": {"arguments": {"command": command}},
            "result": {"exit_code": exit_code, "text": text, "raw_bytes": text.len()},
        })
    };
    asked.check(result("git diff", 0, "+x = 2\n"), expect![[r#"{"annotate":"`git diff` leaves out new files: pkg/new.py. For those that belong to the fix run: git add -N pkg/new.py."}"#]]).await;
    asked.check(result("git diff", 0, "+++ b/pkg/new.py\n"), expect!["null"]).await;
    asked.check(result("git add -N pkg/new.py && git diff", 0, ""), expect!["null"]).await;
    asked.check(result("git diff", 128, ""), expect!["null"]).await;
    asked.check(result("ls", 0, ""), expect!["null"]).await;
    asked.check(json!({"result": {"status": "timed-out", "exit_code": null}}), expect!["null"]).await;
}

const BASE: [(&str, &str); 3] = [
    ("shop/__init__.py", ""),
    ("shop/price.py", "RATE = 2\n\ndef total(items, discount=0):\n    return sum(items) - discount\n"),
    ("shop/main.py", "from shop import price\n\ndef run(items):\n    return price.total(items)\n"),
];

/// What `check-names` says to a new `shop/main.py`.
async fn check_names(main: &str, deferrals: u32, expected: Expect) {
    let mut asked = Asked::new("check-names", HookPoint::OnSubmit);
    asked.workspace = Arc::new(Folder::new(&BASE, &[("shop/main.py", main)]));
    asked.check(submission(10, &["shop/main.py"], &["shop/main.py"], &[], deferrals), expected).await;
}

#[tokio::test]
async fn check_names_asks_about_what_is_not_there() {
    let unknown_call = "from shop import price\n\ndef run(items):\n    return compute_total(items)\n";
    check_names(unknown_call, 0, expect![[r#""Check these names; they are not in the work tree:\n- shop/main.py line 4: `compute_total(...)` is called, but nothing defines or imports `compute_total` here\nCorrect them, or hand in again if they are right.""#]]).await;
    check_names(unknown_call, 1, expect!["null"]).await;
    check_names("from shop import price\n\ndef run(items):\n    return price.sum_up(items)\n", 0, expect![[r#""Check these names; they are not in the work tree:\n- shop/main.py line 4: `price.sum_up(...)` is called, but shop/price.py has no such name\nCorrect them, or hand in again if they are right.""#]])
        .await;
    check_names(
        "from shop.price import total, tax\n\ndef run(items):\n    return total(items, rebate=1)\n",
        0,
        expect![[r#""Check these names; they are not in the work tree:\n- shop/main.py line 1: `tax` is imported from `shop.price`, but shop/price.py has no such name\n- shop/main.py line 4: `total(...)` takes no `rebate`; it takes (items, discount), see shop/price.py line 3\nCorrect them, or hand in again if they are right.""#]],
    )
    .await;
    check_names(
        "from .prices import total\n\ndef run(items):\n    return total(items)\n",
        0,
        expect![[r#""Check these names; they are not in the work tree:\n- shop/main.py line 1: there is no module `.prices`\nCorrect them, or hand in again if they are right.""#]],
    )
    .await;
}

#[tokio::test]
async fn check_names_passes_what_is_there() {
    check_names(
        "from shop.price import total, RATE\n\ndef run(items):\n    return total(items, discount=RATE)\n",
        0,
        expect!["null"],
    )
    .await;
    check_names(
        "import numpy as np\n\ndef run(items):\n    return np.sum(items, axis=0)\n",
        0,
        expect!["null"],
    )
    .await;
    check_names(
        "def helper(x):\n    return len(x)\n\ndef run(items):\n    return helper(items)\n",
        0,
        expect!["null"],
    )
    .await;
    check_names(BASE[2].1, 0, expect!["null"]).await;
    // Without a difference to look at it says nothing.
    Asked::new("check-names", HookPoint::OnSubmit).check(json!({}), expect!["null"]).await;
}

#[tokio::test]
async fn rescue_patch_chooses_the_work_tree_when_the_patch_is_no_use() {
    let asked = Asked::new("rescue-patch", HookPoint::OnChoosePatch);
    let candidates = |submitted: (u64, bool), tree: (u64, bool)| {
        json!({"candidates": [
            {"source": "submitted", "bytes": submitted.0, "files": ["a.py"], "applies": submitted.1},
            {"source": "work-tree", "bytes": tree.0, "files": ["a.py"], "applies": tree.1},
        ]})
    };
    asked.check(candidates((10, true), (20, true)), expect!["null"]).await;
    asked.check(candidates((10, false), (20, true)), expect!["1"]).await;
    asked.check(candidates((0, true), (20, true)), expect!["1"]).await;
    asked.check(candidates((10, false), (0, true)), expect!["null"]).await;
    asked.check(candidates((10, false), (20, false)), expect!["null"]).await;
    asked.check(candidates((0, true), (0, true)), expect!["null"]).await;
    asked.check(json!({"candidates": []}), expect!["null"]).await;
    asked
        .check(
            json!({"candidates": [{"source": "work-tree", "bytes": 9, "files": [], "applies": true}]}),
            expect!["null"],
        )
        .await;
}

#[tokio::test]
async fn rescue_patch_salvages_a_work_tree_that_applies() {
    let asked = Asked::new("rescue-patch", HookPoint::OnLimit);
    let tree = |bytes: u64, applies: bool, files: usize| json!({"work_tree": {"source": "work-tree", "bytes": bytes, "files": vec!["a.py"; files], "applies": applies}});
    asked.check(tree(10, true, 1), expect!["true"]).await;
    asked.check(tree(0, true, 0), expect!["false"]).await;
    asked.check(tree(10, false, 1), expect!["false"]).await;
    asked.check(tree(10, true, 50), expect!["false"]).await;
}

#[tokio::test]
async fn edit_changes_files_and_explains_what_fails() {
    let folder = Arc::new(Folder::new(&[("a.py", "def area(w, h):\n    return w + h\n")], &[]));
    let mut asked = Asked::new("edit", HookPoint::Tools);
    asked.workspace = folder.clone();
    let call = |arguments: Value| json!({"name": "edit", "arguments": arguments});

    asked.check(call(json!({"command": "view", "path": "a.py"})), expect![[r#"{"content":[{"text":"a.py, lines 1 to 2 of 2:\n   1  def area(w, h):\n   2      return w + h"}],"is_error":false,"structured":null}"#]]).await;
    asked
        .check(call(json!({"command": "replace", "path": "a.py", "old": "w + h", "new": "w * h"})), expect![[r#"{"content":[{"text":"Changed. a.py, lines 1 to 2 of 2:\n   1  def area(w, h):\n   2      return w * h"}],"is_error":false,"structured":null}"#]])
        .await;
    asked
        .check(call(json!({"command": "insert", "path": "a.py", "line": 0, "text": "# é"})), expect![[r#"{"content":[{"text":"Changed. a.py, lines 1 to 3 of 3:\n   1  # é\n   2  def area(w, h):\n   3      return w * h"}],"is_error":false,"structured":null}"#]])
        .await;
    asked
        .check(call(json!({"command": "insert", "path": "b.py", "line": 0, "text": "x = 1"})), expect![[r#"{"content":[{"text":"Changed. b.py, lines 1 to 1 of 1:\n   1  x = 1"}],"is_error":false,"structured":null}"#]])
        .await;
    let read = |name: &str| std::fs::read_to_string(folder.0.path().join(name)).unwrap();
    assert_eq!(read("a.py"), "# é\ndef area(w, h):\n    return w * h\n");
    assert_eq!(read("b.py"), "x = 1\n");

    asked
        .check(call(json!({"command": "replace", "path": "a.py", "old": "w + h", "new": "1"})), expect![[r#"{"content":[{"text":"`old` is not in a.py. The nearest line is 3:\n    return w * h\nCopy the text exactly as it is in the file."}],"is_error":true,"structured":null}"#]])
        .await;
    asked.check(call(json!({"command": "view", "path": "none.py"})), expect![[r#"{"content":[{"text":"none.py does not exist. `ls` shows what is there."}],"is_error":true,"structured":null}"#]]).await;
    asked.check(call(json!({"command": "insert", "path": "../x", "line": 0, "text": "x"})), expect![[r#"{"content":[{"text":"../x was not changed: ../x is outside the workspace or may not be used."}],"is_error":true,"structured":null}"#]]).await;
    asked.check(call(json!({"command": "insert", "path": "a.py", "line": 99, "text": "x"})), expect![[r#"{"content":[{"text":"a.py has 3 lines; `line` is 99. Use 3 to insert at the end."}],"is_error":true,"structured":null}"#]]).await;
    asked.check(call(json!({"path": "a.py"})), expect![[r#"{"content":[{"text":"`command` is missing: view, replace or insert."}],"is_error":true,"structured":null}"#]]).await;
    asked.check(call(json!({"command": "create", "path": "a.py"})), expect![[r#"{"content":[{"text":"There is no command `create`. Use view, replace or insert."}],"is_error":true,"structured":null}"#]]).await;
    assert_eq!(read("a.py"), "# é\ndef area(w, h):\n    return w * h\n");
}
