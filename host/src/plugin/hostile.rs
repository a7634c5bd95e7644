//! What does the host do with a guest that wants to harm it? Each is stopped, and what was
//! running is gone.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::testkit::*;
use super::*;

pub(super) fn engine() -> &'static Engine {
    static ENGINE: OnceLock<Engine> = OnceLock::new();
    ENGINE.get_or_init(|| Engine::new(PluginLimits::default()).unwrap())
}

/// One line of the table of times: what was stopped, and how long that took. Shown with
/// `--nocapture`.
pub(super) fn took(name: &str, start: Instant) {
    let ms = start.elapsed().as_secs_f64() * 1e3;
    println!("stopped  {name:<44} {ms:>9.1} ms");
    assert!(ms < 60_000.0, "{name} kept the host busy for {ms} ms");
}

/// Another plugin answers in the same engine.
pub(super) async fn neighbour_answers(engine: &Engine) {
    let bytes = notes("still here");
    let admitted = admit(engine, &bytes, &Grants::none(), &AdmissionOptions::default()).await.unwrap();
    let config = InstanceConfig { settings: "{}".into(), seed: 0, workspace: Arc::new(NoWorkspace) };
    let answer = Instance::new(&admitted, config).on_model_call(&Context::default()).await;
    assert_eq!(answer, Ok(Some(NoteOrStop::Note("still here".into()))));
}

/// Admits `guest`, which behaves until it gets `input`, and calls it with that: the answer, or
/// the fault. Sees that a fault leaves no store behind, that the plugin itself starts anew, and
/// that others go on.
pub(super) async fn attacked(
    name: &str,
    guest: &Guest,
    point: HookPoint,
    input: Value,
    workspace: Arc<dyn WorkspaceAccess>,
) -> String {
    let engine = engine();
    let options = AdmissionOptions::default();
    let admitted = admit(engine, &guest.build(), &Grants::all(), &options).await.unwrap();
    let config = InstanceConfig { settings: "{}".into(), seed: 0, workspace: workspace.clone() };
    let mut instance = Instance::new(&admitted, config);
    call_json(&mut instance, point, &json!({})).await.unwrap();
    // A living store holds the workspace too.
    let alive = Arc::strong_count(&workspace);
    let start = Instant::now();
    let answer = call_json(&mut instance, point, &input).await;
    took(name, start);
    let said = match answer {
        Ok(answer) => {
            assert_eq!(Arc::strong_count(&workspace), alive);
            format!("answered {answer}")
        }
        Err(error) => {
            assert_eq!(Arc::strong_count(&workspace), alive - 1, "{name}: a store outlived its fault");
            format!("it {error}")
        }
    };
    call_json(&mut instance, point, &json!({})).await.unwrap();
    neighbour_answers(engine).await;
    said
}

/// The same for `on-model-call`, where `body` runs from turn 100 on.
pub(super) async fn check(name: &str, guest: Guest, body: &str, expected: Expect) {
    let guest = guest.on(HookPoint::OnModelCall, &late(body));
    let input = json!({"context": {"turn": 100}});
    let said = attacked(name, &guest, HookPoint::OnModelCall, input, Arc::new(NoWorkspace)).await;
    expected.assert_eq(&said);
}

#[tokio::test]
async fn guest_that_never_ends_runs_out_of_fuel() {
    check(
        "endless loop in a call",
        Guest::new(),
        LOOP,
        expect!["it ran out of fuel: it used all of its 100000000 units in one call"],
    )
    .await;

    // The host asks for room for the instruction, whose length tells when.
    let guest = Guest::new()
        .realloc("(if (i32.eq (local.get 3) (i32.const 7777)) (then (loop $l (br $l))))")
        .on(HookPoint::OnEpisodeStart, NOTHING);
    let input = json!({"instruction": "x".repeat(7777)});
    let point = HookPoint::OnEpisodeStart;
    let said = attacked("endless loop in cabi_realloc", &guest, point, input, Arc::new(NoWorkspace)).await;
    expect!["it ran out of fuel: it used all of its 100000000 units in one call"].assert_eq(&said);

    let guest =
        Guest::new().post_return(HookPoint::OnModelCall, "(if (global.get $count) (then (loop $l (br $l))))");
    let body = format!("(global.set $count (i32.const 1)) {NOTHING}");
    check(
        "endless loop in post-return",
        guest,
        &body,
        expect!["it ran out of fuel: it used all of its 100000000 units in one call"],
    )
    .await;

    let guest = Guest::new().items("(func $down (param i32) (call $down (local.get 0)))");
    let body = "(call $down (i32.const 1)) (unreachable)";
    check("endless recursion", guest, body, expect!["it trapped: call stack exhausted"]).await;
}

/// What the fault says when the plugin explains itself in `text` before `then`.
async fn check_explained(text: &str, then: &str, expected: Expect) {
    let mut guest = Guest::new().import("failure", "explain", "(param i32 i32)");
    let (at, length) = guest.text(text);
    let body = format!("(call $explain (i32.const {at}) (i32.const {length})) {then}");
    check("a fault with an explanation", guest, &body, expected).await;
}

#[tokio::test]
async fn the_text_of_an_exception_is_not_lost_in_a_bare_trap() {
    check_explained(
        "TypeError: x is not a function\n    at onModelCall (plugin.js:3)",
        "(unreachable)",
        expect![[r#"
            it trapped: wasm `unreachable` instruction executed; it wrote: TypeError: x is not a function
                at onModelCall (plugin.js:3)"#]],
    )
    .await;
    // It decides nothing: a call that returns has not failed, and a limit stays a limit.
    check_explained("not so bad", NOTHING, expect!["answered null"]).await;
    check_explained(
        "all is well",
        LOOP,
        expect!["it ran out of fuel: it used all of its 100000000 units in one call"],
    )
    .await;
    // It moves no cursor, and is cut.
    check_explained(
        "\u{1b}[2J red",
        "(unreachable)",
        expect![[r#"it trapped: wasm `unreachable` instruction executed; it wrote: �[2J red"#]],
    )
    .await;
}

#[tokio::test]
async fn recursion_leaves_the_host_its_own_stack() {
    // Wide frames, so that the stack ends before the host calls do.
    let locals = " i64".repeat(100);
    let keep: String =
        (0..100).map(|n| format!("(local.set {n} (i64.load (i32.const {})))", 2048 + 8 * n)).collect();
    let use_: String =
        (0..100).map(|n| format!("(i64.store (i32.const {}) (local.get {n}))", 2048 + 8 * n)).collect();
    let read = "(call $read (i32.const 16) (i32.const 4) (i32.const 160))";
    let guest = Guest::new()
        .import("workspace-read", "read", "(param i32 i32 i32)")
        .items(&format!("(func $down (local{locals}) {keep} {read} (call $down) {use_})"));
    let body = "(call $down) (unreachable)";
    check(
        "recursion with a host call at each depth",
        guest,
        body,
        expect!["it trapped: call stack exhausted"],
    )
    .await;
}

#[tokio::test]
async fn growth_past_a_cap_is_refused() {
    check(
        "memory growth",
        Guest::new(),
        GROW,
        expect!["it asked for too much memory: 68157440 bytes, limit 67108864 bytes"],
    )
    .await;
    let guest = Guest::new().items("(table $t 1 funcref)");
    let body = "(loop $l (br_if $l (i32.ne (table.grow $t (ref.null func) (i32.const 1000)) (i32.const -1)))) (unreachable)";
    check(
        "table growth",
        guest,
        body,
        expect!["it asked for too large a table: 100001 elements, limit 100000 elements"],
    )
    .await;
    let body =
        "(loop $l (memory.fill (i32.const 0) (i32.const 7) (i32.const 2000000)) (br $l)) (unreachable)";
    check(
        "endless memory.fill",
        Guest::new(),
        body,
        expect!["it ran out of fuel: it used all of its 100000000 units in one call"],
    )
    .await;
}

#[tokio::test]
async fn floods_are_stopped_by_count() {
    let forever = |call: &str| format!("(loop $l {call} (br $l)) (unreachable)");
    let guest = Guest::new().import("clock", "now-ms", "(result i64)");
    check(
        "a flood of host calls",
        guest,
        &forever("(drop (call $now-ms))"),
        expect!["it made too many host calls: 10001 in one call, limit 10000"],
    )
    .await;

    let pollables = || {
        Guest::new()
            .package(
                "package wasi:io@0.2.6 { interface poll { resource pollable { ready: func() -> bool; } } }",
            )
            .package(
                "package wasi:clocks@0.2.6 { interface monotonic-clock { use wasi:io/poll@0.2.6.{pollable}; \
                 subscribe-duration: func(when: u64) -> pollable; now: func() -> u64; } }",
            )
            .import_from(
                "wasi:clocks/monotonic-clock@0.2.6",
                "subscribe-duration",
                "(param i64) (result i32)",
            )
    };
    let body = forever("(drop (call $subscribe-duration (i64.const 1)))");
    check(
        "a flood of pollables",
        pollables(),
        &body,
        expect!["it opened too many handles: more than 1000 at once"],
    )
    .await;
    let streams = Guest::new()
        .package("package wasi:io@0.2.6 { interface streams { resource output-stream; } }")
        .package(
            "package wasi:cli@0.2.6 { interface stdout { use wasi:io/streams@0.2.6.{output-stream}; \
             get-stdout: func() -> output-stream; } }",
        )
        .import_from("wasi:cli/stdout@0.2.6", "get-stdout", "(result i32)");
    check(
        "a flood of streams",
        streams,
        &forever("(drop (call $get-stdout))"),
        expect!["it opened too many handles: more than 1000 at once"],
    )
    .await;

    let guest = pollables().import_from("wasi:clocks/monotonic-clock@0.2.6", "now", "(result i64)");
    check(
        "a flood of WASI calls",
        guest,
        &forever("(drop (call $now))"),
        expect!["it made too many WASI calls: more than 100000 in one call"],
    )
    .await;
    // It stops by itself, a little over the limit: the verdict is the same.
    let guest = pollables().import_from("wasi:clocks/monotonic-clock@0.2.6", "now", "(result i64)");
    let body = format!(
        "(loop $l (drop (call $now)) (local.set $n (i32.add (local.get $n) (i32.const 1)))
            (br_if $l (i32.lt_u (local.get $n) (i32.const 100001)))) {NOTHING}"
    );
    check(
        "one WASI call too many",
        guest,
        &body,
        expect!["it made too many WASI calls: more than 100000 in one call"],
    )
    .await;
    let random = Guest::new()
        .package("package wasi:random@0.2.6 { interface random { get-random-bytes: func(len: u64) -> list<u8>; } }")
        .import_from("wasi:random/random@0.2.6", "get-random-bytes", "(param i64 i32)")
        .realloc("(if (i32.gt_u (global.get $heap) (i32.const 1000000)) (then (global.set $heap (i32.const 131072))))");
    check(
        "a flood of random bytes",
        random,
        &forever("(call $get-random-bytes (i64.const 65536) (i32.const 128))"),
        expect!["it made too many WASI calls: more than 100000 in one call"],
    )
    .await;
}

#[tokio::test]
async fn flood_of_log_lines_is_cut_even_when_they_are_empty() {
    let line = |length: u32| format!("(call $log (i32.const 1) (i32.const 4096) (i32.const {length}))");
    let guest = |length| {
        let body = format!(
            "(loop $l {} (local.set $n (i32.add (local.get $n) (i32.const 1)))
                (br_if $l (i32.lt_u (local.get $n) (i32.const 9000)))) {NOTHING}",
            line(length)
        );
        let guest = Guest::new().import("log", "log", "(param i32 i32 i32)");
        guest.on(HookPoint::OnModelCall, &body).build()
    };
    for (length, kept) in [(0, 1024), (1_000, 61), (1_000_000, 0)] {
        let options = AdmissionOptions::default();
        let admitted = admit(engine(), &guest(length), &Grants::all(), &options).await.unwrap();
        let config = InstanceConfig { settings: "{}".into(), seed: 0, workspace: Arc::new(NoWorkspace) };
        let mut instance = Instance::new(&admitted, config);
        let start = Instant::now();
        instance.on_model_call(&Context::default()).await.unwrap();
        took(&format!("9,000 log lines of {length} bytes"), start);
        let log = instance.take_log();
        assert_eq!(log.len(), kept + 1, "{length}");
        let last = &log[kept].message;
        assert_eq!(*last, format!("{} messages had no room and were dropped", 9_000 - kept));
    }
}

/// Panics at whatever is asked of it, unless it is told not to.
struct Broken(AtomicBool);

impl Broken {
    fn fail<T>(&self) -> Result<T, WorkspaceError> {
        match self.0.load(Ordering::Relaxed) {
            true => panic!("a fault of the host in a test"),
            false => Err(WorkspaceError::NotFound("a.py".into())),
        }
    }
}

#[async_trait]
impl WorkspaceAccess for Broken {
    async fn read(&self, _: &str) -> Result<Vec<u8>, WorkspaceError> {
        self.fail()
    }
    async fn list(&self, _: &str) -> Result<Vec<WorkspaceEntry>, WorkspaceError> {
        self.fail()
    }
    async fn stat(&self, _: &str) -> Result<WorkspaceEntry, WorkspaceError> {
        self.fail()
    }
    async fn search(&self, _: &str, _: &str, _: u32) -> Result<Vec<SearchHit>, WorkspaceError> {
        self.fail()
    }
    async fn diff(&self) -> Result<Vec<u8>, WorkspaceError> {
        self.fail()
    }
    async fn untracked(&self) -> Result<Vec<String>, WorkspaceError> {
        self.fail()
    }
    async fn write(&self, _: &str, _: &[u8]) -> Result<(), WorkspaceError> {
        self.fail()
    }
    async fn exec(&self, _: &[String], _: Duration) -> Result<ExecOutput, WorkspaceError> {
        self.fail()
    }
}

#[tokio::test]
async fn panic_of_the_host_in_an_import_ends_one_call() {
    let guest = Guest::new().import("workspace-read", "diff", "(param i32)");
    let guest = guest.on(HookPoint::OnModelCall, &format!("(call $diff (i32.const 160)) {NOTHING}"));
    let admitted =
        admit(engine(), &guest.build(), &Grants::all(), &AdmissionOptions::default()).await.unwrap();
    let broken = Arc::new(Broken(AtomicBool::new(true)));
    let workspace: Arc<dyn WorkspaceAccess> = broken.clone();
    let config = InstanceConfig { settings: "{}".into(), seed: 0, workspace };
    let mut instance = Instance::new(&admitted, config);
    let fault = instance.on_model_call(&Context::default()).await.unwrap_err();
    expect!["could not be served: `workspace-read.diff` of the host broke down"]
        .assert_eq(&fault.to_string());
    assert_eq!(Arc::strong_count(&broken), 2, "a store outlived the panic");
    broken.0.store(false, Ordering::Relaxed);
    assert_eq!(instance.on_model_call(&Context::default()).await, Ok(None));
    neighbour_answers(engine()).await;
}

/// While one plugin loops to its deadline, another on the same thread is called at nearly every
/// tick of the clock that the first one uses up.
#[tokio::test(flavor = "current_thread")]
async fn plugin_that_loops_gives_way_at_every_tick() {
    const DEADLINE: Duration = Duration::from_millis(300);
    let limits =
        PluginLimits { fuel_hook: u64::MAX >> 1, deadline_hook: DEADLINE, ..PluginLimits::default() };
    let engine = Engine::new(limits).unwrap();
    let options = AdmissionOptions::default();
    let config = || InstanceConfig { settings: "{}".into(), seed: 0, workspace: Arc::new(NoWorkspace) };
    let endless = Guest::new().on(HookPoint::OnModelCall, &late(LOOP)).build();
    let endless = admit(&engine, &endless, &Grants::none(), &options).await.unwrap();
    let neighbour = admit(&engine, &notes("hello"), &Grants::none(), &options).await.unwrap();

    let looping = tokio::spawn({
        let mut instance = Instance::new(&endless, config());
        async move { instance.on_model_call(&Context { turn: 100, ..Context::default() }).await }
    });
    let mut instance = Instance::new(&neighbour, config());
    let mut calls = 0;
    let mut longest = Duration::ZERO;
    while !looping.is_finished() {
        let start = Instant::now();
        assert!(instance.on_model_call(&Context::default()).await.is_ok());
        // What a turn of an episode waits for: a timer, not only its place in the queue.
        tokio::time::sleep(Duration::from_micros(1)).await;
        longest = longest.max(start.elapsed());
        calls += 1;
    }
    let fault = looping.await.unwrap().unwrap_err();
    assert!(matches!(fault, PluginFault::Deadline { .. }), "{fault}");
    println!(
        "a neighbour of an endless loop was called {calls} times in {DEADLINE:?}, at most {longest:?} apart"
    );
    let ticks = DEADLINE.as_nanos() / clock::TICK.as_nanos();
    assert!(calls >= ticks / 3, "{calls} calls in {ticks} ticks");
}
