//! `tandem episode`: what does it say of money, and how does it go on with a recorded episode?

mod program;

use std::path::Path;

use expect_test::{Expect, expect};
use program::{Output, Program, root};

const SUBMIT: &str = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && git diff";

/// A folder with a harness that limits money to 2 and two scripts.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("harness.toml", "contract = \"tandem:harness@0.1.0\"\n[limits]\nmoney = 2.0\n");
    let script = |commands: &[&str]| {
        let replies: Vec<_> = commands.iter().map(|command| format!("```bash\n{command}\n```")).collect();
        serde_json::json!({ "replies": replies }).to_string()
    };
    write("looks.json", &script(&["ls", "ls", "ls"]));
    write("hands-in.json", &script(&["never said", SUBMIT]));
    folder
}

fn episode(folder: &Path, arguments: &[&str]) -> Output {
    let name = folder.to_string_lossy();
    let task = root().join("host/tests/data/tasks/add").to_string_lossy().into_owned();
    let mut words = vec!["episode".to_owned(), task];
    words.extend(arguments.iter().map(|argument| argument.replace("DIR", &name)));
    Program::new(&words).env("TANDEM_HOME", &format!("{name}/home")).run()
}

/// The last lines of a summary, without the digest.
fn end(output: &Output, lines: usize) -> String {
    let all: Vec<_> = output.stdout.lines().collect();
    let last = all[all.len().saturating_sub(lines)..].join("\n");
    let cut = |line: &str| line.split(", harness").next().unwrap_or_default().to_owned();
    last.lines().map(cut).collect::<Vec<_>>().join("\n")
}

#[test]
fn money_is_told_with_the_limit_that_it_reached() {
    let scratch = folder();
    // A reply has 14 bytes, so 4 tokens: each costs 1.
    let arguments = ["--script", "DIR/looks.json", "--harness", "DIR/harness.toml", "--price", "0,250000"];
    let output = episode(scratch.path(), &arguments);
    let told = end(&output, 3);
    let (first, rest) = told.split_once(": ").unwrap_or_default();
    let (_, rest) = rest.split_once(' ').unwrap_or_default();
    expect![[r#"
        unsolved after 2 turns
        it cost 2: N tokens of prompts, 8 of replies
        because: the limit of money was reached: 2 of 2 of money was spent"#]]
    .assert_eq(&format!("{first}: N {rest}"));
    assert!(output.stdout.contains("--- turn 1, 1 of money\n"), "{}", output.stdout);
}

#[test]
fn a_recorded_episode_goes_on_after_the_turn_that_is_named() {
    let scratch = folder();
    let folder = scratch.path();
    let limited =
        ["--script", "DIR/looks.json", "--harness", "DIR/harness.toml", "--price", "0,250000", "--json"];
    std::fs::write(folder.join("record.json"), episode(folder, &limited).stdout).unwrap();
    let go_on = |after: &str| {
        episode(folder, &["--from", "DIR/record.json", "--after", after, "--script", "DIR/hands-in.json"])
    };
    let output = go_on("1");
    assert!(output.stdout.contains("--- turn 1\n```bash\nls\n"), "{}", output.stdout);
    assert_eq!(end(&output, 1), "unsolved after 2 turns", "{}", output.stderr);
    let refused = go_on("3");
    expect![[r#"
        error: the episode `tandem/add` has 2 turns, so none can follow turn 3
        help: name a turn from 0 to 2
    "#]]
    .assert_eq(&refused.stderr);
}

#[test]
fn a_price_that_is_none_is_told() {
    let scratch = folder();
    let check = |price: &str, expected: Expect| {
        let output = episode(scratch.path(), &["--script", "DIR/looks.json", "--price", price]);
        expected.assert_eq(output.stderr.lines().next().unwrap_or_default());
    };
    check(
        "3",
        expect![
            "error: invalid value '3' for '--price <PROMPT,REPLY>': two numbers are needed, such as `3,15`"
        ],
    );
    check(
        "3,x",
        expect![
            "error: invalid value '3,x' for '--price <PROMPT,REPLY>': two numbers are needed, such as `3,15`"
        ],
    );
    check(
        "3,inf",
        expect!["error: invalid value '3,inf' for '--price <PROMPT,REPLY>': a price is a number from 0 on"],
    );
}
