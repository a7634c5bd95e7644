//! `tandem export`: a recorded episode in the formats of other programs, as a user asks for them.

mod program;

use std::path::Path;

use expect_test::{Expect, expect};
use program::{Output, Program, root};
use serde_json::Value;

/// Runs the program with `DIR` standing for a scratch folder.
fn run(folder: &Path, arguments: &[&str]) -> Output {
    let name = folder.to_string_lossy();
    let arguments: Vec<_> = arguments.iter().map(|argument| argument.replace("DIR", &name)).collect();
    Program::new(&arguments).env("TANDEM_HOME", &format!("{name}/home")).run()
}

/// The record of an episode on a task of the tests, in a file.
fn record(folder: &Path) -> String {
    let task = root().join("host/tests/data/tasks/add");
    let script = task.join("solution/demo.json");
    let (task, script) = (task.to_string_lossy(), script.to_string_lossy());
    let output = run(folder, &["episode", &task, "--script", &script, "--json"]);
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    let path = folder.join("record.json");
    std::fs::write(&path, output.stdout).unwrap();
    path.to_string_lossy().into_owned()
}

fn read(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap())
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn an_episode_is_written_in_every_format() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path();
    let record = record(folder);
    for format in ["atif", "chat", "traj"] {
        let output = run(folder, &["export", &record, "--format", format, "--out", "DIR/out"]);
        assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""));
        assert_eq!(output.stdout, format!("1 episodes in {}/out\n", folder.display()));
    }
    let mut names: Vec<_> = std::fs::read_dir(folder.join("out"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names.len(), 3, "{names:?}");
    let trajectory = read(
        &folder
            .join("out")
            .join(names.iter().find(|name| !name.contains(".traj") && name.ends_with(".json")).unwrap()),
    );
    assert_eq!(trajectory["schema_version"], "ATIF-v1.8");
    assert_eq!(trajectory["steps"][2]["tool_calls"][0]["function_name"], "bash");
    let chat = std::fs::read_to_string(folder.join("out/episodes.jsonl")).unwrap();
    let line: Value = serde_json::from_str(chat.strip_suffix('\n').unwrap()).unwrap();
    let roles: Vec<_> =
        line["messages"].as_array().unwrap().iter().map(|one| one["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["system", "user", "assistant", "user", "assistant", "user", "assistant"]);
    assert_eq!(line["tandem"]["outcome"]["outcome"], "solved");
    let traj = read(&folder.join("out").join(names.iter().find(|name| name.contains(".traj")).unwrap()));
    assert_eq!(traj["info"]["exit_status"], "Submitted");
    assert!(traj["info"]["submission"].as_str().unwrap().ends_with("+    return left + right\n"));
}

/// Refused, with what to do.
fn check(folder: &Path, arguments: &[&str], expected: Expect) {
    let output = run(folder, arguments);
    assert_eq!(output.code, Some(1));
    expected.assert_eq(&output.stderr.replace(&*folder.to_string_lossy(), "DIR"));
}

#[test]
fn what_cannot_be_exported_is_told_with_the_next_step() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path();
    std::fs::write(folder.join("other.json"), "{}").unwrap();
    let to = ["--format", "atif", "--out", "DIR/out"];
    let with = |first: &[&'static str]| [&["export"], first, &to].concat();
    check(
        folder,
        &with(&["DIR/none"]),
        expect![[r#"
        error: DIR/none is not the folder of a run: it has no run.sqlite
        help: `tandem train CAMPAIGN --run DIR` makes one
    "#]],
    );
    check(
        folder,
        &with(&["DIR/other.json"]),
        expect![[r#"
        error: DIR/other.json is no record of an episode
        cause: missing field `id` at line 1 column 2
        help: `tandem episode TASK --json` writes one
    "#]],
    );
    let record = record(folder);
    let arguments = [&["export", &record, "another"], &to[..]].concat();
    check(
        folder,
        &arguments,
        expect![[r#"
        error: DIR/record.json holds the episode `tandem/add` and not `another`
        help: leave the id out
    "#]],
    );
}
