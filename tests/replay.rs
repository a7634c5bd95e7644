//! Recorded episodes under another harness or another plugin, as a user asks for it.

mod program;

use std::path::PathBuf;

use expect_test::{Expect, expect};
use program::{Program, root, tandem_home};
use serde_json::Value;
use tandem_host::harness::HarnessManifest;
use tandem_host::store::BlobStore;

const HOLD: &str = include_str!("data/look-again.rs");

const CASES: &str = r#"[[case]]
name = "the first time"
point = "on-submit"
expect = "Look again."

[[case]]
name = "the second time"
point = "on-submit"
input.submission.deferrals = 1
expect = "nothing"
"#;

/// A run with one recorded episode on the task `add` of the tests.
struct Recorded(tempfile::TempDir);

impl Recorded {
    fn new() -> Self {
        let recorded = Self(tempfile::tempdir().unwrap());
        let episode = recorded.run(&["episode", "ADD", "--script", "ADD/solution/demo.json", "--json"]);
        assert_eq!(episode.0, Some(0), "{}", episode.1);
        let record: Value = serde_json::from_str(&episode.1).unwrap();
        let run = recorded.path("run");
        std::fs::create_dir_all(&run).unwrap();
        std::fs::write(run.join("run.sqlite"), "").unwrap();
        // The program makes its tables at the first look; the run has no episode yet.
        assert_eq!(recorded.run(&["replay", "DIR/run", "--same", "--tasks", "TASKS"]).0, Some(1));
        let blobs = BlobStore::open(run.join("blobs")).unwrap();
        let digest = blobs.put(episode.1.as_bytes()).unwrap();
        let harness = blobs.put(HarnessManifest::bare().canonical_json().as_bytes()).unwrap();
        assert_eq!(record["harness"], harness.to_string());
        let connection = rusqlite::Connection::open(run.join("run.sqlite")).unwrap();
        connection
            .execute(
                "INSERT INTO episode VALUES (?1, 1, 'collect', ?2, 'g', 0, ?3, NULL, 'solved', 'submitted', 3, 9, 0, 0, 0.5, ?4, 0)",
                [
                    record["id"].as_str().unwrap(),
                    record["task"].as_str().unwrap(),
                    record["harness"].as_str().unwrap(),
                    &digest.to_string(),
                ],
            )
            .unwrap();
        recorded
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn run(&self, words: &[&str]) -> (Option<i32>, String, String) {
        let data = root().join("host/tests/data/tasks");
        let replaced = |word: &&str| {
            word.replace("DIR", &self.0.path().to_string_lossy())
                .replace("ADD", &data.join("add").to_string_lossy())
                .replace("TASKS", &data.to_string_lossy())
        };
        let words: Vec<_> = words.iter().map(replaced).collect();
        let output = Program::new(&words).env("TANDEM_HOME", &tandem_home()).run();
        (output.code, output.stdout, output.stderr)
    }
}

/// Runs, and compares the exit code and everything that is printed.
fn check(recorded: &Recorded, words: &[&str], code: i32, expected: Expect) {
    let (found, stdout, stderr) = recorded.run(words);
    let text = format!("{stdout}{stderr}").replace(&*recorded.0.path().to_string_lossy(), "DIR");
    expected.assert_eq(&text);
    assert_eq!(found, Some(code));
}

#[test]
fn an_episode_happens_again_under_its_own_harness() {
    let recorded = Recorded::new();
    check(
        &recorded,
        &["replay", "DIR/run", "--same", "--tasks", "TASKS"],
        0,
        expect![[r#"
        tandem/add: nothing changes
        0 of 1 episodes would change
    "#]],
    );
    check(
        &recorded,
        &["replay", "DIR/run", "--tasks", "TASKS"],
        1,
        expect![[r#"
        error: no harness was named
        help: give `--harness FILE`, `--home DIR`, `--digest DIGEST` of the run, or `--same`
    "#]],
    );
    check(
        &recorded,
        &["replay", "DIR/run", "--tasks", "TASKS", "--harness", "27be5444753d"],
        1,
        expect![[r#"
        error: there is no harness manifest 27be5444753d
        help: check the path; a harness of the run itself is named with `--digest`
    "#]],
    );
    check(
        &recorded,
        &["replay", "DIR/run", "--same"],
        1,
        expect![[r#"
        error: DIR/run/campaign.json cannot be read
        cause: No such file or directory (os error 2)
        help: name the folder of the tasks with `--tasks`
    "#]],
    );
    check(
        &recorded,
        &["replay", "DIR/run", "nobody", "--same", "--tasks", "TASKS"],
        1,
        expect![[r#"
        error: the run has no episode `nobody`
        help: leave out the ids to take the newest ones
    "#]],
    );
}

#[test]
fn an_author_sees_what_a_plugin_would_have_changed() {
    let recorded = Recorded::new();
    let folder = recorded.path("hold");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("plugin.rs"), HOLD).unwrap();
    std::fs::write(folder.join("cases.toml"), CASES).unwrap();
    std::fs::write(recorded.path("later.rs"), HOLD.replace("Look again.", "Run the tests.")).unwrap();
    for (source, component) in [("DIR/hold", "DIR/hold.wasm"), ("DIR/later.rs", "DIR/later.wasm")] {
        assert_eq!(recorded.run(&["plugin", "build", source, "-o", component]).0, Some(0));
    }
    check(
        &recorded,
        &["plugin", "test", "DIR/hold", "--replay", "DIR/run", "--tasks", "TASKS"],
        0,
        expect![[r#"
            ok       the first time
            ok       the second time
            2 passed, 0 failed, 0 skipped
            tandem/add: solved after 3 turns, handed in -> goes on after 3 turns
              + turn 3, hold at on-submit: defer Look again.
              from turn 3 on the policy would have read something else
            1 of 1 episodes would change
        "#]],
    );
    let json =
        recorded.run(&["plugin", "test", "DIR/hold", "--replay", "DIR/run", "--tasks", "TASKS", "--json"]);
    let json: Value = serde_json::from_str(&json.1).unwrap();
    assert_eq!(json["replay"].as_array().unwrap().len(), 1, "{json}");
    // The digests of the two components come first.
    let diff =
        ["plugin", "diff", "DIR/hold.wasm", "DIR/later.wasm", "--replay", "DIR/run", "--tasks", "TASKS"];
    let (code, stdout, stderr) = recorded.run(&diff);
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    let told: String = stdout.lines().skip(1).map(|line| format!("{line}\n")).collect();
    expect![[r#"
        It asks for, hooks and offers the same; code or data differ.
        tandem/add:
          - turn 3, later at on-submit: defer Look again.
          + turn 3, later at on-submit: defer Run the tests.
          from turn 3 on the policy would have read something else
        1 of 1 episodes would change
    "#]]
    .assert_eq(&told);
}
