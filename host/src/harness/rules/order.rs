//! Rule 1: order is the order in the harness manifest. Each hook sees the effects of the ones
//! before it; the first refusal ends a chain; observers still run.

use expect_test::expect;
use serde_json::json;

use super::super::testkit::*;
use super::super::*;
use crate::plugin::testkit::*;
use crate::policy::Piece;

fn proceeds(effect: ModelCallEffect) -> Vec<Piece> {
    match effect {
        ModelCallEffect::Proceed(pieces) => pieces,
        ModelCallEffect::Stop { reason, .. } => panic!("stopped: {reason}"),
    }
}

#[tokio::test]
async fn rule_1_order_is_the_order_of_the_manifest() {
    let (one, two, three) = (notes("one"), notes("two"), notes("three"));
    let mut hooks_ = hooks(&[("c", &two), ("a", &three), ("b", &one)]).await;
    assert_eq!(texts(&proceeds(hooks_.on_model_call(&at(1)).await)), ["two", "three", "one"]);

    let [one, two] = ["one", "two"].map(|text| on(HookPoint::OnLoop, 0, text));
    let mut hooks_ = hooks(&[("b", &two), ("a", &one)]).await;
    assert_eq!(texts(&proceeds(hooks_.on_loop(&at(1), Repetition::SameCall).await)), ["two", "one"]);

    let [one, two] = ["one", "two"].map(|text| says(HookPoint::OnEpisodeStart, text));
    let mut hooks_ = hooks(&[("b", &two), ("a", &one)]).await;
    assert_eq!(texts(&hooks_.on_episode_start(&at(0), "repair").await), ["two", "one"]);

    let [one, two] = ["one", "two"].map(|text| on(HookPoint::OnToolResult, 0, text));
    let mut hooks_ = hooks(&[("b", &two), ("a", &one)]).await;
    let pieces = hooks_.on_tool_result(&at(1), &bash("ls"), &result("a.py")).await;
    assert_eq!(texts(&pieces), ["a.py", "\ntwo", "\none"]);

    let watch = observer();
    let mut hooks_ = hooks(&[("b", &watch), ("a", &watch)]).await;
    hooks_.observe(&at(1), "turn", &json!({})).await;
    expect![[r#"
        b observe turn 1 log: info: turn
        a observe turn 1 log: info: turn"#]]
    .assert_eq(&record(hooks_));
}

#[tokio::test]
async fn rule_1_tools_are_offered_in_the_order_of_the_manifest() {
    let tool = |name: &str| {
        let call = tool_says("(i32.const 0)", "(i32.const 0)", false);
        Guest::new().tools(&[(name, "Does it.", "{\"type\": \"object\"}")], &call).build()
    };
    let hooks = hooks(&[("b", &tool("view")), ("a", &tool("edit"))]).await;
    let names: Vec<_> = hooks.tools().into_iter().map(|tool| tool.name).collect();
    assert_eq!(names, ["view", "edit"]);
}

#[tokio::test]
async fn rule_1_each_hook_sees_the_effects_of_those_before() {
    let rewrite = on(HookPoint::OnToolCall, 0, "{\"command\": \"ls -a\"}");
    let mut hooks_ = hooks(&[("rewrite", &rewrite), ("tell", &tells_arguments())]).await;
    let ToolCallEffect::Refuse(piece) = hooks_.on_tool_call(&at(1), &bash("ls")).await else { panic!() };
    assert_eq!(piece.text, "{\"command\":\"ls -a\"}");

    // Not the other way round.
    let mut hooks_ = hooks(&[("tell", &tells_arguments()), ("rewrite", &rewrite)]).await;
    let ToolCallEffect::Refuse(piece) = hooks_.on_tool_call(&at(1), &bash("ls")).await else { panic!() };
    assert_eq!(piece.text, "{\"command\":\"ls\"}");

    let (text, length) = RESULT_TEXT;
    let echo = Guest::new().on(HookPoint::OnToolResult, &say(1, text, length)).build();
    let annotate = on(HookPoint::OnToolResult, 0, "look again");
    let replace = on(HookPoint::OnToolResult, 1, "nothing to see");
    let check = async |first: &[u8], expected: &[&str]| {
        let mut hooks = hooks(&[("first", first), ("echo", &echo)]).await;
        let pieces = hooks.on_tool_result(&at(1), &bash("ls"), &result("a.py")).await;
        assert_eq!(texts(&pieces), expected);
    };
    check(&annotate, &["a.py\nlook again"]).await;
    check(&replace, &["nothing to see"]).await;
    check(&echo, &["a.py"]).await;
}

#[tokio::test]
async fn rule_1_the_choice_of_a_patch_is_what_the_next_is_shown_first() {
    let choose = Guest::new().on(HookPoint::OnChoosePatch, SECOND).build();
    let silent = Guest::new().on(HookPoint::OnChoosePatch, NOTHING).build();
    let candidates = [patch(PatchSource::Submitted, 0), patch(PatchSource::WorkTree, 9)];
    let check = async |plugins: &[(&str, &[u8])], expected: usize| {
        assert_eq!(hooks(plugins).await.on_choose_patch(&at(1), &candidates).await, expected);
    };
    check(&[("silent", &silent)], 0).await;
    check(&[("choose", &choose)], 1).await;
    check(&[("choose", &choose), ("silent", &silent)], 1).await;
    check(&[("choose", &choose), ("back", &choose)], 0).await;
}

#[tokio::test]
async fn rule_1_first_refusal_ends_the_chain_and_observers_still_run() {
    let refuse = on(HookPoint::OnToolCall, 1, "not this");
    let rewrite = on(HookPoint::OnToolCall, 0, "{}");
    let mut hooks_ = hooks(&[("refuse", &refuse), ("rewrite", &rewrite), ("watch", &observer())]).await;
    hooks_.on_tool_call(&at(3), &bash("rm -rf /")).await;
    expect![[r#"
        refuse on-tool-call turn 3 refuse: not this
        watch observe turn 3 log: info: refused"#]]
    .assert_eq(&record(hooks_));

    let defer = says(HookPoint::OnSubmit, "test it first");
    let mut hooks_ = hooks(&[("watch", &observer()), ("defer", &defer), ("defer-2", &defer)]).await;
    let effect = hooks_.on_submit(&at(4), &submission(9, 1)).await;
    assert!(matches!(effect, SubmitEffect::Defer(piece) if piece.text == "test it first"));
    // The deferrals of the harness are spent: nobody is asked.
    assert_eq!(hooks_.on_submit(&at(5), &submission(9, 2)).await, SubmitEffect::Accept);
    expect![[r#"
        defer on-submit turn 4 defer: test it first
        watch observe turn 4 log: info: deferred"#]]
    .assert_eq(&record(hooks_));

    let stop = on(HookPoint::OnModelCall, 1, "no hope");
    let note = notes("go on");
    let mut hooks_ =
        hooks(&[("note", &note), ("stop", &stop), ("stop-2", &stop), ("watch", &observer())]).await;
    let effect = hooks_.on_model_call(&at(6)).await;
    assert!(matches!(effect, ModelCallEffect::Stop { reason, .. } if reason == "no hope"));
    expect![[r#"
        note on-model-call turn 6 note: go on
        stop on-model-call turn 6 stop: no hope
        watch observe turn 6 log: info: stopped"#]]
    .assert_eq(&record(hooks_));

    let stop = on(HookPoint::OnLoop, 1, "in circles");
    let mut hooks_ = hooks(&[("watch", &observer()), ("stop", &stop), ("stop-2", &stop)]).await;
    hooks_.on_loop(&at(7), Repetition::Alternating).await;
    expect![[r#"
        stop on-loop turn 7 stop: in circles
        watch observe turn 7 log: info: stopped"#]]
    .assert_eq(&record(hooks_));
}

#[tokio::test]
async fn rule_1_the_first_text_and_the_first_yes_end_their_chains() {
    let [one, two] = ["one", "two"].map(|text| says(HookPoint::OnFormatError, text));
    let silent = Guest::new().on(HookPoint::OnFormatError, NOTHING).build();
    let mut hooks_ = hooks(&[("silent", &silent), ("one", &one), ("two", &two)]).await;
    let piece = hooks_.on_format_error(&at(1), FormatError::NoAction, "hm").await;
    assert_eq!(piece.map(|piece| piece.text).as_deref(), Some("one"));
    expect!["one on-format-error turn 1 replace: one"].assert_eq(&record(hooks_));

    let [no, yes] =
        ["(i32.const 0)", "(i32.const 1)"].map(|body| Guest::new().on(HookPoint::OnLimit, body).build());
    let mut hooks_ = hooks(&[("no", &no), ("yes", &yes), ("yes-2", &yes)]).await;
    assert!(hooks_.on_limit(&at(9), LimitKind::Turns, &patch(PatchSource::WorkTree, 9)).await);
    expect!["yes on-limit turn 9 salvage: "].assert_eq(&record(hooks_));
}
