//! Do imported tasks that need no container judge as they should, and not as code under test says?

use std::path::Path;

use serde_json::{Value, json};
use tandem_host::dataset::{ImportOptions, import};
use tandem_host::task::{Reference, Task, Verdict};
use tandem_host::workspace::WorkspaceConfig;

fn javascript() -> Value {
    json!({
        "task_id": "JavaScript/3", "prompt": "", "declaration": "const f = (x) => {\n",
        "buggy_solution": "  return x\n}\n", "canonical_solution": "  return x + 1\n}\n", "import": "",
        "test_setup": "", "test": "const t = () => {\n  console.assert(f(1) === 2)\n}\n\nt()\n",
        "entry_point": "f", "docstring": "Adds one.", "bug_type": "missing logic",
    })
}

fn cpp() -> Value {
    json!({
        "task_id": "CPP/3", "prompt": "", "declaration": "#include<stdlib.h>\nusing namespace std;\nint f(int x){\n",
        "buggy_solution": "    return x;\n}\n", "canonical_solution": "    return x + 1;\n}\n", "import": "",
        "test_setup": "#undef NDEBUG\n#include<assert.h>", "test": "int main(){\n    assert(f(1) == 2);\n}\n",
        "entry_point": "f", "docstring": "Adds one.", "bug_type": "missing logic",
    })
}

fn task(row: &Value, folder: &Path) -> Task {
    let rows = folder.join("rows.jsonl");
    std::fs::write(&rows, format!("{row}\n")).unwrap();
    let imported = import(&rows, &folder.join("tasks"), &ImportOptions::default()).unwrap();
    Task::load(&imported.folders[0]).unwrap()
}

/// A patch that replaces a whole file.
fn rewrite(file: &str, old: &str, new: &str) -> String {
    let side =
        |mark: char, text: &str| text.lines().map(|line| format!("{mark}{line}\n")).collect::<String>();
    format!(
        "diff --git a/{file} b/{file}\n--- a/{file}\n+++ b/{file}\n@@ -1,{} +1,{} @@\n{}{}",
        old.lines().count(),
        new.lines().count(),
        side('-', old),
        side('+', new)
    )
}

async fn verify(task: &Task, patch: &str) -> Verdict {
    task.verify(patch.as_bytes(), &WorkspaceConfig::default()).await.unwrap()
}

async fn check(row: Value, file: &str, repair: (&str, &str), attacks: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let task = task(&row, folder.path());
    assert!(task.reference().unwrap().is_some_and(|reference| matches!(reference, Reference::Script(_))));
    let source = std::fs::read_to_string(task.folder().join("environment/workspace").join(file)).unwrap();
    assert!(!verify(&task, "").await.solved, "{file}: as it is");
    for attack in attacks {
        let verdict = verify(&task, &rewrite(file, &source, &format!("{attack}\n{source}"))).await;
        assert!(!verdict.solved, "{file}: {attack}\n{}", verdict.output);
        assert!(!verdict.output.contains("not apply"), "{file}: {attack}\n{}", verdict.output);
    }
    let repaired = source.replace(repair.0, repair.1);
    let verdict = verify(&task, &rewrite(file, &source, &repaired)).await;
    assert!(verdict.solved, "{file}, repaired:\n{}", verdict.output);
}

#[tokio::test(flavor = "multi_thread")]
async fn code_that_ends_the_process_or_says_that_all_is_well_solves_nothing() {
    check(
        javascript(),
        "solution.js",
        ("return x", "return x + 1"),
        &[
            "process.exit(0)",
            "console.log('all tests ended'); process.exit(0)",
            "console.assert = () => {}; Object.freeze(console)",
            "process.on('uncaughtException', () => {}); process.exitCode = 0",
        ],
    )
    .await;
    check(
        cpp(),
        "solution.cpp",
        ("return x;", "return x + 1;"),
        &[
            "extern \"C\" void _exit(int); struct E { E() { _exit(0); } } ending;",
            "extern \"C\" int puts(const char*); extern \"C\" void _exit(int); struct E { E() { puts(\"all tests ended\"); _exit(0); } } e;",
            "#define assert(x)",
        ],
    )
    .await;
}
