//! What does the host do with values that want to harm it: too long, too many, or of no form?

use std::sync::Arc;

use expect_test::{Expect, expect};
use serde_json::json;

use super::hostile::{attacked, check};
use super::testkit::*;
use super::*;

#[tokio::test]
async fn what_is_handed_over_is_capped_before_it_is_copied() {
    let text = |length: u32| say(0, "(i32.const 0)", &format!("(i32.const {length})"));
    check(
        "a string of 50 MB",
        Guest::new().pages(800),
        &text(50_000_000),
        expect!["it handed over too much at once: more than 8388608 bytes"],
    )
    .await;
    check(
        "a string of 1 GB, of which nothing is there",
        Guest::new(),
        &text(1 << 30),
        expect!["it returned a wrong value: string pointer/length out of bounds of memory"],
    )
    .await;
    check(
        "a string of 4 GB",
        Guest::new(),
        &text(u32::MAX),
        expect!["it returned a wrong value: string pointer/length out of bounds of memory"],
    )
    .await;

    // 100,000 arguments that are all the same kilobyte.
    let list = "(loop $l
            (i32.store offset=200000 (i32.shl (local.get $n) (i32.const 3)) (i32.const 4096))
            (i32.store offset=200004 (i32.shl (local.get $n) (i32.const 3)) (i32.const 1000))
            (local.set $n (i32.add (local.get $n) (i32.const 1)))
            (br_if $l (i32.lt_u (local.get $n) (i32.const 100000))))";
    let guest = Guest::new().import("exec", "run", "(param i32 i32 i32 i32)");
    let body = format!(
        "{list} (call $run (i32.const 200000) (i32.const 100000) (i32.const 1) (i32.const 160)) {NOTHING}"
    );
    check(
        "100,000 aliased strings to a host call",
        guest,
        &body,
        expect!["it handed over too much at once: more than 8388608 bytes"],
    )
    .await;

    // The same as content blocks of a tool, 20 bytes each.
    let blocks = "(loop $l
            (i32.store offset=200004 (i32.mul (local.get $n) (i32.const 20)) (i32.const 4096))
            (i32.store offset=200008 (i32.mul (local.get $n) (i32.const 20)) (i32.const 1000))
            (local.set $n (i32.add (local.get $n) (i32.const 1)))
            (br_if $l (i32.lt_u (local.get $n) (i32.const 100000))))
        (i32.store (i32.const 64) (i32.const 200000)) (i32.store (i32.const 68) (i32.const 100000))
        (i32.const 64)";
    tool(
        "100,000 aliased strings as a result",
        100,
        blocks,
        expect!["it handed over too much at once: more than 8388608 bytes"],
    )
    .await;
    let million =
        "(i32.store (i32.const 64) (i32.const 200000)) (i32.store (i32.const 68) (i32.const 1000000))
        (i32.const 64)";
    tool(
        "a list of a million records",
        400,
        million,
        expect!["it handed over too much at once: more than 8388608 bytes"],
    )
    .await;
    tool(
        "a list of a million records that are not there",
        32,
        million,
        expect!["it returned a wrong value: list pointer/length out of bounds of memory"],
    )
    .await;
}

/// A tool that answers with `body` from turn 100 on.
async fn tool(name: &str, pages: u32, body: &str, expected: Expect) {
    let quiet = tool_says("(i32.const 0)", "(i32.const 0)", false);
    let body =
        format!("(if (result i32) (i32.ge_u (local.get 0) (i32.const 100)) (then {body}) (else {quiet}))");
    let guest = Guest::new().pages(pages).tools(&[("t", "A tool.", "{\"type\": \"object\"}")], &body);
    let input = json!({"name": "t", "context": {"turn": 100}});
    let said = attacked(name, &guest, HookPoint::Tools, input, Arc::new(NoWorkspace)).await;
    expected.assert_eq(&said);
}

#[tokio::test]
async fn json_that_grows_when_it_is_parsed_is_refused_by_its_length() {
    // `{"a":[{"":0},{"":0},...]}`: 7 bytes that become a map with its first node.
    let mut guest = Guest::new();
    let json = format!("{{\"a\":[{}0]}}", "{\"\":0},".repeat(300_000));
    let body = guest.effect(0, &json);
    let guest = guest.pages(64).on(HookPoint::OnToolCall, &late(&body));
    let (point, input) = (HookPoint::OnToolCall, json!({"context": {"turn": 100}}));
    let said = attacked("2 MB of JSON as arguments", &guest, point, input, Arc::new(NoWorkspace)).await;
    expect!["it returned a wrong value: the rewritten arguments: 2100009 bytes of JSON, limit 262144 bytes"]
        .assert_eq(&said);
    let mut guest = Guest::new();
    let deep = format!("{{\"a\":{}}}", "[".repeat(100_000));
    let body = guest.effect(0, &deep);
    let guest = guest.on(HookPoint::OnToolCall, &late(&body));
    let input = json!({"context": {"turn": 100}});
    let said = attacked("JSON 100,000 levels deep", &guest, point, input, Arc::new(NoWorkspace)).await;
    expect!["it returned a wrong value: the rewritten arguments should be a JSON object: recursion limit exceeded at line 1 column 132"].assert_eq(&said);
}

#[tokio::test]
async fn wrong_bytes_are_wrong_values() {
    for (name, bytes, expected) in [
        ("a byte that is no UTF-8", "\\ff\\fe", "invalid utf-8 sequence of 1 bytes from index 0"),
        ("half a UTF-8 character", "\\e2\\82", "incomplete utf-8 byte sequence from index 0"),
        ("an overlong UTF-8 character", "\\c0\\af", "invalid utf-8 sequence of 1 bytes from index 0"),
        ("a surrogate in UTF-8", "\\ed\\a0\\80", "invalid utf-8 sequence of 1 bytes from index 0"),
    ] {
        let length = bytes.len() / 3;
        let body = say(0, "(i32.const 4096)", &format!("(i32.const {length})"));
        let guest = Guest::new().items(&format!("(data (i32.const 4096) \"{bytes}\")"));
        let guest = guest.on(HookPoint::OnModelCall, &late(&body));
        let input = json!({"context": {"turn": 100}});
        let said = attacked(name, &guest, HookPoint::OnModelCall, input, Arc::new(NoWorkspace)).await;
        assert_eq!(said, format!("it returned a wrong value: {expected}"), "{name}");
    }
    check(
        "an option that is neither",
        Guest::new(),
        "(i32.store8 (i32.const 64) (i32.const 2)) (i32.const 64)",
        expect!["it returned a wrong value: invalid option discriminant"],
    )
    .await;
    check(
        "an effect that does not exist",
        Guest::new(),
        &say(9, "(i32.const 0)", "(i32.const 0)"),
        expect!["it returned a wrong value: unexpected discriminant: 9"],
    )
    .await;
    check(
        "a result past the end of memory",
        Guest::new(),
        "(i32.const 2097148)",
        expect!["it returned a wrong value: pointer out of bounds of memory"],
    )
    .await;
    check(
        "a result that is not aligned",
        Guest::new(),
        "(i32.const 65)",
        expect!["it returned a wrong value: return pointer not aligned"],
    )
    .await;
    let log = || Guest::new().import("log", "log", "(param i32 i32 i32)");
    let body = format!("(call $log (i32.const 7) (i32.const 0) (i32.const 0)) {NOTHING}");
    check(
        "a log level that does not exist",
        log(),
        &body,
        expect!["it returned a wrong value: unexpected discriminant: 7"],
    )
    .await;
    let body = format!("(call $log (i32.const 1) (i32.const 2097150) (i32.const 9)) {NOTHING}");
    check(
        "an argument past the end of memory",
        log(),
        &body,
        expect!["it returned a wrong value: string pointer/length out of bounds of memory"],
    )
    .await;
    let guest = Guest::new().import("state", "get", "(param i32 i32 i32)");
    let body = format!("(call $get (i32.const 0) (i32.const 0) (i32.const -4)) {NOTHING}");
    check(
        "a place for the answer past the end of memory",
        guest,
        &body,
        expect!["it returned a wrong value: pointer out of bounds"],
    )
    .await;
    let guest = Guest::new()
        .import("settings", "get", "(param i32)")
        .realloc("(if (global.get $count) (then (return (i32.const -1))))");
    let body = format!("(global.set $count (i32.const 1)) (call $get (i32.const 128)) {NOTHING}");
    check(
        "room that is not there",
        guest,
        &body,
        expect!["it returned a wrong value: realloc return: beyond end of memory"],
    )
    .await;
    let guest = Guest::new()
        .import("settings", "get", "(param i32)")
        .realloc("(if (global.get $count) (then (call $get (i32.const 128))))");
    check(
        "a host call from cabi_realloc",
        guest,
        &body,
        expect!["it trapped: cannot leave component instance"],
    )
    .await;
}
