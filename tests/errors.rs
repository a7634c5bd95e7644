//! Bad input: a clear error with the next step, and nothing lost.

mod program;

use expect_test::{Expect, expect};
use program::{Output, Program};

/// Runs the program in a scratch folder, whose path reads `DIR` in the output.
fn check(files: &[(&str, &str)], arguments: &[&str], code: i32, expected: Expect) -> Output {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let folder_name = folder.path().to_string_lossy().into_owned();
    let arguments: Vec<_> = arguments.iter().map(|argument| argument.replace("DIR", &folder_name)).collect();
    let output = Program::new(&arguments).env("TANDEM_HOME", &format!("{folder_name}/home")).run();
    expected.assert_eq(&format!("{}{}", output.stdout, output.stderr).replace(&folder_name, "DIR"));
    assert_eq!(output.code, Some(code));
    output
}

#[test]
fn a_file_that_is_no_component_is_refused() {
    check(
        &[("x.wasm", "hello")],
        &["plugin", "check", "DIR/x.wasm"],
        3,
        expect![[r#"
        error: the plugin 2cf24dba5fb0 is not WebAssembly (admission step: parse)
        help: build it for the target `wasm32-wasip2`, which makes a component
    "#]],
    );
}

#[test]
fn a_reader_that_has_seen_enough_gets_no_panic() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let home = tempfile::tempdir().unwrap();
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_tandem"))
        .args(["model", "list"])
        .env("TANDEM_HOME", home.path())
        .stdout(writer)
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    assert_eq!(output.status.code(), Some(141));
}

#[test]
fn settings_of_workspaces_that_are_wrong_name_the_page_with_the_keys() {
    check(
        &[("w.toml", "backend = \"hots\"\n")],
        &["--workspaces", "DIR/w.toml", "tasks", "validate", "DIR"],
        1,
        expect![[r#"
            error: DIR/w.toml does not say what workspaces are like: TOML parse error at line 1, column 11
              |
            1 | backend = "hots"
              |           ^^^^^^
            unknown variant `hots`, expected one of `bubblewrap`, `container`, `host`
            help: docs/workspaces.md lists every key
        "#]],
    );
}

#[test]
fn why_an_episode_failed_is_said_once() {
    let folder = tempfile::tempdir().unwrap();
    let files = [
        ("w.toml", "backend = \"host\"\n"),
        ("script.json", r#"{"replies": ["x"]}"#),
        ("a/task.toml", "schema_version = \"1.4\"\n"),
        ("a/instruction.md", "Mend it.\n"),
        ("a/environment/workspace/m.py", "x = 1\n"),
        ("a/tests/test.sh", "echo 1 > /logs/verifier/reward.txt\n"),
    ];
    for (name, text) in files {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let words = ["episode", &path("a"), "--script", &path("script.json"), "--workspaces", &path("w.toml")];
    let output = Program::new(&words.map(str::to_owned)).env("TANDEM_HOME", &path("home")).run();
    assert_eq!(output.code, Some(1), "{}{}", output.stdout, output.stderr);
    let said = output.stdout + &output.stderr;
    assert_eq!(said.matches("commands may not run without a sandbox").count(), 1, "{said}");
}

#[test]
fn a_missing_plugin_file_is_named() {
    check(
        &[],
        &["plugin", "check", "DIR/none.wasm"],
        1,
        expect![[r#"
        error: DIR/none.wasm cannot be read
        cause: No such file or directory (os error 2)
        help: check the path
    "#]],
    );
}

#[test]
fn a_task_folder_without_tests_is_named() {
    check(
        &[("tasks/a/task.toml", "schema_version = \"1.4\"\n"), ("tasks/a/instruction.md", "Mend it.\n")],
        &["tasks", "validate", "DIR/tasks"],
        3,
        expect![[r#"
            task  difficulty  reference   empty  seconds  verdict
            a     -                 0/0     0/0     0.00  NOT FIT

            1 tasks, 0 fit, 1 not fit

            a: task folder `DIR/tasks/a` has no `tests/test.sh`
            help: write a script that leaves 1 or 0 in `/logs/verifier/reward.txt`
        "#]],
    );
}

#[test]
fn a_folder_that_is_no_run_has_no_report() {
    check(
        &[],
        &["report", "DIR"],
        1,
        expect![[r#"
        error: DIR is not the folder of a run: it has no run.sqlite
        help: `tandem train CAMPAIGN --run DIR` makes one
    "#]],
    );
}

#[test]
fn a_pair_with_a_changed_file_is_refused() {
    let pair = r#"{"layout":1,"contract":"tandem:harness@0.1.0","harness":"sha256:0000000000000000000000000000000000000000000000000000000000000000","plugins":[],"files":{"harness.json":"sha256:0000000000000000000000000000000000000000000000000000000000000000"}}"#;
    check(
        &[("pair/pair.json", pair), ("pair/harness.json", "{}")],
        &["pair", "verify", "DIR/pair"],
        3,
        expect![[r#"
            error: file harness.json of the pair was changed: its digest is sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a, and sha256:0000000000000000000000000000000000000000000000000000000000000000 is expected
            help: copy the pair again
        "#]],
    );
}

mod train {
    use super::*;

    const CAMPAIGN: &str = "name = \"t\"\n[policy]\nbase = \"smollm2-135m\"\n[tasks]\ntrain = \"tasks\"\n";

    #[test]
    fn an_unknown_key_of_a_campaign_is_named() {
        let text = format!("{CAMPAIGN}[rollout]\ngroup = 4\n");
        check(
            &[("c.toml", &text)],
            &["train", "DIR/c.toml", "--run", "DIR/run"],
            1,
            expect![[r#"
            error: campaign file DIR/c.toml is not right: TOML parse error at line 7, column 1
              |
            7 | group = 4
              | ^^^^^
            unknown field `group`, expected one of `group_size`, `groups`, `diagnosed`, `concurrency`, `retries`, `sampling`, `top_up`, `budget`
            help: docs/campaign.md lists every key
        "#]],
        );
    }

    #[test]
    fn a_group_of_one_is_refused() {
        let text = format!("{CAMPAIGN}[rollout]\ngroup_size = 1\n");
        check(
            &[("c.toml", &text)],
            &["train", "DIR/c.toml", "--run", "DIR/run"],
            1,
            expect![[r#"
            error: campaign file DIR/c.toml is not right: `rollout.group_size` is 1, but a group of one has no advantage: take 2 or more
            help: docs/campaign.md lists every key
        "#]],
        );
    }

    #[test]
    fn missing_weights_name_the_command_that_fetches_them() {
        let files = [
            ("c.toml", CAMPAIGN),
            ("tasks/a/task.toml", "schema_version = \"1.4\"\n"),
            ("tasks/a/instruction.md", "Mend it.\n"),
            ("tasks/a/environment/workspace/m.py", "x = 1\n"),
            ("tasks/a/tests/test.sh", "echo 1 > /logs/verifier/reward.txt\n"),
        ];
        check(
            &files,
            &["train", "DIR/c.toml", "--run", "DIR/run"],
            1,
            expect![[r#"
            error: the weights of `smollm2-135m` are not here: DIR/home/models/smollm2-135m.gguf does not exist
            help: run `tandem model fetch smollm2-135m`
        "#]],
        );
    }

    #[test]
    fn damaged_weights_are_told_apart_from_missing_ones() {
        let files = [
            ("c.toml", CAMPAIGN),
            ("home/models/smollm2-135m.gguf", "GGUF"),
            ("tasks/a/task.toml", "schema_version = \"1.4\"\n"),
            ("tasks/a/instruction.md", "Mend it.\n"),
            ("tasks/a/environment/workspace/m.py", "x = 1\n"),
            ("tasks/a/tests/test.sh", "echo 1 > /logs/verifier/reward.txt\n"),
        ];
        check(
            &files,
            &["train", "DIR/c.toml", "--run", "DIR/run"],
            1,
            expect![[r#"
            error: DIR/home/models/smollm2-135m.gguf is damaged: its SHA-256 is b83633aa785344791618f2fddf131b010ea04912a60430760b070bad293f65bd, and b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53 is expected
            help: delete it and run `tandem model fetch smollm2-135m`
        "#]],
        );
    }

    #[test]
    fn a_run_is_not_begun_twice() {
        check(
            &[("c.toml", CAMPAIGN), ("run/campaign.json", "{}")],
            &["train", "DIR/c.toml", "--run", "DIR/run"],
            1,
            expect![[r#"
                error: DIR/run holds a run already
                help: add `--resume` to go on with it, or take another folder with `--run`
            "#]],
        );
    }

    #[test]
    fn what_changed_since_the_run_began_is_named() {
        let kept = r#"{"name": "before"}"#;
        check(
            &[("c.toml", CAMPAIGN), ("run/campaign.json", kept)],
            &["train", "DIR/c.toml", "--run", "DIR/run", "--resume"],
            1,
            expect![[r#"
                error: DIR/c.toml says something else than the campaign that this run began with: `name` was "before", and is "t" now
                help: undo the change (the first version is DIR/run/campaign.json; a `--seed` has to be given again), or start a new run with `--run`
            "#]],
        );
    }

    #[test]
    fn nothing_to_resume_is_said() {
        check(
            &[("c.toml", CAMPAIGN)],
            &["train", "DIR/c.toml", "--run", "DIR/run", "--resume"],
            1,
            expect![[r#"
                error: DIR/run holds no run to go on with
                help: leave out `--resume`
            "#]],
        );
    }

    #[test]
    fn a_device_that_is_none_is_refused() {
        check(
            &[("d.jsonl", "{}\n")],
            &["sft", "--data", "DIR/d.jsonl", "--out", "DIR/a", "--device", "tpu"],
            1,
            expect![[r#"
                error: `tpu` is not a device
                help: devices are `cpu` and `cuda:0`, `cuda:1`, …
            "#]],
        );
    }
}
