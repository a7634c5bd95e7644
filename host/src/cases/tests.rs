//! Are cases read as they are written, and do they fail when the plugin does something else?

use std::path::Path;

use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::expect::{file_mismatch, mismatch};
use super::format::parse;
use super::*;
use crate::plugin::testkit::{Guest, LOOP, late};
use crate::plugin::{AdmissionOptions, Engine, Grants, HookPoint, PluginLimits, admit};
use crate::workspace::WorkspaceConfig;

fn check_error(text: &str, expected: Expect) {
    let error = parse(Path::new("p/cases.toml"), text).expect_err(text);
    expected.assert_eq(&error.to_string());
}

#[test]
fn broken_cases_are_named_with_their_place() {
    check_error(
        "[[case]]\nname = \"a\"\npoint = \"on-lunch\"\nexpect = \"nothing\"",
        expect![[r#"
            line 3 of `p/cases.toml` is no case: unknown variant `on-lunch`, expected one of `tools`, `on-episode-start`, `on-model-call`, `on-format-error`, `on-tool-call`, `on-tool-result`, `on-loop`, `on-submit`, `on-choose-patch`, `on-limit`, `observe`
            help: `plugins/README.md` shows the form"#]],
    );
    check_error(
        "[[case]]\nname = \"a\"\npoint = \"on-submit\"",
        expect![[r#"
            line 1 of `p/cases.toml` is no case: missing field `expect`
            help: `plugins/README.md` shows the form"#]],
    );
    let case =
        |rest: &str| format!("[[case]]\nname = \"a\"\npoint = \"on-submit\"\nexpect = \"nothing\"\n{rest}");
    check_error(
        &format!("{}\n{}", case(""), case("")),
        expect![[r#"
            the case `a` of `p/cases.toml` has a name that is empty or taken
            help: say in its name what must happen"#]],
    );
    check_error(
        &case("files.\"../x\" = \"\""),
        expect![[r#"
            the case `a` of `p/cases.toml` names the file `../x`, which is not below the workspace
            help: name files relative to the workspace, as `files."src/a.py" = "..."`"#]],
    );
    check_error(
        &case("files.x = { hex = \"9\" }"),
        expect![[r#"
            the case `a` of `p/cases.toml` has bytes of `x` that are wrong: Odd number of digits
            help: name files relative to the workspace, as `files."src/a.py" = "..."`"#]],
    );
    check_error(
        &case("before = [{ run = \"ls\", point = \"on-submit\" }]"),
        expect![[r#"
            the case `a` of `p/cases.toml` has an earlier step that neither runs a command nor calls a point
            help: give `run`, or `point` with `input`"#]],
    );
    check_error(
        "grants = [\"network\"]",
        expect![[r#"
            line 1 of `p/cases.toml` is no case: `network` is not a grant
            help: `plugins/README.md` shows the form"#]],
    );
}

#[test]
fn a_place_without_cases_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let error = Cases::read(folder.path()).unwrap_err().to_string();
    assert!(error.contains("has no cases\nhelp: write `cases.toml` beside the plugin"), "{error}");
    let error = Cases::read(&folder.path().join("gone")).unwrap_err().to_string();
    assert!(error.contains("could not be read: "), "{error}");
    std::fs::create_dir(folder.path().join("cases")).unwrap();
    let one = "[[case]]\nname = \"a\"\npoint = \"on-submit\"\nexpect = \"nothing\"\n";
    std::fs::write(folder.path().join("cases/b.toml"), one).unwrap();
    std::fs::write(folder.path().join(FILE), format!("grants = [\"log\"]\n{one}")).unwrap();
    let cases = Cases::read(folder.path()).unwrap();
    assert_eq!(cases.cases.len(), 2);
    assert_eq!(cases.grants, Some(Grants::parse(&["log"]).unwrap()));
}

#[test]
fn an_input_is_completed_by_what_follows_from_it() {
    let input = |result: &str| {
        let text = format!(
            "[[case]]\nname = \"a\"\npoint = \"on-tool-result\"\nexpect = \"nothing\"\ninput.result = {result}"
        );
        parse(Path::new("c"), &text).unwrap().1.remove(0).input
    };
    assert_eq!(
        input("{ status = \"timed-out\" }")["result"],
        json!({"status": "timed-out", "exit_code": null})
    );
    assert_eq!(input("{ text = \"é\" }")["result"], json!({"text": "é", "raw_bytes": 2}));
    assert_eq!(input("{ text = \"a\", raw_bytes = 9 }")["result"]["raw_bytes"], 9);
}

#[test]
fn answers_are_compared_with_what_is_expected() {
    let check = |expected: Value, answer: Value, what: Option<&str>| {
        assert_eq!(mismatch(HookPoint::OnSubmit, &expected, &answer).as_deref(), what, "{expected} {answer}");
    };
    check(json!("nothing"), json!(null), None);
    check(json!("nothing"), json!("x"), Some("is \"x\", and nothing was expected"));
    check(json!("x"), json!("x"), None);
    check(json!("x"), json!(null), Some("is nothing, expected \"x\""));
    check(json!(1), json!(1), None);
    check(json!({"note": {"contains": ["a", "b"], "lacks": "c"}}), json!({"note": "a b"}), None);
    check(
        json!({"note": {"contains": "z"}}),
        json!({"note": "a"}),
        Some("in `note` does not contain \"z\"; it is \"a\""),
    );
    check(
        json!({"note": {"lacks": "a"}}),
        json!({"note": "a"}),
        Some("in `note` contains \"a\"; it is \"a\""),
    );
    check(json!({"note": {"starts": "a", "ends": "c"}}), json!({"note": "a c"}), None);
    check(
        json!({"note": {"contains": "a"}}),
        json!({"stop": "a"}),
        Some("in `note` is nothing, and a text was expected"),
    );
    check(
        json!({"contains": 1}),
        json!("a"),
        Some("cannot be compared: `contains` takes a text or texts, not 1"),
    );
    check(json!([1, 2]), json!([1]), Some("is [1], expected [1,2]"));

    let tool = json!({"content": [{"text": "a"}, {"text": "b"}], "is_error": false});
    assert_eq!(mismatch(HookPoint::Tools, &json!({"text": "a\nb"}), &tool), None);
    assert_eq!(mismatch(HookPoint::OnLimit, &json!("nothing"), &json!(false)), None);
    assert!(mismatch(HookPoint::OnLimit, &json!("nothing"), &json!(true)).is_some());
    assert_eq!(file_mismatch(&json!("nothing"), None), None);
    assert!(file_mismatch(&json!("a"), None).is_some());
    assert_eq!(file_mismatch(&json!({"contains": "a"}), Some(b"bab")), None);
}

/// What comes of cases of a plugin that refuses every call with `no`, and loops from turn 100 on.
async fn check_report(cases: &str, expected: Expect) {
    let mut guest = Guest::new();
    let refuse = guest.effect(1, "no");
    let looping = late(LOOP);
    let component = guest.on(HookPoint::OnToolCall, &refuse).on(HookPoint::OnModelCall, &looping).build();
    let engine = Engine::new(PluginLimits { fuel_hook: 1_000_000, ..PluginLimits::default() }).unwrap();
    let admitted = admit(&engine, &component, &Grants::none(), &AdmissionOptions::default()).await.unwrap();
    let (_, cases) = parse(Path::new("cases.toml"), cases).unwrap();
    let report = run_cases(&admitted, &Cases { grants: None, cases }, &WorkspaceConfig::default()).await;
    expected.assert_eq(&report.unwrap().to_string());
}

#[tokio::test]
async fn a_case_that_does_not_hold_says_what_came_instead() {
    check_report(
        r#"
        [[case]]
        name = "it refuses"
        point = "on-tool-call"
        expect.refuse = "no"

        [[case]]
        name = "it stays silent"
        point = "on-tool-call"
        expect = "nothing"

        [[case]]
        name = "it is silent early"
        point = "on-model-call"
        expect = "nothing"

        [[case]]
        name = "it does not loop"
        point = "on-model-call"
        input.context.turn = 100
        expect = "nothing"

        [[case]]
        name = "it speaks at submissions"
        point = "on-submit"
        expect = "x"

        [[case]]
        name = "the input is right"
        point = "on-tool-call"
        input.call.arms = 1
        expect.refuse = "no"
        "#,
        expect![[r#"
            ok       it refuses
            FAILED   it stays silent: the answer is {"refuse":"no"}, and nothing was expected
            ok       it is silent early
            FAILED   it does not loop: the plugin ran out of fuel: it used all of its 1000000 units in one call
            help: do less in one call; look for a loop that does not end
            FAILED   it speaks at submissions: the plugin does not export `on-submit`; it exports on-model-call, on-tool-call
            FAILED   the input is right: the input for `on-tool-call` has an unknown key `call.arms`
            help: the whole input looks like this, and what you leave out is taken from it: {"call":{"arguments":{"command":"ls"},"id":"1","name":"bash"},"context":{"budget":{"seconds":{"limit":null,"used":0},"tokens":{"limit":null,"used":0},"turns":{"limit":50,"used":0}},"now_ms":0,"turn":1}}
            2 passed, 4 failed, 0 skipped"#]],
    )
    .await;
}

#[tokio::test]
async fn a_case_with_files_has_a_real_workspace() {
    check_report(
        r#"
        files."a.txt" = "one\n"

        [[case]]
        name = "files, changes, commands and earlier calls come in this order"
        point = "on-tool-call"
        changes."b.txt" = { hex = "e90a" }
        before = [
            { run = "git diff --quiet && test $(wc -c < b.txt) = 2 && echo two >> a.txt" },
            { point = "on-tool-call", expect = { refuse = "no" } },
        ]
        expect.refuse = "no"
        after."a.txt" = "one\ntwo\n"
        after."none.txt" = "nothing"

        [[case]]
        name = "a file is as it was"
        point = "on-tool-call"
        expect.refuse = "no"
        after."a.txt" = "two\n"

        [[case]]
        name = "an earlier command works"
        point = "on-tool-call"
        before = [{ run = "echo gone; exit 3" }]
        expect.refuse = "no"

        [[case]]
        name = "an earlier call is silent"
        point = "on-tool-call"
        before = [{ point = "on-tool-call", expect = "nothing" }]
        expect.refuse = "no"

        [[case]]
        name = "it needs what nobody has"
        point = "on-tool-call"
        needs = ["no-such-program"]
        expect.refuse = "no"
        "#,
        expect![[r#"
            ok       files, changes, commands and earlier calls come in this order
            FAILED   a file is as it was: the file `a.txt` is "one\n", expected "two\n"
            FAILED   an earlier command works: earlier step 1: the command `echo gone; exit 3` ended with 3: gone
            FAILED   an earlier call is silent: earlier step 1: the answer is {"refuse":"no"}, and nothing was expected
            skipped  it needs what nobody has: `no-such-program` is missing
            1 passed, 3 failed, 1 skipped"#]],
    )
    .await;
}
