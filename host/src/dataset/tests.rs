//! What becomes of rows as they are published, and of rows that are wrong.

use std::fs;
use std::path::{Path, PathBuf};

use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::*;

const TEST_PATCH: &str = "diff --git a/tests/test_x.py b/tests/test_x.py\n--- a/tests/test_x.py\n+++ b/tests/test_x.py\n@@ -1 +1 @@\n-a\n+b\n";

fn version_5() -> Value {
    json!({
        "repo": "a/b", "instance_id": "a__b-1", "base_commit": "abc", "patch": "PATCH\r\n",
        "problem_statement": "It breaks.\n", "version": "1.0", "image": "swebench/x:latest",
        "eval_script": "#!/bin/bash\nset -uxo pipefail\n: '>>>>> Start Test Output'\npytest\n: '>>>>> End Test Output'\n",
        "log_parser": "parse_log_pytest", "eval_type": "pass_and_fail",
        "FAIL_TO_PASS": "[\"t.py::a[x, y]\"]", "PASS_TO_PASS": ["t.py::b"], "image_assets": "",
    })
}

fn classic() -> Value {
    json!({
        "repo": "psf/requests", "instance_id": "psf__requests-1", "base_commit": "abc", "patch": "P",
        "test_patch": TEST_PATCH, "problem_statement": "It breaks.", "hints_text": "", "version": "2.7",
        "FAIL_TO_PASS": "[\"a\"]", "PASS_TO_PASS": "[]", "difficulty": "<15 min fix",
    })
}

fn with(mut row: Value, field: &str, value: Value) -> Value {
    row[field] = value;
    row
}

fn without(mut row: Value, field: &str) -> Value {
    row.as_object_mut().unwrap().remove(field);
    row
}

/// A file of rows in a folder that lives as long as the first part.
fn rows(rows: &[Value]) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.jsonl");
    fs::write(&path, rows.iter().map(|row| format!("{row}\n")).collect::<String>()).unwrap();
    (folder, path)
}

/// Every file of the only task that becomes of a row, with its text.
fn check_folder(row: Value, options: &ImportOptions, expected: Expect) {
    let (folder, path) = rows(&[row]);
    let out = folder.path().join("out");
    let imported = import(&path, &out, options).unwrap();
    assert_eq!(imported.folders.len(), 1);
    let mut shown = String::new();
    show(&imported.folders[0], &out, &mut shown);
    expected.assert_eq(&shown);
}

fn show(folder: &Path, root: &Path, into: &mut String) {
    let mut paths: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            show(&path, root, into);
        } else {
            let text = fs::read_to_string(&path).unwrap().replace('\r', "<CR>");
            into.push_str(&format!("== {}\n{text}", path.strip_prefix(root).unwrap().display()));
            if !text.ends_with('\n') {
                into.push('\n');
            }
        }
    }
}

fn check_error(row: Value, format: Option<Format>, expected: Expect) {
    let (folder, path) = rows(&[row]);
    let options = ImportOptions { format, ..ImportOptions::default() };
    let error = import(&path, &folder.path().join("out"), &options).unwrap_err().to_string();
    assert!(!folder.path().join("out").exists());
    expected.assert_eq(&error.replace(&path.display().to_string(), "ROWS"));
}

#[test]
fn a_row_of_version_5_becomes_a_folder() {
    check_folder(
        version_5(),
        &ImportOptions::default(),
        expect![[r#"
            == a__b-1/instruction.md
            It breaks.
            == a__b-1/solution/patch.diff
            PATCH<CR>
            == a__b-1/task.toml
            schema_version = "1.4"

            [environment]
            docker_image = "swebench/x:latest"
            workdir = "/testbed"

            [metadata]
            base_commit = "abc"
            dataset = "swe-bench"
            repo = "a/b"
            version = "1.0"

            [verifier]
            timeout_sec = 1800.0
            == a__b-1/tests/grading.json
            {
              "instance_id": "a__b-1",
              "apply": "ladder",
              "rule": {
                "kind": "swebench-log",
                "version": "1.0",
                "log_parser": "parse_log_pytest",
                "eval_type": "pass_and_fail",
                "expected": {
                  "fail_to_pass": [
                    "t.py::a[x, y]"
                  ],
                  "pass_to_pass": [
                    "t.py::b"
                  ]
                }
              }
            }
            == a__b-1/tests/test.sh
            #!/bin/bash
            set -uxo pipefail
            : '>>>>> Start Test Output'
            pytest
            SWEBENCH_TEST_EXIT_CODE=$?
            : '>>>>> End Test Output'
            echo ">>>>> Test Exit Code: $SWEBENCH_TEST_EXIT_CODE"
        "#]],
    );
}

#[test]
fn a_classic_row_gets_the_script_of_its_repository() {
    check_folder(
        classic(),
        &ImportOptions::default(),
        expect![[r#"
            == psf__requests-1/instruction.md
            It breaks.
            == psf__requests-1/solution/patch.diff
            P
            == psf__requests-1/task.toml
            schema_version = "1.4"

            [environment]
            docker_image = "swebench/sweb.eval.x86_64.psf_1776_requests-1:latest"
            workdir = "/testbed"

            [metadata]
            base_commit = "abc"
            dataset = "swe-bench-classic"
            difficulty = "<15 min fix"
            language = "py"
            repo = "psf/requests"
            version = "2.7"

            [verifier]
            timeout_sec = 1800.0
            == psf__requests-1/tests/grading.json
            {
              "instance_id": "psf__requests-1",
              "apply": "ladder",
              "rule": {
                "kind": "swebench-log",
                "version": "2.7",
                "log_parser": "parse_log_requests",
                "eval_type": "pass_and_fail",
                "expected": {
                  "fail_to_pass": [
                    "a"
                  ],
                  "pass_to_pass": []
                }
              }
            }
            == psf__requests-1/tests/test.sh
            #!/bin/bash
            set -uxo pipefail
            source /opt/miniconda3/bin/activate
            conda activate testbed
            cd /testbed
            git config --global --add safe.directory /testbed
            cd /testbed
            git status
            git show
            git -c core.fileMode=false diff abc
            source /opt/miniconda3/bin/activate
            conda activate testbed
            python -m pip install .
            git checkout abc tests/test_x.py
            git apply -v - <<'EOF_114329324912'
            diff --git a/tests/test_x.py b/tests/test_x.py
            --- a/tests/test_x.py
            +++ b/tests/test_x.py
            @@ -1 +1 @@
            -a
            +b

            EOF_114329324912
            : '>>>>> Start Test Output'
            pytest -rA tests/test_x.py
            SWEBENCH_TEST_EXIT_CODE=$?
            : '>>>>> End Test Output'
            echo ">>>>> Test Exit Code: $SWEBENCH_TEST_EXIT_CODE"
            git checkout abc tests/test_x.py
        "#]],
    );
}

#[test]
fn a_fault_of_swe_smith_is_put_in_before_the_agent_comes() {
    let row = json!({
        "instance_id": "oauthlib__oauthlib.1fd52536.combine_file__09vlzwgc", "repo": "swesmith/oauthlib__oauthlib.1fd52536",
        "patch": "FAULT", "problem_statement": "It breaks.", "image_name": "swebench/swesmith.x86_64.oauthlib",
        "FAIL_TO_PASS": ["tests/a.py::A::one"], "PASS_TO_PASS": ["tests/b.py::two"],
    });
    check_folder(
        row,
        &ImportOptions::default(),
        expect![[r#"
            == oauthlib__oauthlib.1fd52536.combine_file__09vlzwgc/environment/fault.patch
            FAULT
            == oauthlib__oauthlib.1fd52536.combine_file__09vlzwgc/environment/setup.sh
            #!/bin/bash
            # Puts the fault in; the agent sees the result as the base commit.
            set -e
            [ "${TANDEM_FOR:-files}" = files ] || exit 0
            cd /testbed
            git apply --verbose "$(dirname "$0")/fault.patch"
            == oauthlib__oauthlib.1fd52536.combine_file__09vlzwgc/instruction.md
            It breaks.
            == oauthlib__oauthlib.1fd52536.combine_file__09vlzwgc/solution/fault.patch
            FAULT
            == oauthlib__oauthlib.1fd52536.combine_file__09vlzwgc/solution/solve.sh
            #!/bin/bash
            set -e
            git apply -R "$(dirname "$0")/fault.patch"
            == oauthlib__oauthlib.1fd52536.combine_file__09vlzwgc/task.toml
            schema_version = "1.4"

            [environment]
            docker_image = "swebench/swesmith.x86_64.oauthlib"
            memory_mb = 10240
            workdir = "/testbed"

            [metadata]
            dataset = "swe-smith"
            repo = "swesmith/oauthlib__oauthlib.1fd52536"

            [verifier]
            timeout_sec = 1800.0
            == oauthlib__oauthlib.1fd52536.combine_file__09vlzwgc/tests/grading.json
            {
              "instance_id": "oauthlib__oauthlib.1fd52536.combine_file__09vlzwgc",
              "apply": "ladder",
              "rule": {
                "kind": "swebench-log",
                "version": "",
                "log_parser": "swesmith_python",
                "eval_type": "pass_and_fail",
                "expected": {
                  "fail_to_pass": [
                    "tests/a.py::A::one"
                  ],
                  "pass_to_pass": [
                    "tests/b.py::two"
                  ]
                }
              }
            }
            == oauthlib__oauthlib.1fd52536.combine_file__09vlzwgc/tests/test.sh
            #!/bin/bash
            set -uxo pipefail
            source /opt/miniconda3/bin/activate
            conda activate testbed
            cd /testbed
            git checkout -- tests/a.py tests/b.py
            : '>>>>> Start Test Output'
            pytest --disable-warnings --color=no --tb=no --verbose tests/a.py tests/b.py
            : '>>>>> End Test Output'
        "#]],
    );
}

#[test]
fn rows_of_other_sets_are_known_by_their_fields() {
    let check = |row: Value, expected: &str| {
        let (folder, path) = rows(&[row]);
        let imported = import(&path, &folder.path().join("out"), &ImportOptions::default()).unwrap();
        let task = fs::read_to_string(imported.folders[0].join("task.toml")).unwrap();
        let grading = fs::read_to_string(imported.folders[0].join("tests/grading.json")).unwrap_or_default();
        let kind = grading.lines().find(|line| line.contains("\"kind\"")).unwrap_or("a reward").trim();
        let image = task.lines().find(|line| line.starts_with("docker_image")).unwrap_or("no image");
        let workdir = task.lines().find(|line| line.starts_with("workdir")).unwrap_or("");
        assert_eq!(format!("{} {kind} {image} {workdir}", imported.format.unwrap()), expected);
    };
    check(
        json!({
            "instance_id": "x__y-1", "repo": "x/y", "base_commit": "c", "problem_statement": "p", "patch": "P",
            "test_patch": TEST_PATCH, "FAIL_TO_PASS": ["a"], "PASS_TO_PASS": [], "docker_image": "swerebench/x",
            "install_config": {"test_cmd": ["pytest -rA"], "log_parser": "parse_log_pytest", "install": "x"},
        }),
        "swe-rebench-v2 \"kind\": \"all-passed\", docker_image = \"swerebench/x\" workdir = \"/y\"",
    );
    check(
        with(with(classic(), "repo", json!("getmoto/moto")), "instance_id", json!("getmoto__moto-1")),
        "swe-gym \"kind\": \"swebench-log\", docker_image = \"xingyaoww/sweb.eval.x86_64.getmoto_s_moto-1:latest\" workdir = \"/testbed\"",
    );
    check(
        json!({
            "repo_name": "pillow", "docker_image": "namanjain12/pillow_final:1", "commit_hash": "1",
            "problem_statement": "[ISSUE]\nIt breaks.\n[/ISSUE]", "expected_output_json": "{\"T.a\": \"PASSED\"}",
        }),
        "r2e-gym \"kind\": \"exact-summary\", docker_image = \"namanjain12/pillow_final:1\" workdir = \"/testbed\"",
    );
    check(
        json!({
            "task_id": "Python/0", "import": "", "declaration": "def f(x):\n", "buggy_solution": "    return x\n",
            "canonical_solution": "    return x + 1\n", "test_setup": "", "test": "assert f(1) == 2\n",
            "entry_point": "f", "docstring": "Adds one.", "bug_type": "missing logic",
        }),
        "humanevalfix a reward no image ",
    );
}

#[test]
fn pro_runs_the_script_and_the_parser_beside_the_data_set() {
    let scripts = tempfile::tempdir().unwrap();
    let below = scripts.path().join("instance_NodeBB__NodeBB-1-v2");
    fs::create_dir_all(&below).unwrap();
    fs::write(below.join("run_script.sh"), "RUN\n").unwrap();
    fs::write(below.join("parser.py"), "PARSE\n").unwrap();
    let row = json!({
        "instance_id": "instance_NodeBB__NodeBB-1-v2", "repo": "NodeBB/NodeBB", "base_commit": "c", "patch": "P",
        "problem_statement": "p", "before_repo_set_cmd": "git reset --hard c\ngit checkout d -- test/a.js",
        "selected_test_files_to_run": "['test/a.js', \"test/b.js\"]", "FAIL_TO_PASS": "['a | b']", "PASS_TO_PASS": "[]",
    });
    check_error(
        row.clone(),
        None,
        expect![[r#"
            row 1 (instance_NodeBB__NodeBB-1-v2): its run script and parser lie beside the data set
            help: name the folder `run_scripts` of SWE-bench Pro with `--scripts`"#]],
    );
    let options = ImportOptions { scripts: Some(scripts.path().to_owned()), ..ImportOptions::default() };
    check_folder(
        row,
        &options,
        expect![[r#"
            == instance_NodeBB__NodeBB-1-v2/environment/setup.sh
            #!/bin/bash
            set -e
            [ "${TANDEM_FOR:-files}" = files ] || exit 0
            cd /app
            git reset --hard c
            git checkout c
            == instance_NodeBB__NodeBB-1-v2/instruction.md
            p
            == instance_NodeBB__NodeBB-1-v2/solution/patch.diff
            P
            == instance_NodeBB__NodeBB-1-v2/task.toml
            schema_version = "1.4"

            [environment]
            docker_image = "jefzda/sweap-images:nodebb.nodebb-NodeBB__NodeBB-1-v2"
            workdir = "/app"

            [metadata]
            base_commit = "c"
            dataset = "swe-bench-pro"
            repo = "NodeBB/NodeBB"

            [verifier]
            timeout_sec = 3600.0
            == instance_NodeBB__NodeBB-1-v2/tests/grading.json
            {
              "instance_id": "instance_NodeBB__NodeBB-1-v2",
              "apply": "text-only",
              "rule": {
                "kind": "pro-output",
                "expected": {
                  "fail_to_pass": [
                    "a | b"
                  ],
                  "pass_to_pass": []
                }
              }
            }
            == instance_NodeBB__NodeBB-1-v2/tests/parser.py
            PARSE
            == instance_NodeBB__NodeBB-1-v2/tests/run_script.sh
            RUN
            == instance_NodeBB__NodeBB-1-v2/tests/test.sh
            #!/bin/bash
            cd /app
            git checkout d -- test/a.js
            bash /tests/run_script.sh test/a.js,test/b.js > /logs/verifier/stdout.log 2> /logs/verifier/stderr.log
            python /tests/parser.py /logs/verifier/stdout.log /logs/verifier/stderr.log /logs/verifier/output.json
        "#]],
    );
}

#[test]
fn a_wrong_row_is_told_by_row_and_field() {
    check_error(
        without(version_5(), "FAIL_TO_PASS"),
        None,
        expect![[r#"
        row 1 (a__b-1) has no field `FAIL_TO_PASS`
        help: rows of swe-bench have it; is the format right?"#]],
    );
    check_error(
        with(version_5(), "PASS_TO_PASS", json!("t.py::b")),
        None,
        expect![[r#"row 1 (a__b-1): the field `PASS_TO_PASS` is `"t.py::b"`, not a list of texts"#]],
    );
    check_error(
        with(version_5(), "log_parser", json!("parse_log_fortran")),
        None,
        expect![[r#"
        row 1 (a__b-1) names the log parser `parse_log_fortran`, which there is none of
        help: the parsers of swebench 5.0.2 are known"#]],
    );
    check_error(
        with(version_5(), "eval_type", json!("sometimes")),
        None,
        expect![[
            r#"row 1 (a__b-1): the field `eval_type` is `"sometimes"`, not `pass_and_fail` or `fail_only`"#
        ]],
    );
    check_error(
        with(version_5(), "problem_statement", json!(" ")),
        None,
        expect![[
            r#"row 1 (a__b-1): the field `problem_statement` is `" "`, not a text with something in it"#
        ]],
    );
    check_error(
        with(version_5(), "image_assets", json!("{\"test_patch\": [{\"path\": \"a.png\"}]}")),
        None,
        expect![[r#"
            row 1 (a__b-1): its tests need binary files that a row cannot carry (`image_assets`)
            help: leave it out; the other rows are imported with `--keep-going`"#]],
    );
    check_error(
        with(classic(), "version", json!("99.0")),
        None,
        expect![[r#"
        row 1 (psf__requests-1): version `99.0` of `psf/requests` is not known; known are 0.11, 0.13, 0.14, 0.7, 0.8, 0.9, 1.1, 1.2, 2.0, 2.10, 2.11, 2.12, 2.17, 2.18, 2.19, 2.2, 2.22, 2.25, 2.26, 2.27, 2.3, 2.31, 2.4, 2.5, 2.7, 2.8, 2.9, 3.0
        help: take a row of version 5, which carries its own script"#]],
    );
    check_error(
        json!({"question": "?", "answer": "!"}),
        None,
        expect![[r#"
        the rows of `ROWS` are of no format that is known
        help: name it with `--format`: swe-bench, swe-bench-classic, swe-bench-pro, swe-smith, swe-rebench-v2, swe-gym, r2e-gym, humanevalfix, quixbugs, polyglot; the first row has the fields `answer`, `question`"#]],
    );
    check_error(
        classic(),
        Some(Format::SweBench),
        expect![[r#"
        row 1 (psf__requests-1) has no field `log_parser`
        help: rows of swe-bench have it; is the format right?"#]],
    );
}

#[test]
fn rows_that_cannot_be_used_are_left_out_on_request() {
    let bad = with(with(version_5(), "instance_id", json!("a__b-2")), "log_parser", json!("none"));
    let (folder, path) = rows(&[version_5(), bad]);
    let out = folder.path().join("out");
    assert!(import(&path, &out, &ImportOptions::default()).is_err());
    assert!(!out.exists(), "all or nothing");
    let options = ImportOptions { keep_going: true, ..ImportOptions::default() };
    let imported = import(&path, &out, &options).unwrap();
    assert_eq!((imported.folders.len(), imported.left_out.len(), imported.in_containers), (1, 1, 1));
    let again = import(&path, &out, &options).unwrap_err().to_string();
    assert!(again.contains("is there already"), "{again}");
}

#[test]
fn parquet_and_jsonl_hold_the_same_rows() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/rows");
    let lines = source::rows(&data.join("rows.jsonl")).unwrap();
    for name in ["snappy.parquet", "plain.parquet"] {
        assert_eq!(source::rows(&data.join(name)).unwrap(), lines, "{name}");
    }
    let refused = source::rows(&data.join("zstd.parquet")).unwrap_err().to_string();
    assert!(refused.contains("zstd.parquet") && refused.contains("help:"), "{refused}");
}

#[test]
fn quixbugs_and_exercises_are_read_from_their_folders() {
    let folder = tempfile::tempdir().unwrap();
    let write = |path: &str, text: &str| {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write("q/python_programs/gcd.py", "def gcd(a, b):\n    return gcd(a % b, b)\n");
    write("q/correct_python_programs/gcd.py", "def gcd(a, b):\n    return gcd(b, a % b) if b else a\n");
    write("q/json_testcases/gcd.json", "[[17, 0], 17]\n[[13, 13], 13]\n");
    write("p/python/exercises/practice/leap/leap.py", "def leap_year(year):\n    pass\n");
    write("p/python/exercises/practice/leap/leap_test.py", "import unittest\n");
    write("p/python/exercises/practice/leap/.docs/instructions.md", "# Instructions\n\nTell leap years.\n");
    write("p/python/exercises/practice/leap/.meta/example.py", "def leap_year(year):\n    return True\n");
    write(
        "p/python/exercises/practice/leap/.meta/config.json",
        r#"{"files": {"solution": ["leap.py"], "test": ["leap_test.py"], "example": [".meta/example.py"]}}"#,
    );
    write("p/java/exercises/practice/leap/.meta/config.json", "{}");
    let out = folder.path().join("out");
    let quixbugs = import(&folder.path().join("q"), &out, &ImportOptions::default()).unwrap();
    let polyglot = import(&folder.path().join("p"), &out, &ImportOptions::default()).unwrap();
    assert_eq!((quixbugs.folders.len(), polyglot.folders.len(), polyglot.other_languages), (1, 1, 1));
    let mut names: Vec<String> = Vec::new();
    let mut left = vec![out.clone()];
    while let Some(folder) = left.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                left.push(path);
            } else {
                names.push(path.strip_prefix(&out).unwrap().display().to_string());
            }
        }
    }
    names.sort();
    expect![[r#"
        polyglot-python-leap/environment/workspace/leap.py
        polyglot-python-leap/instruction.md
        polyglot-python-leap/solution/leap.py
        polyglot-python-leap/solution/solve.sh
        polyglot-python-leap/task.toml
        polyglot-python-leap/tests/leap_test.py
        polyglot-python-leap/tests/main.py
        polyglot-python-leap/tests/run.py
        polyglot-python-leap/tests/test.sh
        quixbugs-gcd/environment/workspace/gcd.py
        quixbugs-gcd/instruction.md
        quixbugs-gcd/solution/gcd.py
        quixbugs-gcd/solution/solve.sh
        quixbugs-gcd/task.toml
        quixbugs-gcd/tests/cases.json
        quixbugs-gcd/tests/main.py
        quixbugs-gcd/tests/quixbugs_cases.py
        quixbugs-gcd/tests/run.py
        quixbugs-gcd/tests/test.sh"#]]
    .assert_eq(&names.join("\n"));
}
