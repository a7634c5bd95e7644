//! Rule 3: nothing returned means nothing happens. A trap, a time-out, exhausted fuel, an output
//! over its cap or a wrong value is a fault: the original value stands, the fault is recorded,
//! and after 3 faults the plugin is out for the rest of the episode.

use std::sync::Arc;
use std::time::Duration;

use expect_test::expect;
use serde_json::json;

use super::super::testkit::*;
use super::super::*;
use crate::plugin::testkit::*;
use crate::plugin::{Engine, NoWorkspace, PluginLimits};

#[tokio::test]
async fn rule_3_nothing_returned_means_nothing_happens() {
    let mut guest = Guest::new();
    for point in HookPoint::ALL {
        guest = match point {
            HookPoint::OnLimit => guest.on(point, "(i32.const 0)"),
            HookPoint::Observe => guest.on(point, ""),
            point if point.name().starts_with("on-") => guest.on(point, NOTHING),
            _ => guest,
        };
    }
    let mut hooks = hooks(&[("silent", &guest.build())]).await;
    // In a task of its own: an episode may move between threads at every call.
    let episode = tokio::spawn(async move {
        unchanged(&mut hooks, 1).await;
        record(hooks)
    });
    assert_eq!(episode.await.unwrap(), "");
}

#[tokio::test]
async fn rule_3_text_of_no_length_is_nothing() {
    let note = notes("");
    let annotate = on(HookPoint::OnToolResult, 0, "");
    let start = says(HookPoint::OnEpisodeStart, "");
    let correct = says(HookPoint::OnFormatError, "");
    let repeat = on(HookPoint::OnLoop, 0, "");
    let plugins: [(&str, &[u8]); 5] = [
        ("note", &note),
        ("annotate", &annotate),
        ("start", &start),
        ("correct", &correct),
        ("loop", &repeat),
    ];
    let mut hooks = hooks(&plugins).await;
    unchanged(&mut hooks, 1).await;
    assert_eq!(record(hooks), "");
}

#[tokio::test]
async fn rule_3_a_fault_at_any_point_leaves_the_original() {
    let points: Vec<_> = HookPoint::ALL
        .into_iter()
        .filter(|point| point.name().starts_with("on-") || *point == HookPoint::Observe)
        .collect();
    let components: Vec<_> =
        points.iter().map(|point| from_turn_100(*point, "(unreachable)").build()).collect();
    let plugins: Vec<_> = std::iter::repeat("trap").zip(&components).collect();
    let named: Vec<_> = (0..plugins.len()).map(|at| format!("p{at}")).collect();
    let plugins: Vec<(&str, &[u8])> =
        named.iter().zip(&plugins).map(|(name, (_, bytes))| (name.as_str(), bytes.as_slice())).collect();
    let mut hooks = hooks(&plugins).await;
    unchanged(&mut hooks, 100).await;
    let (effects, faults) = hooks.finish();
    assert_eq!(effects, []);
    let faulted: Vec<_> = faults.iter().map(|fault| fault.point).collect();
    assert_eq!(faulted, points, "each point once");
}

#[tokio::test]
async fn rule_3_every_kind_of_fault_is_recorded_and_decides_nothing() {
    let check = async |limits: PluginLimits, guest: &Guest, expected: expect_test::Expect| {
        let bytes = guest.build();
        let mut hooks = hooks_of(&Engine::new(limits).unwrap(), &[("p", &bytes)]).await;
        assert_eq!(hooks.on_model_call(&at(100)).await, ModelCallEffect::Proceed(vec![]));
        let (effects, faults) = hooks.finish();
        assert_eq!((effects.len(), faults.len()), (0, 1), "{effects:?} {faults:?}");
        expected.assert_eq(&faults[0].reason);
    };
    let limits = PluginLimits::default;
    let model_call = |body: &str| from_turn_100(HookPoint::OnModelCall, body);
    check(
        limits(),
        &model_call("(unreachable)"),
        expect!["it trapped: wasm `unreachable` instruction executed"],
    )
    .await;
    check(
        PluginLimits { fuel_hook: 1_000_000, ..limits() },
        &model_call(LOOP),
        expect!["it ran out of fuel: it used all of its 1000000 units in one call"],
    )
    .await;
    let deadline_hook = Duration::from_millis(40);
    check(
        PluginLimits { fuel_hook: u64::MAX >> 1, deadline_hook, ..limits() },
        &model_call(LOOP),
        expect!["it ran too long: 41 ms of its own time in one call, limit 40 ms"],
    )
    .await;
    check(
        limits(),
        &model_call(GROW),
        expect!["it asked for too much memory: 68157440 bytes, limit 67108864 bytes"],
    )
    .await;
    check(
        limits(),
        &model_call(&say(0, "(i32.const 0)", "(i32.const 50000000)")).pages(800),
        expect!["it handed over too much at once: more than 8388608 bytes"],
    )
    .await;
    let chatty = "(loop $l (drop (call $now-ms)) (br $l)) (unreachable)";
    check(
        limits(),
        &model_call(chatty).import("clock", "now-ms", "(result i64)"),
        expect!["it made too many host calls: 10001 in one call, limit 10000"],
    )
    .await;
    let exit = model_call("(call $exit (i32.const 1)) (unreachable)")
        .package("package wasi:cli@0.2.6 { interface exit { exit: func(status: result); } }")
        .import_from("wasi:cli/exit@0.2.6", "exit", "(param i32)");
    check(limits(), &exit, expect!["it exited with code 1"]).await;
}

#[tokio::test]
async fn rule_3_a_wrong_value_is_a_fault() {
    let check = async |point, body: &str, expected: expect_test::Expect| {
        let bytes = from_turn_100(point, body).build();
        let mut hooks = hooks(&[("p", &bytes)]).await;
        unchanged(&mut hooks, 100).await;
        let (_, faults) = hooks.finish();
        let reasons: Vec<_> = faults.iter().map(|fault| fault.reason.as_str()).collect();
        expected.assert_eq(&reasons.join("\n"));
    };
    let text = |case: u32, text: &str| {
        let stores: Vec<_> = (0..)
            .zip(text.bytes())
            .map(|(at, byte)| format!("(i32.store8 (i32.const {}) (i32.const {byte}))", 200 + at))
            .collect();
        format!(
            "{} {}",
            stores.join(" "),
            say(case, "(i32.const 200)", &format!("(i32.const {})", text.len()))
        )
    };
    check(
        HookPoint::OnToolCall,
        &text(0, "[]"),
        expect!["it returned a wrong value: the rewritten arguments should be a JSON object: it is another JSON value"],
    )
    .await;
    check(
        HookPoint::OnToolCall,
        &text(0, "{"),
        expect!["it returned a wrong value: the rewritten arguments should be a JSON object: EOF while parsing an object at line 1 column 1"],
    )
    .await;
    check(
        HookPoint::OnToolCall,
        &text(9, "no such effect"),
        expect!["it returned a wrong value: unexpected discriminant: 9"],
    )
    .await;
    let not_utf8 = "(i32.store8 (i32.const 200) (i32.const 255))";
    check(
        HookPoint::OnModelCall,
        &format!("{not_utf8} {}", say(0, "(i32.const 200)", "(i32.const 1)")),
        expect!["it returned a wrong value: invalid utf-8 sequence of 1 bytes from index 0"],
    )
    .await;
    check(
        HookPoint::OnToolResult,
        &say(1, "(i32.const 0)", "(i32.const 50000000)"),
        expect!["it returned a wrong value: string pointer/length out of bounds of memory"],
    )
    .await;
    let third = SECOND.replace("(i32.const 68) (i32.const 1)", "(i32.const 68) (i32.const 2)");
    check(
        HookPoint::OnChoosePatch,
        &third,
        expect!["it returned a wrong value: it chose candidate 2 of 2, counted from 0"],
    )
    .await;
}

#[tokio::test]
async fn rule_3_the_third_fault_puts_a_plugin_out_and_no_other() {
    let trap = from_turn_100(HookPoint::OnModelCall, "(unreachable)").build();
    let fine = notes("still here");
    let mut hooks_ = hooks(&[("trap", &trap), ("fine", &fine)]).await;
    for turn in [100, 1, 101, 102, 103] {
        let ModelCallEffect::Proceed(pieces) = hooks_.on_model_call(&at(turn)).await else { panic!() };
        assert_eq!(texts(&pieces), ["still here"]);
    }
    let (_, faults) = hooks_.finish();
    let barred: Vec<_> = faults.iter().map(|fault| (fault.turn, fault.barred)).collect();
    assert_eq!(barred, [(100, false), (101, false), (102, true)]);
}

#[tokio::test]
async fn rule_3_faults_count_over_all_points_of_a_plugin() {
    let late = |body: &str| format!("(if (i32.ge_u (local.get 0) (i32.const 100)) (then {body}))");
    let trap = late("(unreachable)");
    let bytes = Guest::new()
        .on(HookPoint::OnModelCall, &format!("{trap} {NOTHING}"))
        .on(HookPoint::OnLoop, &format!("{trap} {NOTHING}"))
        .on(HookPoint::Observe, &trap)
        .build();
    let mut hooks = hooks(&[("p", &bytes)]).await;
    hooks.on_model_call(&at(100)).await;
    hooks.observe(&at(100), "turn", &json!({})).await;
    hooks.on_loop(&at(101), Repetition::SameCall).await;
    hooks.on_model_call(&at(102)).await;
    expect![[r#"
        p on-model-call turn 100 fault: it trapped: wasm `unreachable` instruction executed
        p observe turn 100 fault: it trapped: wasm `unreachable` instruction executed
        p on-loop turn 101 fault: it trapped: wasm `unreachable` instruction executed, out"#]]
    .assert_eq(&record(hooks));
}

#[tokio::test]
async fn rule_3_a_plugin_that_is_out_is_back_in_the_next_episode() {
    let trap = from_turn_100(HookPoint::OnModelCall, "(unreachable)").build();
    let lease = generation_of(engine(), &[("p", &trap)]).await.lease();
    for episode in 0..2 {
        let mut hooks = lease.open(episode, Arc::new(NoWorkspace));
        for turn in 100..105 {
            hooks.on_model_call(&at(turn)).await;
        }
        assert_eq!(hooks.finish().1.len(), 3);
    }
}
