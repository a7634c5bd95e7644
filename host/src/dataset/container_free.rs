//! How are QuixBugs, HumanEvalFix and the polyglot exercises read? They need no
//! container: their files are in the data set, and small programs of this machine
//! run their tests.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::error::DatasetError;
use super::instance::{Instance, Solution};
use super::row::Row;

const RUN_PYTHON: &str = include_str!("run_python.py");
const QUIXBUGS_CASES: &str = include_str!("quixbugs_cases.py");
const TEST_SECONDS: f64 = 120.0;

/// A script that runs `run.py` with the parts of a program: names of files in the
/// tests, or with `=` before them in the workspace.
fn python_script(parts: &str) -> String {
    format!("#!/bin/bash\nexec /usr/bin/env python3 -I /tests/run.py {parts}\n")
}

/// A script whose reward is 1 when `command` ends with 0 and its output has a line that
/// matches `proof`: code under test that ends the process with 0 before any test ran is
/// no pass. Both may hold `$nonce`, which is drawn anew each time. What the command left
/// running is killed before the reward is written, in place of whatever lies there.
fn status_script(command: &str, proof: &str) -> String {
    format!(
        "#!/bin/bash\n\
         cd /workspace\n\
         nonce=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \\n')\n\
         before=\" $$ $(cd /proc && echo [0-9]*) \"\n\
         reward=0\n\
         if ( {command} ) > /tmp/output 2>&1; then reward=1; fi\n\
         for round in 1 2 3 4 5; do\n\
         \x20   for process in $(cd /proc && echo [0-9]*); do\n\
         \x20       case \"$before\" in *\" $process \"*) ;; *) kill -9 \"$process\" 2>/dev/null ;; esac\n\
         \x20   done\n\
         done\n\
         cat /tmp/output\n\
         grep -qE \"{proof}\" /tmp/output || reward=0\n\
         rm -rf /logs/verifier/reward.txt /logs/verifier/reward.json\n\
         echo $reward > /logs/verifier/reward.txt\n"
    )
}

fn python_instance(id: String, instruction: String, dataset: &str, parts: &str) -> Instance {
    Instance {
        id,
        instruction,
        test_script: python_script(parts),
        test_files: BTreeMap::from([("run.py".into(), RUN_PYTHON.into())]),
        test_seconds: TEST_SECONDS,
        facts: BTreeMap::from([("dataset".into(), dataset.into()), ("language".into(), "python".into())]),
        ..Instance::default()
    }
}

/// A row of HumanEvalPack, as the task to fix its function.
pub(super) fn humanevalfix(row: &Row) -> Result<Instance, DatasetError> {
    let id = row.filled("task_id")?;
    let (language, number) = id.split_once('/').unwrap_or(("Python", id));
    let part = |field| row.text_if(field).map(Option::unwrap_or_default);
    let head = format!("{}{}", part("import")?, row.text("declaration")?);
    let buggy = format!("{head}{}", row.filled("buggy_solution")?);
    let fixed = format!("{head}{}", row.filled("canonical_solution")?);
    let tests = format!("{}\n{}", part("test_setup")?, row.filled("test")?);
    let name = row.filled("entry_point")?;
    let (file, test_file) = match language {
        "Python" => ("solution.py", "tests.py"),
        "JavaScript" => ("solution.js", "tests.js"),
        "CPP" | "C++" => ("solution.cpp", "tests.cpp"),
        other => {
            return Err(row.unsupported(
                format!("tests in {other} need a container"),
                "take the Python, JavaScript or C++ rows",
            ));
        }
    };
    let instruction = format!(
        "The function `{name}` in `{file}` has a bug. Fix it.\n\nWhat it is to do:\n\n{}",
        part("docstring")?.trim()
    );
    let id = format!("humanevalfix-{}-{number}", language.to_lowercase());
    let mut instance = python_instance(id, instruction, "humanevalfix", "=solution.py tests.py");
    match language {
        "Python" => {}
        "JavaScript" => {
            instance.test_script = status_script(
                // The tests say what is wrong with `console.assert`, which only prints; they get one that throws,
                // and that the code under test does not reach.
                "{ cat solution.js; echo; echo ';(function (console) {'; cat /tests/tests.js; echo; \
                 echo '})({ assert(ok, said) { if (!ok) throw new Error(`Assertion failed: ${said}`) }, \
                 log() {}, info() {}, warn() {}, error() {} });'; \
                 echo \"console.log('all tests ended $nonce')\"; } > /tmp/all.js && node /tmp/all.js",
                "^all tests ended $nonce\\$",
            );
        }
        _ => {
            instance.test_script = status_script(
                // The tests end with their `main`, which need not say what it gives back.
                "cat solution.cpp /tests/tests.cpp > /tmp/all.cpp && \
                 echo \"#include <cstdio>\nint tests_main(); int main() { tests_main(); puts(\\\"all tests ended $nonce\\\"); }\" > /tmp/main.cpp && \
                 g++ -std=c++17 -w -Dmain=tests_main -c -o /tmp/all.o /tmp/all.cpp && \
                 g++ -std=c++17 -o /tmp/all /tmp/main.cpp /tmp/all.o && rm /tmp/main.cpp && /tmp/all",
                "^all tests ended $nonce\\$",
            );
        }
    }
    instance.facts.insert("language".into(), language.to_lowercase());
    if let Some(kind) = row.text_if("bug_type")? {
        instance.facts.insert("kind".into(), kind.to_owned());
    }
    instance.files.insert(file.into(), buggy.into_bytes());
    instance.test_files.insert(test_file.into(), tests.into_bytes());
    instance.solution_files.insert(file.into(), fixed.into_bytes());
    instance.solution = Some(copy_script(&[file.to_owned()]));
    Ok(instance)
}

/// A script that puts the files beside it into the work tree.
fn copy_script(files: &[String]) -> Solution {
    let mut script = String::from("#!/bin/bash\nset -e\nhere=$(dirname \"$0\")\n");
    for file in files {
        script.push_str(&format!("cp \"$here/{file}\" \"/workspace/{file}\"\n"));
    }
    Solution::Script(script)
}

fn read(path: &Path) -> Result<Vec<u8>, DatasetError> {
    fs::read(path).map_err(|source| DatasetError::Unreadable { path: path.to_owned(), source })
}

/// The entries of a folder, sorted.
fn entries(folder: &Path) -> Result<Vec<PathBuf>, DatasetError> {
    let unreadable = |source| DatasetError::Unreadable { path: folder.to_owned(), source };
    let listed = fs::read_dir(folder).map_err(unreadable)?;
    let mut found = listed.map(|entry| entry.map(|entry| entry.path())).collect::<Result<Vec<_>, _>>();
    if let Ok(paths) = &mut found {
        paths.sort();
    }
    found.map_err(unreadable)
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Whether a folder is a copy of QuixBugs.
pub(super) fn is_quixbugs(folder: &Path) -> bool {
    folder.join("python_programs").is_dir() && folder.join("correct_python_programs").is_dir()
}

/// The Python programs of QuixBugs.
pub(super) fn quixbugs(folder: &Path) -> Result<Vec<Instance>, DatasetError> {
    let mut instances = Vec::new();
    for path in entries(&folder.join("python_programs"))? {
        let Some(name) = name_of(&path).strip_suffix(".py").map(str::to_owned) else { continue };
        let cases = folder.join("json_testcases").join(format!("{name}.json"));
        let tests = folder.join("python_testcases").join(format!("test_{name}.py"));
        if !cases.is_file() && !tests.is_file() {
            continue;
        }
        let file = format!("{name}.py");
        let instruction = format!(
            "The program `{file}` has a bug on one line. Find it and fix it, so that the function `{name}` does \
             what the comments in the file say."
        );
        let mut instance =
            python_instance(format!("quixbugs-{name}"), instruction, "quixbugs", "quixbugs_cases.py main.py");
        let main = if cases.is_file() {
            instance.test_files.insert("cases.json".into(), read(&cases)?);
            format!("run_cases({name:?}, \"/tests/cases.json\")\n")
        } else {
            instance.test_files.insert("cases.py".into(), read(&tests)?);
            format!("run_tests({name:?}, \"/tests/cases.py\", \"/workspace\")\n")
        };
        instance.test_files.insert("main.py".into(), main.into_bytes());
        instance.test_files.insert("quixbugs_cases.py".into(), QUIXBUGS_CASES.into());
        let node = folder.join("python_programs/node.py");
        if name != "node" && node.is_file() && !cases.is_file() {
            instance.files.insert("node.py".into(), read(&node)?);
        }
        instance.files.insert(file.clone(), read(&path)?);
        let fixed = folder.join("correct_python_programs").join(&file);
        instance.solution_files.insert(file.clone(), read(&fixed)?);
        instance.solution = Some(copy_script(&[file]));
        instances.push(instance);
    }
    Ok(instances)
}

/// The languages of a copy of the polyglot exercises that need no container.
const LANGUAGES: [&str; 3] = ["python", "go", "rust"];

/// Whether a folder is a copy of the polyglot exercises.
pub(super) fn is_polyglot(folder: &Path) -> bool {
    LANGUAGES.iter().any(|language| folder.join(language).join("exercises/practice").is_dir())
}

/// The exercises in Python, Go and Rust, and how many are in other languages.
pub(super) fn polyglot(folder: &Path) -> Result<(Vec<Instance>, usize), DatasetError> {
    let mut instances = Vec::new();
    let mut others = 0;
    for language in entries(folder)? {
        let practice = language.join("exercises/practice");
        if !practice.is_dir() {
            continue;
        }
        let name = name_of(&language);
        for exercise in entries(&practice)? {
            if LANGUAGES.contains(&name.as_str()) {
                instances.push(exercise_of(&name, &exercise)?);
            } else {
                others += 1;
            }
        }
    }
    Ok((instances, others))
}

fn exercise_of(language: &str, folder: &Path) -> Result<Instance, DatasetError> {
    let path = folder.join(".meta/config.json");
    let bad = |reason: String| DatasetError::NotJson { path: path.clone(), row: 1, reason };
    let config: Value = serde_json::from_slice(&read(&path)?).map_err(|error| bad(error.to_string()))?;
    let list = |key: &str| -> Result<Vec<String>, DatasetError> {
        let list =
            config["files"][key].as_array().ok_or_else(|| bad(format!("it has no list `files.{key}`")))?;
        Ok(list.iter().filter_map(|file| file.as_str().map(str::to_owned)).collect())
    };
    let (solution, tests, examples) = (list("solution")?, list("test")?, list("example")?);
    let mut instruction = String::new();
    for part in ["introduction.md", "instructions.md", "instructions.append.md"] {
        if let Ok(text) = fs::read_to_string(folder.join(".docs").join(part)) {
            instruction.push_str(text.trim());
            instruction.push_str("\n\n");
        }
    }
    instruction.push_str(&format!("Write your solution into {}.", quoted(&solution)));
    let mut instance = python_instance(
        format!("polyglot-{language}-{}", name_of(folder)),
        instruction,
        "polyglot",
        "main.py",
    );
    instance.facts.insert("language".into(), language.to_owned());
    let copied: String =
        tests.iter().map(|test| format!("cp \"/tests/files/{test}\" \"{test}\" && ")).collect();
    match language {
        "python" => {
            let modules: Vec<&str> = tests.iter().filter_map(|test| test.strip_suffix(".py")).collect();
            instance.test_files.insert("main.py".into(), unittest_main(&modules).into_bytes());
        }
        "go" => {
            let command = format!("{copied}GOFLAGS=-mod=mod go test -v ./...");
            instance.test_script = status_script(&command, "^--- PASS: ");
        }
        _ => {
            let command = format!("{copied}cargo test --offline -- --include-ignored");
            instance.test_script = status_script(&command, "^test result: ok\\. [1-9]");
        }
    }
    for test in &tests {
        let name = if language == "python" { test.clone() } else { format!("files/{test}") };
        instance.test_files.insert(name, read(&folder.join(test))?);
    }
    add_files(folder, Path::new(""), &tests, &mut instance.files)?;
    let mut copies = Vec::new();
    for (file, example) in solution.iter().zip(&examples) {
        instance.solution_files.insert(file.clone(), read(&folder.join(example))?);
        copies.push(file.clone());
    }
    if copies.len() == solution.len() {
        instance.solution = Some(copy_script(&copies));
    }
    Ok(instance)
}

/// Runs the modules with `unittest` in the process that hands the number back.
fn unittest_main(modules: &[&str]) -> String {
    format!(
        "import unittest\nsuite = unittest.TestSuite()\nfor name in {modules:?}:\n    \
         suite.addTests(unittest.defaultTestLoader.loadTestsFromName(name))\n\
         result = unittest.TextTestRunner().run(suite)\n\
         if not result.wasSuccessful() or result.testsRun == 0:\n    raise SystemExit(1)\n\
         class MustFail(unittest.TestCase):\n    def test(self):\n        self.assertEqual(1, 2)\n\
         caught = unittest.TestResult()\nMustFail(\"test\").run(caught)\n\
         if len(caught.failures) != 1:\n    raise SystemExit(\"unittest is not what it was\")\n"
    )
}

/// The files of an exercise that the agent sees: neither tests, nor the folders of
/// its description and its known solution.
fn add_files(
    root: &Path,
    below: &Path,
    tests: &[String],
    files: &mut BTreeMap<String, Vec<u8>>,
) -> Result<(), DatasetError> {
    for path in entries(&root.join(below))? {
        let inside = below.join(name_of(&path));
        let name = inside.to_string_lossy().into_owned();
        if name == ".meta" || name == ".docs" || tests.contains(&name) {
            continue;
        }
        if path.is_dir() {
            add_files(root, &inside, tests, files)?;
        } else if path.is_file() {
            files.insert(name, read(&path)?);
        }
    }
    Ok(())
}

fn quoted(files: &[String]) -> String {
    files.iter().map(|file| format!("`{file}`")).collect::<Vec<_>>().join(", ")
}
