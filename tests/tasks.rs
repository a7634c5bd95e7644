//! Data sets in, verdicts and predictions out, as a user does it.

mod program;

use std::fs;
use std::path::Path;

use expect_test::{Expect, expect};
use program::{Program, root};

/// Runs the program; the scratch folder reads `DIR` in the output.
fn check(folder: &Path, arguments: &[&str], code: i32, expected: Expect) {
    let name = folder.to_string_lossy().into_owned();
    let arguments: Vec<_> = arguments.iter().map(|argument| argument.replace("DIR", &name)).collect();
    let output = Program::new(&arguments).run();
    let shown = format!("{}{}", output.stdout, output.stderr).replace(&name, "DIR");
    // Seconds differ from run to run.
    let shown: String = shown
        .split_inclusive('\n')
        .map(|line| match line.find("fit").or(line.find("NOT FIT")) {
            Some(_) if line.contains("/2  ") => {
                let words: Vec<&str> = line.split_whitespace().filter(|word| !word.contains('.')).collect();
                words.join(" ") + "\n"
            }
            _ => line.to_owned(),
        })
        .collect();
    expected.assert_eq(&shown);
    assert_eq!(output.code, Some(code), "{shown}");
}

fn write(folder: &Path, files: &[(&str, &str)]) {
    for (name, text) in files {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
}

/// Programs as QuixBugs has them: one with cases, one with a test over nodes.
const QUIXBUGS: [(&str, &str); 8] = [
    (
        "quixbugs/python_programs/gcd.py",
        "def gcd(a, b):\n    if b == 0:\n        return a\n    return gcd(a % b, b)\n",
    ),
    (
        "quixbugs/correct_python_programs/gcd.py",
        "def gcd(a, b):\n    if b == 0:\n        return a\n    return gcd(b, a % b)\n",
    ),
    ("quixbugs/json_testcases/gcd.json", "[[17, 0], 17]\n[[13, 5], 1]\n"),
    (
        "quixbugs/python_programs/node.py",
        "class Node:\n    def __init__(self, value=None, successors=()):\n        self.value = value\n        self.successors = list(successors)\n",
    ),
    (
        "quixbugs/python_programs/reach.py",
        "def reach(start, goal):\n    return start is goal or any(reach(node, start) for node in start.successors)\n",
    ),
    (
        "quixbugs/correct_python_programs/reach.py",
        "def reach(start, goal):\n    return start is goal or any(reach(node, goal) for node in start.successors)\n",
    ),
    (
        "quixbugs/python_testcases/test_reach.py",
        "import pytest\nfrom node import Node\n\nif pytest.use_correct:\n    from correct_python_programs.reach import reach\nelse:\n    from python_programs.reach import reach\n\n\ndef test1():\n    end = Node(\"end\")\n    assert reach(Node(\"start\", [Node(\"middle\", [end])]), end)\n",
    ),
    ("quixbugs/README.md", "QuixBugs"),
];

#[test]
fn quixbugs_needs_no_container() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path();
    write(folder, &QUIXBUGS);
    check(
        folder,
        &["tasks", "import", "DIR/quixbugs", "--out", "DIR/tasks"],
        0,
        expect![[r#"
        2 tasks of quixbugs in `DIR/tasks`
    "#]],
    );
    check(
        folder,
        &["tasks", "validate", "DIR/tasks", "--times", "2"],
        0,
        expect![[r#"
            task            difficulty  reference   empty  seconds  verdict
            quixbugs-gcd - 2/2 0/2 fit
            quixbugs-reach - 2/2 0/2 fit

            2 tasks, 2 fit, 0 not fit
        "#]],
    );
    check(
        folder,
        &["tasks", "show", "DIR/tasks", "quixbugs-gcd"],
        0,
        expect![[r#"
        task       quixbugs-gcd
        files      DIR/tasks/quixbugs-gcd/environment/workspace
        judged     by the reward that tests/test.sh leaves
        time       120 seconds for the tests
        reference  a script

        The program `gcd.py` has a bug on one line. Find it and fix it, so that the function `gcd` does what the comments in the file say.
    "#]],
    );
}

#[test]
fn humanevalfix_and_exercises_need_no_container() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path();
    let row = serde_json::json!({
        "task_id": "Python/3", "import": "from typing import List\n", "declaration": "def below_zero(operations: List[int]) -> bool:\n",
        "buggy_solution": "    return sum(operations) < 0\n",
        "canonical_solution": "    balance = 0\n    for operation in operations:\n        balance += operation\n        if balance < 0:\n            return True\n    return False\n",
        "test_setup": "", "test": "def check(below_zero):\n    assert below_zero([]) == False\n    assert below_zero([1, -2, 5]) == True\n\ncheck(below_zero)\n",
        "entry_point": "below_zero", "docstring": "Whether the balance falls below zero at any time.", "bug_type": "missing logic",
    });
    write(
        folder,
        &[
            ("rows.jsonl", &format!("{row}\n")),
            ("polyglot/python/exercises/practice/leap/leap.py", "def leap_year(year):\n    pass\n"),
            (
                "polyglot/python/exercises/practice/leap/leap_test.py",
                "import unittest\nfrom leap import leap_year\n\nclass LeapTest(unittest.TestCase):\n    def test_all(self):\n        self.assertIs(leap_year(2000), True)\n        self.assertIs(leap_year(1900), False)\n\nif __name__ == '__main__':\n    unittest.main()\n",
            ),
            (
                "polyglot/python/exercises/practice/leap/.docs/instructions.md",
                "# Instructions\n\nTell leap years.\n",
            ),
            (
                "polyglot/python/exercises/practice/leap/.meta/example.py",
                "def leap_year(year):\n    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)\n",
            ),
            (
                "polyglot/python/exercises/practice/leap/.meta/config.json",
                r#"{"files": {"solution": ["leap.py"], "test": ["leap_test.py"], "example": [".meta/example.py"]}}"#,
            ),
        ],
    );
    check(
        folder,
        &["tasks", "import", "DIR/rows.jsonl", "--out", "DIR/tasks"],
        0,
        expect![[r#"
        1 tasks of humanevalfix in `DIR/tasks`
    "#]],
    );
    check(
        folder,
        &["tasks", "import", "DIR/polyglot", "--out", "DIR/tasks"],
        0,
        expect![[r#"
        1 tasks of polyglot in `DIR/tasks`
    "#]],
    );
    check(
        folder,
        &["tasks", "validate", "DIR/tasks", "--times", "2"],
        0,
        expect![[r#"
            task                   difficulty  reference   empty  seconds  verdict
            humanevalfix-python-3 - 2/2 0/2 fit
            polyglot-python-leap - 2/2 0/2 fit

            2 tasks, 2 fit, 0 not fit
        "#]],
    );
    // Ending early, with success, is no pass: the tests hand back a number of their own.
    let quick = "diff --git a/solution.py b/solution.py\n--- a/solution.py\n+++ b/solution.py\n@@ -1,3 +1,2 @@\n-from typing import List\n-def below_zero(operations: List[int]) -> bool:\n-    return sum(operations) < 0\n+import os\n+os._exit(0)\n";
    let prediction = serde_json::json!({
        "instance_id": "humanevalfix-python-3", "model_name_or_path": "m", "model_patch": quick,
    });
    write(folder, &[("p.jsonl", &format!("{prediction}\n"))]);
    check(
        folder,
        &["tasks", "evaluate", "DIR/tasks", "--predictions", "DIR/p.jsonl"],
        0,
        expect![[r#"
        1 predictions for 2 tasks: 0 resolved, 1 unresolved, 0 empty, 0 without a verdict
    "#]],
    );
}

#[test]
fn tasks_of_an_image_are_listed_and_end_without_a_verdict() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path();
    let row = serde_json::json!({
        "repo": "a/b", "instance_id": "a__b-1", "base_commit": "abc", "patch": "P", "problem_statement": "It breaks.",
        "version": "1.0", "image": "swebench/x:latest", "eval_script": "pytest", "log_parser": "parse_log_pytest",
        "eval_type": "pass_and_fail", "FAIL_TO_PASS": "[\"a\"]", "PASS_TO_PASS": [],
    });
    let prediction =
        serde_json::json!({"instance_id": "a__b-1", "model_name_or_path": "m", "model_patch": "P"});
    write(folder, &[("rows.jsonl", &format!("{row}\n")), ("p.jsonl", &format!("{prediction}\n"))]);
    check(
        folder,
        &["tasks", "import", "DIR/rows.jsonl", "--out", "DIR/tasks"],
        0,
        expect![[r#"
        1 tasks of swe-bench in `DIR/tasks`
        1 of them run in container images; without a container back-end they are listed and cannot be run
    "#]],
    );
    check(
        folder,
        &["tasks", "list", "DIR/tasks"],
        0,
        expect![[r#"
        a__b-1  -  swebench/x:latest
    "#]],
    );
    check(
        folder,
        &["tasks", "evaluate", "DIR/tasks", "--predictions", "DIR/p.jsonl"],
        3,
        expect![[r#"
        1 predictions for 1 tasks: 0 resolved, 0 unresolved, 0 empty, 1 without a verdict
        no verdict: the tests of `a__b-1` could not run: the files lie in the image `swebench/x:latest`, and the back-end is not `container`
    "#]],
    );
}

#[test]
fn predictions_are_judged_once_for_each_patch() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path();
    let tasks = root().join("host/tests/data/tasks");
    let tasks = tasks.to_string_lossy();
    let good = fs::read_to_string(root().join("host/tests/data/tasks/add/solution/patch.diff")).unwrap();
    let line = |id: &str, patch: Option<&str>| {
        serde_json::json!({"instance_id": id, "model_name_or_path": "m", "model_patch": patch}).to_string()
    };
    write(folder, &[("p.jsonl", &format!("{}\n{}\n", line("tandem/add", Some(&good)), line("greet", None)))]);
    let run = [
        "tasks",
        "evaluate",
        &tasks,
        "--predictions",
        "DIR/p.jsonl",
        "--cache",
        "DIR/cache",
        "--report",
        "DIR/r.json",
    ];
    let expected =
        || expect!["2 predictions for 2 tasks: 1 resolved, 0 unresolved, 1 empty, 0 without a verdict\n"];
    let cached = || {
        let report: serde_json::Value =
            serde_json::from_str(&fs::read_to_string(folder.join("r.json")).unwrap()).unwrap();
        assert_eq!(report["resolved_ids"], serde_json::json!(["tandem/add"]));
        assert_eq!(report["empty_patch_ids"], serde_json::json!(["greet"]));
        report["cached_instances"].as_u64()
    };
    check(folder, &run, 0, expected());
    assert_eq!(cached(), Some(0));
    check(folder, &run, 0, expected());
    assert_eq!(cached(), Some(1));
    write(folder, &[("p.jsonl", &line("nobody", Some("x")))]);
    check(
        folder,
        &["tasks", "evaluate", &tasks, "--predictions", "DIR/p.jsonl"],
        1,
        expect![[r#"
            error: there is no task for the prediction `nobody`
            help: `tandem tasks list` shows the names
        "#]],
    );
}
