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
    check(&[("x.wasm", "hello")], &["plugin", "check", "DIR/x.wasm"], 3, expect![[""]]);
}

#[test]
fn a_missing_plugin_file_is_named() {
    check(&[], &["plugin", "check", "DIR/none.wasm"], 1, expect![[""]]);
}

#[test]
fn a_task_folder_without_tests_is_named() {
    check(
        &[("tasks/a/task.toml", "schema_version = \"1.4\"\n"), ("tasks/a/instruction.md", "Mend it.\n")],
        &["tasks", "validate", "DIR/tasks"],
        1,
        expect![[""]],
    );
}

#[test]
fn a_folder_that_is_no_run_has_no_report() {
    check(&[], &["report", "DIR"], 1, expect![[""]]);
}

#[test]
fn a_pair_with_a_changed_file_is_refused() {
    let pair = r#"{"layout":1,"contract":"tandem:harness@0.1.0","harness":"sha256:0000000000000000000000000000000000000000000000000000000000000000","plugins":[],"files":{"harness.json":"sha256:0000000000000000000000000000000000000000000000000000000000000000"}}"#;
    check(
        &[("pair/pair.json", pair), ("pair/harness.json", "{}")],
        &["pair", "verify", "DIR/pair"],
        3,
        expect![[""]],
    );
}

#[cfg(feature = "train")]
mod train {
    use super::*;

    const CAMPAIGN: &str = "name = \"t\"\n[policy]\nbase = \"smollm2-135m\"\n[tasks]\ntrain = \"tasks\"\n";

    #[test]
    fn an_unknown_key_of_a_campaign_is_named() {
        let text = format!("{CAMPAIGN}[rollout]\ngroup = 4\n");
        check(&[("c.toml", &text)], &["train", "DIR/c.toml", "--run", "DIR/run"], 1, expect![[""]]);
    }

    #[test]
    fn a_group_of_one_is_refused() {
        let text = format!("{CAMPAIGN}[rollout]\ngroup_size = 1\n");
        check(&[("c.toml", &text)], &["train", "DIR/c.toml", "--run", "DIR/run"], 1, expect![[""]]);
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
        check(&files, &["train", "DIR/c.toml", "--run", "DIR/run"], 1, expect![[""]]);
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
        check(&files, &["train", "DIR/c.toml", "--run", "DIR/run"], 1, expect![[""]]);
    }

    #[test]
    fn a_run_is_not_begun_twice() {
        check(
            &[("c.toml", CAMPAIGN), ("run/campaign.json", "{}")],
            &["train", "DIR/c.toml", "--run", "DIR/run"],
            1,
            expect![[""]],
        );
    }

    #[test]
    fn nothing_to_resume_is_said() {
        check(
            &[("c.toml", CAMPAIGN)],
            &["train", "DIR/c.toml", "--run", "DIR/run", "--resume"],
            1,
            expect![[""]],
        );
    }

    #[test]
    fn a_device_that_is_none_is_refused() {
        check(
            &[("d.jsonl", "{}\n")],
            &["warmup", "--demos", "DIR/d.jsonl", "--out", "DIR/a", "--device", "tpu"],
            1,
            expect![[""]],
        );
    }
}
