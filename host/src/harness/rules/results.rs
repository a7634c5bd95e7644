//! Rule 2, as far as the chain keeps it: a tool of a plugin answers every call with exactly one
//! result. `agent/rules.rs` counts the result calls of whole episodes.

use expect_test::expect;
use serde_json::{Value, json};

use super::super::testkit::*;
use super::super::*;
use crate::plugin::testkit::*;
use crate::plugin::{Engine, PluginLimits};
use crate::policy::ToolCall;

const SCHEMA: &str = "{\"type\": \"object\"}";

/// A tool that does `body` from turn 100 on, and says nothing before.
fn tool(name: &str, body: &str) -> Vec<u8> {
    let call = tool_says("(i32.const 0)", "(i32.const 0)", false);
    let call = format!("(if (i32.ge_u (local.get 0) (i32.const 100)) (then {body})) {call}");
    Guest::new().tools(&[(name, "Does it.", SCHEMA)], &call).build()
}

/// Status and text of the result of a call; each has one.
async fn call(hooks: &mut EpisodeHooks, turn: u32, name: &str, arguments: Value) -> String {
    let call = ToolCall { id: turn.to_string(), name: name.into(), arguments };
    match hooks.call_tool(&at(turn), &call).await {
        Some(result) => format!("{:?}: {}", result.status, result.text),
        None => "no such tool".into(),
    }
}

#[tokio::test]
async fn rule_2_every_call_of_a_plugins_tool_has_one_result() {
    let (at_, length) = TOOL_ARGUMENTS;
    let echo = tool_says(at_, length, false);
    let echo = Guest::new().tools(&[("echo", "Says its arguments.", SCHEMA)], &echo).build();
    let sorry = tool_says(at_, length, true);
    let sorry = Guest::new().tools(&[("sorry", "Fails.", SCHEMA)], &sorry).build();
    let trap = tool("trap", "(unreachable)");
    let mut hooks = hooks(&[("echo", &echo), ("sorry", &sorry), ("trap", &trap)]).await;

    let mut said = Vec::new();
    said.push(call(&mut hooks, 1, "echo", json!({"a": 1})).await);
    said.push(call(&mut hooks, 2, "echo", json!("a")).await);
    said.push(call(&mut hooks, 3, "sorry", json!({})).await);
    said.push(call(&mut hooks, 4, "bash", json!({})).await);
    for turn in [99, 100, 101, 102, 103] {
        said.push(call(&mut hooks, turn, "trap", json!({})).await);
    }
    expect![[r#"
        Finished: {"a":1}
        Failed: The arguments of `echo` are not a JSON object.
        Failed: {}
        no such tool
        Finished: 
        Failed: The tool `trap` broke down.
        Failed: The tool `trap` broke down.
        Failed: The tool `trap` broke down.
        Failed: The tool `trap` is out of order in this task."#]]
    .assert_eq(&said.join("\n"));
    expect![[r#"
        echo tools turn 1 tool-call: {"a":1}
        sorry tools turn 3 tool-call: {}
        trap tools turn 99 tool-call: 
        trap tools turn 100 fault: it trapped: wasm `unreachable` instruction executed
        trap tools turn 101 fault: it trapped: wasm `unreachable` instruction executed
        trap tools turn 102 fault: it trapped: wasm `unreachable` instruction executed, out"#]]
    .assert_eq(&record(hooks));
}

#[tokio::test]
async fn rule_2_a_plugins_tool_that_does_not_come_back_has_a_result_too() {
    let check = async |limits: PluginLimits, body: &str, reason: &str| {
        let bytes = tool("slow", body);
        let mut hooks = hooks_of(&Engine::new(limits).unwrap(), &[("slow", &bytes)]).await;
        assert_eq!(call(&mut hooks, 100, "slow", json!({})).await, "Failed: The tool `slow` broke down.");
        assert_eq!(call(&mut hooks, 1, "slow", json!({})).await, "Finished: ");
        let (_, faults) = hooks.finish();
        let reasons: Vec<_> = faults.iter().map(|fault| fault.reason.as_str()).collect();
        assert_eq!(reasons, [reason]);
    };
    let limits = PluginLimits { fuel_tool: 1_000_000, ..PluginLimits::default() };
    check(limits, LOOP, "it ran out of fuel: it used all of its 1000000 units in one call").await;
    let limits = PluginLimits {
        fuel_tool: u64::MAX >> 1,
        deadline_tool: std::time::Duration::from_millis(40),
        ..PluginLimits::default()
    };
    check(limits, LOOP, "it ran too long: 41 ms of its own time in one call, limit 40 ms").await;
    let limits = PluginLimits::default();
    check(limits, GROW, "it asked for too much memory: 68157440 bytes, limit 67108864 bytes").await;
}
