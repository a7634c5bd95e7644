//! Does one plugin's room keep its rules of the contract? Rule 4: only the guest's own time
//! counts; fuel gives the verdict, an epoch deadline is the backstop, a host-call time-out the
//! second. Rule 9: same input, same output; admission calls a plugin twice.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use expect_test::expect;

use super::testkit::*;
use super::tests::{engine, refusal, refused};
use super::*;

/// One call of `on-model-call` under these limits, after admission.
async fn under(limits: PluginLimits, guest: &Guest, workspace: Arc<dyn WorkspaceAccess>) -> String {
    let engine = Engine::new(limits).unwrap();
    let options = AdmissionOptions::default();
    let admitted = admit(&engine, &guest.build(), &Grants::all(), &options).await.unwrap();
    let config = InstanceConfig { settings: "{}".into(), seed: 0, workspace };
    let mut instance = Instance::new(&admitted, config);
    let context = Context { turn: 100, ..Context::default() };
    match instance.on_model_call(&context).await {
        Ok(answer) => format!("{answer:?}"),
        Err(fault) => format!("it {fault}"),
    }
}

#[tokio::test]
async fn rule_4_waiting_in_host_calls_is_not_the_guests_time() {
    let deadline_hook = Duration::from_millis(40);
    let limits = PluginLimits { deadline_hook, ..PluginLimits::default() };
    let workspace = Arc::new(SlowFile(Duration::from_millis(400)));
    expect![[r#"Some(Note("read a.py"))"#]].assert_eq(&under(limits, &reader(), workspace).await);
}

#[tokio::test]
async fn rule_4_backstops_stop_what_fuel_does_not() {
    let endless = Guest::new().on(HookPoint::OnModelCall, &late(LOOP));
    let limits = PluginLimits {
        fuel_hook: u64::MAX >> 1,
        deadline_hook: Duration::from_millis(40),
        ..PluginLimits::default()
    };
    expect!["it ran too long: 41 ms of its own time in one call, limit 40 ms"]
        .assert_eq(&under(limits, &endless, Arc::new(NoWorkspace)).await);

    let limits = PluginLimits { host_call: Duration::from_millis(50), ..PluginLimits::default() };
    let workspace = Arc::new(SlowFile(Duration::from_secs(60)));
    expect!["it waited too long for `workspace-read.read`: the host gave up after 50 ms"]
        .assert_eq(&under(limits, &reader(), workspace).await);

    let body = late("(loop $l (drop (call $now-ms)) (br $l)) (unreachable)");
    let chatty = Guest::new().import("clock", "now-ms", "(result i64)").on(HookPoint::OnModelCall, &body);
    expect!["it made too many host calls: 10001 in one call, limit 10000"]
        .assert_eq(&under(PluginLimits::default(), &chatty, Arc::new(NoWorkspace)).await);
}

#[tokio::test]
async fn rule_4_a_guest_that_runs_lets_others_run() {
    let endless = Guest::new().on(HookPoint::OnModelCall, &late(LOOP));
    let engine = Engine::new(PluginLimits { fuel_hook: 400_000_000, ..Default::default() }).unwrap();
    let options = AdmissionOptions::default();
    let admitted = admit(&engine, &endless.build(), &Grants::none(), &options).await.unwrap();
    let config = InstanceConfig { settings: "{}".into(), seed: 0, workspace: Arc::new(NoWorkspace) };
    let mut instance = Instance::new(&admitted, config);
    let context = Context { turn: 100, ..Context::default() };
    // One thread: the ticks below only come through if the guest gives way.
    let mut ticks = 0;
    let call = instance.on_model_call(&context);
    tokio::pin!(call);
    let fault = loop {
        tokio::select! {
            answer = &mut call => break answer.unwrap_err(),
            () = tokio::time::sleep(Duration::from_millis(1)) => ticks += 1,
        }
    };
    assert_eq!(fault, PluginFault::Fuel { limit: 400_000_000 });
    assert!(ticks >= 3, "others ran only {ticks} times");
}

/// Works for a while, reads a file and logs, again and again, until its fuel is out.
fn works_and_reads() -> Guest {
    let mut guest = Guest::new().import("workspace-read", "read", "(param i32 i32 i32)").import(
        "log",
        "log",
        "(param i32 i32 i32)",
    );
    let (path, length) = guest.text("a.py");
    let body = format!(
        "(loop $again
            (local.set $n (i32.const 10000))
            (loop $work (local.set $n (i32.sub (local.get $n) (i32.const 1))) (br_if $work (local.get $n)))
            (call $read (i32.const {path}) (i32.const {length}) (i32.const 160))
            (call $log (i32.const 1) (i32.const {path}) (i32.const {length}))
            (br $again))
         (unreachable)"
    );
    guest.on(HookPoint::OnModelCall, &late(&body))
}

/// How often it logged before its fuel was out.
async fn rounds(file: Duration) -> usize {
    const FUEL: u64 = 1_000_000;
    let engine = Engine::new(PluginLimits { fuel_hook: FUEL, ..Default::default() }).unwrap();
    let options = AdmissionOptions::default();
    let admitted = admit(&engine, &works_and_reads().build(), &Grants::all(), &options).await.unwrap();
    let workspace = Arc::new(SlowFile(file));
    let mut instance = Instance::new(&admitted, InstanceConfig { settings: "{}".into(), seed: 0, workspace });
    let context = Context { turn: 100, ..Context::default() };
    let fault = instance.on_model_call(&context).await.unwrap_err();
    assert_eq!(fault, PluginFault::Fuel { limit: FUEL });
    instance.take_log().len()
}

#[tokio::test]
async fn rule_4_fuel_gives_the_same_verdict_again_and_on_a_busy_machine() {
    let first = rounds(Duration::ZERO).await;
    assert!(first > 5, "{first}");
    assert_eq!(rounds(Duration::ZERO).await, first);

    let done = Arc::new(AtomicBool::new(false));
    let busy: Vec<_> = (0..4)
        .map(|_| {
            let done = done.clone();
            std::thread::spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            })
        })
        .collect();
    let under_load = rounds(Duration::ZERO).await;
    done.store(true, Ordering::Relaxed);
    for thread in busy {
        thread.join().unwrap();
    }
    assert_eq!(under_load, first);
}

#[tokio::test]
async fn rule_4_waiting_in_host_calls_costs_no_fuel() {
    assert_eq!(rounds(Duration::from_millis(20)).await, rounds(Duration::ZERO).await);
}

#[tokio::test]
async fn rule_4_a_tool_has_more_fuel_than_a_hook() {
    let work = "(local.set $n (i32.const 1000000))
        (loop $work (local.set $n (i32.sub (local.get $n) (i32.const 1))) (br_if $work (local.get $n)))";
    let call = format!("{work} {}", tool_says("(i32.const 0)", "(i32.const 0)", false));
    let tool = Guest::new().tools(&[("work", "Works.", "{\"type\": \"object\"}")], &call);
    let hook = Guest::new().on(HookPoint::OnModelCall, &format!("{work} {NOTHING}"));
    let limits = PluginLimits { fuel_hook: 1_000_000, fuel_tool: 100_000_000, ..Default::default() };
    let engine = Engine::new(limits).unwrap();
    assert_eq!(refusal(&engine, &tool.build(), &Grants::none()).await, "admitted");
    let error = refusal(&engine, &hook.build(), &Grants::none()).await;
    assert!(error.contains("it ran out of fuel: it used all of its 1000000 units in one call"), "{error}");
}

/// A source of chance or of the time of day in WASI: interface, its WIT, the function's name and
/// flattened type, and an expression for a number of it as `i32`.
const CHANCE: [(&str, &str, &str, &str, &str); 7] = [
    ("random/random", "get-random-u64: func() -> u64;", "get-random-u64", "(result i64)", NUMBER),
    (
        "random/random",
        "get-random-bytes: func(len: u64) -> list<u8>;",
        "get-random-bytes",
        "(param i64 i32)",
        "(block (result i32) (call $get-random-bytes (i64.const 4) (i32.const 160))
            (i32.load (i32.load (i32.const 160))))",
    ),
    (
        "random/insecure",
        "get-insecure-random-u64: func() -> u64;",
        "get-insecure-random-u64",
        "(result i64)",
        NUMBER,
    ),
    (
        "random/insecure",
        "get-insecure-random-bytes: func(len: u64) -> list<u8>;",
        "get-insecure-random-bytes",
        "(param i64 i32)",
        "(block (result i32) (call $get-insecure-random-bytes (i64.const 4) (i32.const 160))
            (i32.load (i32.load (i32.const 160))))",
    ),
    (
        "random/insecure-seed",
        "insecure-seed: func() -> tuple<u64, u64>;",
        "insecure-seed",
        "(param i32)",
        "(block (result i32) (call $insecure-seed (i32.const 160)) (i32.load (i32.const 160)))",
    ),
    (
        "clocks/wall-clock",
        "record datetime { seconds: u64, nanoseconds: u32 } now: func() -> datetime;",
        "now",
        "(param i32)",
        "(block (result i32) (call $now (i32.const 160)) (i32.wrap_i64 (i64.load (i32.const 160))))",
    ),
    (
        "clocks/monotonic-clock",
        "now: func() -> u64;",
        "now",
        "(result i64)",
        "(i32.wrap_i64 (i64.div_u (call $now) (i64.const 1000000000)))",
    ),
];

/// The low half of a function's 64 bits; `NAME` stands for the function.
const NUMBER: &str = "(i32.wrap_i64 (call $NAME))";

/// A note as long as `number` says, up to 250 characters.
fn as_long_as(guest: Guest, number: &str) -> Guest {
    let mut guest = guest;
    let (at, _) = guest.text(&"x".repeat(251));
    let body = format!("(local.set $n (i32.rem_u {number} (i32.const 251)))");
    guest.on(
        HookPoint::OnModelCall,
        &format!("{body} {}", say(0, &format!("(i32.const {at})"), "(local.get $n)")),
    )
}

#[tokio::test]
async fn rule_9_every_source_of_chance_in_wasi_is_found() {
    for (path, wit, function, ty, number) in CHANCE {
        let (package, interface) = path.split_once('/').unwrap();
        let guest = Guest::new()
            .package(&format!("package wasi:{package}@0.2.6 {{ interface {interface} {{ {wit} }} }}"))
            .import_from(&format!("wasi:{path}@0.2.6"), function, ty);
        let guest = as_long_as(guest, &number.replace("NAME", function));
        let error = refusal(engine(), &guest.build(), &Grants::none()).await;
        assert!(
            error.contains("answers the same input of `on-model-call` differently")
                && error.contains("(admission step: determinism)"),
            "{path} {function}: {error}"
        );
    }
}

#[tokio::test]
async fn rule_9_the_error_shows_both_answers_and_what_to_use() {
    let guest = Guest::new()
        .package("package wasi:random@0.2.6 { interface random { get-random-u64: func() -> u64; } }")
        .import_from("wasi:random/random@0.2.6", "get-random-u64", "(result i64)");
    let mut body = "(local.set $n (i32.and (i32.wrap_i64 (call $get-random-u64)) (i32.const 7)))".to_owned();
    body.push_str(&say(0, "(i32.const 4096)", "(local.get $n)"));
    let mut guest = guest.on(HookPoint::OnModelCall, &body);
    guest.text("abcdefgh");
    refused(&guest.build(), expect![[r#"
        the plugin DIGEST answers the same input of `on-model-call` differently: first `{"note":"abcde"}`, then `{"note":"abc"}` (admission step: determinism)
        help: leave out what depends on chance, time of day or the order of a hash map; import `random` or `clock` of the contract if the plugin needs them"#]]).await;
}

#[tokio::test]
async fn rule_9_tools_that_change_from_call_to_call_are_refused() {
    let mut guest = Guest::new();
    let (name, _) = guest.text("abcdefgh");
    let (schema, length) = guest.text("{\"type\": \"object\"}");
    let definitions = format!(
        "(global.set $count (i32.add (global.get $count) (i32.const 1)))
         (i32.store (i32.const 200) (i32.const {name})) (i32.store (i32.const 204) (global.get $count))
         (i32.store (i32.const 208) (i32.const {name})) (i32.store (i32.const 212) (i32.const 3))
         (i32.store (i32.const 216) (i32.const {schema})) (i32.store (i32.const 220) (i32.const {length}))
         (i32.store (i32.const 64) (i32.const 200)) (i32.store (i32.const 68) (i32.const 1)) (i32.const 64)"
    );
    refused(
        &guest.tools_with(&definitions, "(unreachable)").build(),
        expect![[r#"
        the plugin DIGEST defines other tools when it is asked again (admission step: determinism)
        help: return the same tools at every call, whatever time it is and whatever was called before"#]],
    )
    .await;
}

#[tokio::test]
async fn rule_9_a_plugin_that_asks_for_chance_and_time_has_them_seeded() {
    let guest = Guest::new().import("random", "next-u64", "(result i64)");
    let mut body = "(local.set $n (i32.and (i32.wrap_i64 (call $next-u64)) (i32.const 7)))".to_owned();
    body.push_str(&say(0, "(i32.const 4096)", "(local.get $n)"));
    let mut guest = guest.on(HookPoint::OnModelCall, &body);
    guest.text("abcdefgh");
    let bytes = guest.build();
    assert_eq!(refusal(engine(), &bytes, &Grants::all()).await, "admitted");

    let guest = Guest::new().import("clock", "now-ms", "(result i64)");
    let guest = as_long_as(guest, "(i32.wrap_i64 (call $now-ms))");
    assert_eq!(refusal(engine(), &guest.build(), &Grants::all()).await, "admitted");
}

#[tokio::test]
async fn rule_9_what_a_plugin_counts_in_its_memory_is_part_of_the_episode() {
    let count = "(block (result i32)
        (global.set $count (i32.add (global.get $count) (i32.const 1))) (global.get $count))";
    let guest = as_long_as(Guest::new(), count);
    assert_eq!(refusal(engine(), &guest.build(), &Grants::none()).await, "admitted");
}
