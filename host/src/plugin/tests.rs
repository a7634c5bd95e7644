//! What does a user read when a plugin is refused, and what does a plugin get? Rules 4 and 9 of
//! the contract are in `rules`.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::testkit::*;
use super::*;
use crate::store::Digest;

pub(super) fn engine() -> &'static Engine {
    static ENGINE: OnceLock<Engine> = OnceLock::new();
    ENGINE.get_or_init(|| Engine::new(PluginLimits::default()).unwrap())
}

/// The error of an admission, with the digest left out.
pub(super) async fn refusal(engine: &Engine, bytes: &[u8], grants: &Grants) -> String {
    match admit(engine, bytes, grants, &AdmissionOptions::default()).await {
        Ok(_) => "admitted".to_owned(),
        Err(error) => error.to_string().replace(&Digest::of(bytes).short(), "DIGEST"),
    }
}

pub(super) async fn refused(bytes: &[u8], expected: Expect) {
    expected.assert_eq(&refusal(engine(), bytes, &Grants::none()).await);
}

/// Admits with everything and calls `on-model-call` once.
async fn note(guest: &Guest, how: RunPoint) -> String {
    let (bytes, input) = (guest.build(), json!({"context": {"now_ms": 1234}}));
    let options = AdmissionOptions::default();
    match run_point(engine(), &bytes, HookPoint::OnModelCall, &input, how, &options).await {
        Ok(answer) => format!("{} {}", answer.output, serde_json::to_string(&answer.log).unwrap()),
        Err(error) => error.to_string(),
    }
}

fn how() -> RunPoint {
    let workspace = Arc::new(NoWorkspace);
    RunPoint { grants: None, settings: serde_json::Map::new(), seed: 7, workspace }
}

#[tokio::test]
async fn what_is_no_component_is_refused_by_name() {
    refused(
        b"",
        expect![[r#"
        the plugin DIGEST is empty (admission step: parse)
        help: build it for the target `wasm32-wasip2`, which makes a component"#]],
    )
    .await;
    refused(
        b"#!/bin/sh\necho hello\n",
        expect![[r#"
        the plugin DIGEST is not WebAssembly (admission step: parse)
        help: build it for the target `wasm32-wasip2`, which makes a component"#]],
    )
    .await;
    refused(
        &Guest::new().on(HookPoint::OnLimit, "(i32.const 0)").core(),
        expect![[r#"
        the plugin DIGEST is a core module, not a component (admission step: parse)
        help: build it for the target `wasm32-wasip2`, or let the forge componentise it"#]],
    )
    .await;
    let component = notes("hello");
    refused(&component[..component.len() - 20], expect![[r#"
        the plugin DIGEST is not a valid component: unexpected end-of-file (at byte 1684) (admission step: parse)
        help: build it again; the file may be cut or use a feature that is off"#]]).await;
    let native = engine().on_demand().precompile_component(&component).unwrap();
    refused(
        &native,
        expect![[r#"
        the plugin DIGEST is precompiled native code (admission step: parse)
        help: give the `.wasm` file; native code from outside is never loaded"#]],
    )
    .await;
}

/// The engine has several memories on for code of its own; a guest must not.
#[tokio::test]
async fn second_memory_of_a_module_is_refused() {
    let bytes = wat::parse_str("(component (core module (memory 1) (memory 1)))").unwrap();
    let error = refusal(engine(), &bytes, &Grants::none()).await;
    assert!(error.contains("is not a valid component: multiple memories"), "{error}");
}

#[tokio::test]
async fn too_large_component_is_refused_before_it_is_parsed() {
    let limits = PluginLimits { component_bytes: 100, ..PluginLimits::default() };
    let error = refusal(&Engine::new(limits).unwrap(), &[b'x'; 101], &Grants::none()).await;
    expect![[r#"
        the plugin DIGEST has 101 bytes, limit 100 bytes (admission step: size)
        help: build it for size and strip debug information"#]]
    .assert_eq(&error);
}

#[tokio::test]
async fn exports_and_imports_outside_the_contract_are_refused() {
    let nothing = Guest::new().package("package other:thing@1.0.0 { interface api { go: func(); } }").export(
        "other:thing/api@1.0.0",
        "go",
        "",
    );
    refused(&nothing.build(), expect![[r#"
        the plugin DIGEST exports no point of the contract (admission step: contract)
        help: export at least one of `tools`, `on-episode-start`, `on-model-call`, `on-format-error`, `on-tool-call`, `on-tool-result`, `on-loop`, `on-submit`, `on-choose-patch`, `on-limit`, `observe`"#]]).await;

    let newer = Guest::new()
        .package("package tandem:harness@0.2.0 { interface on-limit { go: func(); } }")
        .export("tandem:harness/on-limit@0.2.0", "go", "");
    refused(&newer.build(), expect![[r#"
        the plugin DIGEST exports `tandem:harness/on-limit@0.2.0`, but the contract is version 0.1.0 (admission step: contract)
        help: build the plugin against `tandem:harness@0.1.0`"#]]).await;

    let files = Guest::new()
        .package("package wasi:filesystem@0.2.6 { interface preopens { go: func(); } }")
        .import_from("wasi:filesystem/preopens@0.2.6", "go", "")
        .on(HookPoint::Observe, "(call $go)");
    refused(&files.build(), expect![[r#"
        the plugin DIGEST imports `wasi:filesystem/preopens@0.2.6`, which no plugin gets (admission step: contract)
        help: files of the task are reached through `tandem:harness/workspace-read` and `tandem:harness/workspace-write`; remove what opens files itself"#]]).await;

    let network = Guest::new()
        .package("package wasi:http@0.2.6 { interface outgoing-handler { go: func(); } }")
        .import_from("wasi:http/outgoing-handler@0.2.6", "go", "")
        .on(HookPoint::Observe, "(call $go)");
    refused(&network.build(), expect![[r#"
        the plugin DIGEST imports `wasi:http/outgoing-handler@0.2.6`, which no plugin gets (admission step: contract)
        help: a plugin has no network; remove what uses it"#]]).await;
}

#[tokio::test]
async fn check_tells_all_that_is_outside_the_contract_and_the_grants() {
    let guest = Guest::new()
        .package("package wasi:filesystem@0.2.6 { interface preopens { open: func(); } }")
        .package("package wasi:http@0.2.6 { interface outgoing-handler { send: func(); } }")
        .package("package tandem:harness@0.2.0 { interface on-limit { go: func(); } }")
        .import_from("wasi:filesystem/preopens@0.2.6", "open", "")
        .import_from("wasi:http/outgoing-handler@0.2.6", "send", "")
        .import("clock", "now-ms", "(result i64)")
        .on(HookPoint::Observe, "(call $open) (call $send) (drop (call $now-ms))")
        .export("tandem:harness/on-limit@0.2.0", "go", "");
    let none = Grants::none();
    let reasons =
        check(engine(), &guest.build(), Some(&none), &AdmissionOptions::default()).await.unwrap_err();
    let lines: Vec<_> = reasons.iter().map(|reason| format!("{}: {}", reason.step, reason.what)).collect();
    expect![[r#"
        contract: exports `tandem:harness/on-limit@0.2.0`, but the contract is version 0.1.0
        contract: imports `wasi:filesystem/preopens@0.2.6`, which no plugin gets
        contract: imports `wasi:http/outgoing-handler@0.2.6`, which no plugin gets
        grants: imports `tandem:harness/clock@0.1.0` without the grant `clock`"#]]
    .assert_eq(&lines.join("\n"));
    assert!(reasons.iter().all(|reason| !reason.help.is_empty()));
}

#[tokio::test]
async fn import_without_its_grant_names_import_grant_and_line() {
    let guest = Guest::new()
        .import("clock", "now-ms", "(result i64)")
        .import("exec", "run", "(param i32 i32 i32 i32)")
        .on(
            HookPoint::Observe,
            "(drop (call $now-ms)) (call $run (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0))",
        )
        .build();
    refused(&guest, expect![[r#"
        the plugin DIGEST imports `tandem:harness/clock@0.1.0` without the grant `clock` (admission step: grants)
        help: put `grants = ["clock", "exec"]` into the plugin's entry in the harness manifest, or build the plugin without it"#]]).await;
    let clock = Grants::parse(&["clock"]).unwrap();
    expect![[r#"
        the plugin DIGEST imports `tandem:harness/exec@0.1.0` without the grant `exec` (admission step: grants)
        help: put `grants = ["clock", "exec"]` into the plugin's entry in the harness manifest, or build the plugin without it"#]].assert_eq(&refusal(engine(), &guest, &clock).await);
}

#[tokio::test]
async fn faults_in_trial_calls_are_refused_with_numbers() {
    let on_call = |body: &str| Guest::new().on(HookPoint::OnModelCall, body);
    refused(&on_call("(unreachable)").build(), expect![[r#"
        the plugin DIGEST failed a trial call of `on-model-call`: it trapped: wasm `unreachable` instruction executed (admission step: canary)
        help: handle every input, an empty workspace and missing files too, and return instead of panicking"#]]).await;
    refused(&on_call(LOOP).build(), expect![[r#"
        the plugin DIGEST failed a trial call of `on-model-call`: it ran out of fuel: it used all of its 100000000 units in one call (admission step: canary)
        help: do less in one call; look for a loop that does not end"#]]).await;
    refused(&on_call(GROW).build(), expect![[r#"
        the plugin DIGEST failed a trial call of `on-model-call`: it asked for too much memory: 68157440 bytes, limit 67108864 bytes (admission step: canary)
        help: keep less in memory; look for a buffer that only grows"#]]).await;
    let huge = say(0, "(i32.const 0)", "(i32.const 50000000)");
    refused(&on_call(&huge).pages(800).build(), expect![[r#"
        the plugin DIGEST failed a trial call of `on-model-call`: it handed over too much at once: more than 8388608 bytes (admission step: canary)
        help: return less; cut long text before it is returned"#]]).await;
    let outside = say(0, "(i32.const 0)", "(i32.const 50000000)");
    refused(&on_call(&outside).build(), expect![[r#"
        the plugin DIGEST failed a trial call of `on-model-call`: it returned a wrong value: string pointer/length out of bounds of memory (admission step: canary)
        help: return a value of the form that the contract in `wit/` asks for"#]]).await;
    refused(&on_call(NOTHING).pages(2000).build(), expect![[r#"
        the plugin DIGEST failed a trial call of `on-model-call`: it asked for too much memory: 131072000 bytes, limit 67108864 bytes (admission step: canary)
        help: keep less in memory; look for a buffer that only grows"#]]).await;
}

#[tokio::test]
async fn wrong_values_are_refused() {
    let mut guest = Guest::new();
    let body = guest.effect(0, "[1, 2]");
    refused(&guest.on(HookPoint::OnToolCall, &body).build(), expect![[r#"
        the plugin DIGEST failed a trial call of `on-tool-call`: it returned a wrong value: the rewritten arguments should be a JSON object: it is another JSON value (admission step: canary)
        help: return a value of the form that the contract in `wit/` asks for"#]]).await;
    let mut guest = Guest::new();
    let body = guest.effect(0, "{\"command\": ");
    refused(&guest.on(HookPoint::OnToolCall, &body).build(), expect![[r#"
        the plugin DIGEST failed a trial call of `on-tool-call`: it returned a wrong value: the rewritten arguments should be a JSON object: EOF while parsing a value at line 1 column 12 (admission step: canary)
        help: return a value of the form that the contract in `wit/` asks for"#]]).await;
    let mut guest = Guest::new();
    let body = guest.effect(9, "no such effect");
    refused(&guest.on(HookPoint::OnToolCall, &body).build(), expect![[r#"
        the plugin DIGEST failed a trial call of `on-tool-call`: it returned a wrong value: unexpected discriminant: 9 (admission step: canary)
        help: return a value of the form that the contract in `wit/` asks for"#]]).await;
    let out_of_range =
        "(i32.store8 (i32.const 64) (i32.const 1)) (i32.store (i32.const 68) (i32.const 2)) (i32.const 64)";
    refused(&Guest::new().on(HookPoint::OnChoosePatch, out_of_range).build(), expect![[r#"
        the plugin DIGEST failed a trial call of `on-choose-patch`: it returned a wrong value: it chose candidate 2 of 2, counted from 0 (admission step: canary)
        help: return a value of the form that the contract in `wit/` asks for"#]]).await;
}

#[tokio::test]
async fn tool_definitions_that_a_policy_cannot_use_are_refused() {
    let object = "{\"type\": \"object\"}";
    let with = |tools: &[(&str, &str, &str)]| {
        let call = tool_says(TOOL_ARGUMENTS.0, TOOL_ARGUMENTS.1, false);
        Guest::new().tools(tools, &call).build()
    };
    refused(&with(&[("count", "Counts.", object)]), expect!["admitted"]).await;
    refused(
        &with(&[("count lines", "Counts.", object)]),
        expect![[r#"
        the plugin DIGEST has a tool with the name `count lines` (admission step: tools)
        help: name tools with 1 to 64 letters, digits, `_` and `-`"#]],
    )
    .await;
    refused(&with(&[("bash", "Counts.", object)]), expect![[r#"
        the plugin DIGEST has a tool with the name `bash`, which the agent loop has already (admission step: tools)
        help: give the tool another name"#]]).await;
    refused(
        &with(&[("count", " ", object)]),
        expect![[r#"
        the plugin DIGEST has a tool `count` without a description (admission step: tools)
        help: say in one or two sentences what the tool does and when to use it"#]],
    )
    .await;
    refused(&with(&[("count", "Counts.", "{\"type\": \"string\"}")]), expect![[r#"
        the plugin DIGEST has a tool `count` whose input schema is not of type `object` (admission step: tools)
        help: use a JSON Schema with `"type": "object"` at the top"#]]).await;
    refused(&with(&[("count", "Counts.", "none")]), expect![[r#"
        the plugin DIGEST failed a trial call of `tools`: it returned a wrong value: the input schema of the tool `count` should be a JSON object: expected ident at line 1 column 2 (admission step: canary)
        help: return a value of the form that the contract in `wit/` asks for"#]]).await;
    refused(
        &with(&[("a", "A.", object), ("a", "B.", object)]),
        expect![[r#"
        the plugin DIGEST defines the tool `a` twice (admission step: tools)
        help: give every tool a name of its own"#]],
    )
    .await;
}

#[tokio::test]
async fn component_that_knows_a_task_is_refused() {
    let bytes = notes("in task median-of-two return 3");
    let options = AdmissionOptions { forbidden: vec!["median-of-two".into()], ..Default::default() };
    let scanned = async || match admit(engine(), &bytes, &Grants::none(), &options).await {
        Ok(_) => "admitted".to_owned(),
        Err(error) => error.to_string().replace(&error.plugin.short(), "DIGEST"),
    };
    let first = scanned().await;
    expect![[r#"
        the plugin DIGEST holds the string `median-of-two`, which belongs to a task or its tests (admission step: scan)
        help: write what holds for every task; a plugin must not know one by name"#]].assert_eq(&first);
    // Admitted where the string is allowed, so that the second time meets it in the cache.
    assert_eq!(refusal(engine(), &bytes, &Grants::none()).await, "admitted");
    assert_eq!(scanned().await, first);
}

#[tokio::test]
async fn same_bytes_and_grants_compile_once() {
    let engine = Engine::new(PluginLimits::default()).unwrap();
    let bytes = notes("once");
    for _ in 0..3 {
        assert_eq!(refusal(&engine, &bytes, &Grants::none()).await, "admitted");
    }
    assert_eq!(engine.compiled(), 1);
    assert_eq!(refusal(&engine, &bytes, &Grants::all()).await, "admitted");
    assert_eq!(engine.compiled(), 2);
}

#[tokio::test]
async fn capabilities_do_what_the_contract_says() {
    // Virtual time, logged and shown as a length.
    let mut guest =
        Guest::new().import("clock", "now-ms", "(result i64)").import("log", "log", "(param i32 i32 i32)");
    let (at, length) = guest.text("looked at the clock");
    let body = format!(
        "(call $log (i32.const 2) (i32.const {at}) (i32.const {length}))
         (local.set $n (i32.rem_u (i32.wrap_i64 (call $now-ms)) (i32.const 10)))
         {}",
        say(0, &format!("(i32.const {at})"), "(local.get $n)")
    );
    let guest = guest.on(HookPoint::OnModelCall, &body);
    expect![[r#"{"note":"look"} [{"level":"warn","message":"looked at the clock"}]"#]]
        .assert_eq(&note(&guest, how()).await);

    // Settings.
    let guest = Guest::new().import("settings", "get", "(param i32)").on(
        HookPoint::OnModelCall,
        &format!(
            "(call $get (i32.const 128)) {}",
            say(0, "(i32.load (i32.const 128))", "(i32.load (i32.const 132))")
        ),
    );
    let mut with_settings = how();
    with_settings.settings.insert("turns_left".into(), json!(5));
    expect![[r#"{"note":"{\"turns_left\":5}"} []"#]].assert_eq(&note(&guest, with_settings).await);

    // State: what was set comes back.
    let mut guest = Guest::new().import("state", "set", "(param i32 i32 i32 i32 i32)").import(
        "state",
        "get",
        "(param i32 i32 i32)",
    );
    let (key, _) = guest.text("key");
    let (value, length) = guest.text("value");
    let body = format!(
        "(call $set (i32.const {key}) (i32.const 3) (i32.const {value}) (i32.const {length}) (i32.const 160))
         (call $get (i32.const {key}) (i32.const 3) (i32.const 128)) {}",
        say(0, "(i32.load (i32.const 132))", "(i32.load (i32.const 136))")
    );
    let guest = guest.on(HookPoint::OnModelCall, &body);
    expect![[r#"{"note":"value"} []"#]].assert_eq(&note(&guest, how()).await);

    // State: a value over the cap is an error with both numbers, not a fault.
    let mut guest = Guest::new().import("state", "set", "(param i32 i32 i32 i32 i32)");
    let (key, _) = guest.text("key");
    let body = format!(
        "(call $set (i32.const {key}) (i32.const 3) (i32.const 0) (i32.const 300000) (i32.const 160)) {}",
        say(0, "(i32.load (i32.const 164))", "(i32.load (i32.const 168))")
    );
    let guest = guest.on(HookPoint::OnModelCall, &body);
    expect![[r#"{"note":"the state would hold 300067 bytes, limit 262144 bytes"} []"#]]
        .assert_eq(&note(&guest, how()).await);

    // The workspace: here there is none, and the error says which file.
    let guest = reader();
    expect![[r#"{"stop":"a.py"} []"#]].assert_eq(&note(&guest, how()).await);
    let mut slow = how();
    slow.workspace = Arc::new(SlowFile(Duration::ZERO));
    expect![[r#"{"note":"read a.py"} []"#]].assert_eq(&note(&guest, slow).await);
}

#[tokio::test]
async fn state_and_log_outlive_a_fault() {
    let mut guest = Guest::new().import("state", "set", "(param i32 i32 i32 i32 i32)").import(
        "state",
        "get",
        "(param i32 i32 i32)",
    );
    let (key, _) = guest.text("key");
    let (value, length) = guest.text("kept");
    let body = format!(
        "(if (i32.eq (local.get 0) (i32.const 100)) (then
            (call $set (i32.const {key}) (i32.const 3) (i32.const {value}) (i32.const {length}) (i32.const 160))
            (unreachable)))
         (call $get (i32.const {key}) (i32.const 3) (i32.const 128))
         (if (result i32) (i32.load8_u (i32.const 128)) (then {}) (else {NOTHING}))",
        say(0, "(i32.load (i32.const 132))", "(i32.load (i32.const 136))")
    );
    let bytes = guest.on(HookPoint::OnModelCall, &body).build();
    let options = AdmissionOptions::default();
    let admitted = admit(engine(), &bytes, &Grants::all(), &options).await.unwrap();
    let config = InstanceConfig { settings: "{}".into(), seed: 0, workspace: Arc::new(NoWorkspace) };
    let mut instance = Instance::new(&admitted, config);
    let at = |turn| Context { turn, ..Context::default() };
    assert!(instance.on_model_call(&at(100)).await.is_err());
    let answer = instance.on_model_call(&at(101)).await.unwrap();
    assert_eq!(answer, Some(NoteOrStop::Note("kept".into())));
}

#[tokio::test]
async fn check_reports_what_a_plugin_is_and_does() {
    let report = check(engine(), &reader().build(), None, &AdmissionOptions::default()).await.unwrap();
    let text = report.to_string().replace(&report.digest.to_string(), "DIGEST");
    expect![[r#"
        digest   DIGEST
        size     2945 bytes
        exports  on-model-call
        grants   ["workspace-read"]
        import   tandem:harness/workspace-types@0.1.0
        import   tandem:harness/workspace-read@0.1.0
        import   tandem:harness/types@0.1.0
        canary   on-model-call {} -> {"stop":"a.py"}
        canary   on-model-call {"context":{"budget":{"turns":{"limit":50,"used":48}},"now_ms":900000,"turn":49}} -> {"stop":"a.py"}
        admitted"#]].assert_eq(&text);
    let report = serde_json::to_value(&report).unwrap();
    assert_eq!(report["grants"], json!(["workspace-read"]));
}

#[tokio::test]
async fn run_point_says_what_is_wrong_with_its_input() {
    let bytes = notes("hello");
    let run = async |point, input: Value| {
        let options = AdmissionOptions::default();
        match run_point(engine(), &bytes, point, &input, how(), &options).await {
            Ok(answer) => answer.output.to_string(),
            Err(error) => error.to_string().replace(&Digest::of(&bytes).short(), "DIGEST"),
        }
    };
    let point = HookPoint::OnModelCall;
    expect![[r#"{"note":"hello"}"#]].assert_eq(&run(point, json!({})).await);
    expect![[r#"
        the input for `on-model-call` has an unknown key `context.trun`
        help: the whole input looks like this, and what you leave out is taken from it: {"context":{"budget":{"seconds":{"limit":null,"used":0},"tokens":{"limit":null,"used":0},"turns":{"limit":50,"used":0}},"now_ms":0,"turn":1}}"#]].assert_eq(&run(point, json!({"context": {"trun": 3}})).await);
    expect![[r#"
        the input for `on-model-call` has a wrong `context`: invalid type: string "three", expected u32
        help: the whole input looks like this, and what you leave out is taken from it: {"context":{"budget":{"seconds":{"limit":null,"used":0},"tokens":{"limit":null,"used":0},"turns":{"limit":50,"used":0}},"now_ms":0,"turn":1}}"#]].assert_eq(&run(point, json!({"context": {"turn": "three"}})).await);
    expect![[r#"
        the input for `on-model-call` is not a JSON object
        help: the whole input looks like this, and what you leave out is taken from it: {"context":{"budget":{"seconds":{"limit":null,"used":0},"tokens":{"limit":null,"used":0},"turns":{"limit":50,"used":0}},"now_ms":0,"turn":1}}"#]].assert_eq(&run(point, json!([])).await);
    expect![[r#"
        the plugin DIGEST does not export `on-submit` (admission step: contract)
        help: it exports on-model-call"#]]
    .assert_eq(&run(HookPoint::OnSubmit, json!({})).await);
}

#[test]
fn sample_of_every_point_has_the_form_of_its_point() {
    // `call_json` reads the sample when nothing is given; a wrong sample is an input error.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        for point in HookPoint::ALL {
            let body = match point {
                HookPoint::OnLimit => "(i32.const 1)",
                HookPoint::Observe => "",
                _ => NOTHING,
            };
            let guest = match point {
                HookPoint::Tools => Guest::new().tools_with(NOTHING, "(unreachable)"),
                _ => Guest::new().on(point, body),
            };
            let options = AdmissionOptions::default();
            let answer = run_point(engine(), &guest.build(), point, &sample(point), how(), &options).await;
            let expected = match point {
                HookPoint::Tools => json!([]),
                HookPoint::OnLimit => json!(true),
                _ => Value::Null,
            };
            assert_eq!(answer.unwrap().output, expected, "{}", point.name());
        }
    });
}
