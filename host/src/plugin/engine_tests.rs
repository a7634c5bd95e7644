//! Does the engine keep its promises when places run out, its clock dies, code on disk is
//! damaged, or nobody runs an async runtime?

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use expect_test::{Expect, expect};
use serde_json::json;

use super::testkit::*;
use super::*;

fn engine(config: EngineConfig) -> Engine {
    Engine::with(config).unwrap()
}

async fn admitted(engine: &Engine, bytes: &[u8]) -> Arc<Admitted> {
    admit(engine, bytes, &Grants::all(), &AdmissionOptions::default()).await.unwrap()
}

fn instance(admitted: &Admitted) -> Instance {
    instance_in(admitted, Arc::new(NoWorkspace))
}

fn instance_in(admitted: &Admitted, workspace: Arc<dyn WorkspaceAccess>) -> Instance {
    Instance::new(admitted, InstanceConfig { settings: "{}".into(), seed: 1, workspace })
}

async fn says(instance: &mut Instance) -> String {
    match instance.on_model_call(&Context { turn: 100, ..Context::default() }).await {
        Ok(Some(NoteOrStop::Note(text))) => text,
        Ok(other) => format!("{other:?}"),
        Err(fault) => fault.to_string(),
    }
}

#[tokio::test]
async fn a_full_pool_makes_instances_start_on_demand() {
    for places in [0, 1, 2] {
        let engine = engine(EngineConfig { pooled_instances: places, ..EngineConfig::default() });
        let admitted = admitted(&engine, &notes("here")).await;
        let mut instances: Vec<_> = (0..6).map(|_| instance(&admitted)).collect();
        for _ in 0..2 {
            for instance in &mut instances {
                assert_eq!(says(instance).await, "here");
            }
        }
        drop(instances);
        assert_eq!(says(&mut instance(&admitted)).await, "here", "a place that was left is used again");
    }
}

#[tokio::test]
async fn what_is_larger_than_a_place_starts_on_demand() {
    let limits = PluginLimits { memory_bytes: 1 << 20, ..PluginLimits::default() };
    let engine = engine(EngineConfig { limits, ..EngineConfig::default() });
    let mut guest = Guest::new().pages(32);
    let body = guest.effect(0, "large");
    let error = admit(
        &engine,
        &guest.on(HookPoint::OnModelCall, &body).build(),
        &Grants::none(),
        &AdmissionOptions::default(),
    )
    .await
    .err()
    .unwrap();
    expect!["failed a trial call of `on-model-call`: it asked for too much memory: 2097152 bytes, limit 1048576 bytes"]
        .assert_eq(&error.what);
}

/// Without ticks the loop would run until it is out of fuel, which says something else.
#[tokio::test]
async fn a_dead_clock_is_started_again() {
    let limits = PluginLimits {
        fuel_hook: 200_000_000_000,
        deadline_hook: Duration::from_millis(40),
        ..PluginLimits::default()
    };
    let engine = engine(EngineConfig { limits, ..EngineConfig::default() });
    let body = late(LOOP);
    let admitted = admitted(&engine, &Guest::new().on(HookPoint::OnModelCall, &body).build()).await;
    let mut instance = instance(&admitted);
    engine.clock().kill();
    let said = says(&mut instance).await;
    assert!(said.starts_with("ran too long: "), "{said}");
}

struct NeverThere;

#[async_trait]
impl WorkspaceAccess for NeverThere {
    async fn read(&self, _: &str) -> Result<Vec<u8>, WorkspaceError> {
        std::future::pending().await
    }
    async fn list(&self, _: &str) -> Result<Vec<WorkspaceEntry>, WorkspaceError> {
        std::future::pending().await
    }
    async fn stat(&self, _: &str) -> Result<WorkspaceEntry, WorkspaceError> {
        std::future::pending().await
    }
    async fn search(&self, _: &str, _: &str, _: u32) -> Result<Vec<SearchHit>, WorkspaceError> {
        std::future::pending().await
    }
    async fn diff(&self) -> Result<Vec<u8>, WorkspaceError> {
        std::future::pending().await
    }
    async fn untracked(&self) -> Result<Vec<String>, WorkspaceError> {
        std::future::pending().await
    }
    async fn write(&self, _: &str, _: &[u8]) -> Result<(), WorkspaceError> {
        std::future::pending().await
    }
    async fn exec(&self, _: &[String], _: Duration) -> Result<ExecOutput, WorkspaceError> {
        std::future::pending().await
    }
}

#[test]
fn no_async_runtime_is_needed_to_admit_to_call_or_to_give_up() {
    pollster::block_on(async {
        let limits = PluginLimits { host_call: Duration::from_millis(20), ..PluginLimits::default() };
        let engine = engine(EngineConfig { limits, ..EngineConfig::default() });
        let plain = admitted(&engine, &notes("no runtime")).await;
        assert_eq!(says(&mut instance(&plain)).await, "no runtime");

        let guest = Guest::new().import("workspace-read", "diff", "(param i32)");
        let body = late(&format!("(call $diff (i32.const 512)) {NOTHING}"));
        let waits = admitted(&engine, &guest.on(HookPoint::OnModelCall, &body).build()).await;
        let mut instance = instance_in(&waits, Arc::new(NeverThere));
        expect!["waited too long for `workspace-read.diff`: the host gave up after 20 ms"]
            .assert_eq(&says(&mut instance).await);
    });
}

/// Admits the same bytes in a new engine with this cache folder, and says what was compiled.
async fn compiled_with(dir: &Path) -> u64 {
    let code_cache = Some(CodeCache::open(dir).unwrap());
    let engine = engine(EngineConfig { code_cache, ..EngineConfig::default() });
    let admitted = admitted(&engine, &notes("from the cache")).await;
    assert_eq!(says(&mut instance(&admitted)).await, "from the cache");
    engine.compiled()
}

fn only_file(dir: &Path) -> PathBuf {
    let mut files: Vec<_> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(files.len(), 1, "{files:?}");
    files.remove(0)
}

#[tokio::test]
async fn damaged_compiled_code_is_made_again_and_never_run() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("code");
    assert_eq!(compiled_with(&dir).await, 1);
    assert_eq!(compiled_with(&dir).await, 0, "kept");

    let file = only_file(&dir);
    let whole = fs::read(&file).unwrap();
    let mut flipped = whole.clone();
    flipped[whole.len() / 2] ^= 1;
    let mut sum = whole.clone();
    *sum.last_mut().unwrap() ^= 1;
    let truncated = whole[..whole.len() / 3].to_vec();
    for damaged in [flipped, sum, truncated, whole[..7].to_vec(), Vec::new()] {
        fs::write(&file, &damaged).unwrap();
        assert_eq!(compiled_with(&dir).await, 1, "damaged code is compiled again");
        assert_eq!(fs::read(only_file(&dir)).unwrap(), whole, "and kept whole");
    }
    // Whole, but made by nobody we know: the checksum holds, the engine refuses it.
    let foreign = b"\x7fELF no native code of this engine".to_vec();
    let sum = <sha2::Sha256 as sha2::Digest>::digest(&foreign);
    fs::write(&file, [&foreign[..], &sum[..]].concat()).unwrap();
    assert_eq!(compiled_with(&dir).await, 1);
    assert_eq!(compiled_with(&dir).await, 0);

    fs::set_permissions(only_file(&dir), fs::Permissions::from_mode(0o666)).unwrap();
    assert_eq!(compiled_with(&dir).await, 1, "what others may write is not loaded");
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o777)).unwrap();
    let refused = CodeCache::open(&dir).err().unwrap().to_string();
    assert!(refused.contains("may be written by others") && refused.contains("mode 777"), "{refused}");
}

/// A plugin with this schema, admitted; then what it says to each of the settings.
async fn check_settings(schema: &str, settings: &[serde_json::Value], expected: Expect) {
    let mut guest = Guest::new();
    let text = guest.pair(schema);
    let note = guest.effect(0, "x");
    let guest = guest
        .export("tandem:harness/settings-schema@0.1.0", "settings-schema", &text)
        .on(HookPoint::OnModelCall, &note);
    let engine = engine(EngineConfig::default());
    let bytes = guest.build();
    let short = crate::store::Digest::of(&bytes).short();
    let mut said = Vec::new();
    match admit(&engine, &bytes, &Grants::none(), &AdmissionOptions::default()).await {
        Err(error) => said.push(error.to_string()),
        Ok(admitted) => {
            for settings in settings {
                said.push(match with_settings(&admitted, settings).await {
                    Ok(_) => "taken".to_owned(),
                    Err(error) => error.to_string(),
                });
            }
        }
    }
    expected.assert_eq(&said.join("\n").replace(&short, "DIGEST"));
}

#[tokio::test]
async fn settings_are_checked_against_the_schema_that_a_plugin_declares() {
    check_settings(
        r#"{"type": "object", "properties": {"limit": {"type": "integer", "minimum": 1}}, "additionalProperties": false}"#,
        &[json!({}), json!({"limit": 3}), json!({"limit": "many", "lmit": 1})],
        expect![[r#"
            taken
            taken
            the plugin DIGEST does not take its settings: at `/limit`: want integer, but got string; at the top: additionalProperties 'lmit' not allowed (admission step: settings)
            help: settings fit this schema: {"additionalProperties":false,"properties":{"limit":{"minimum":1,"type":"integer"}},"type":"object"}"#]],
    )
    .await;
    check_settings(
        r#"{"type": "object", "required": ["word"], "examples": [{"word": "stop"}]}"#,
        &[json!({"word": "go"}), json!({})],
        expect![[r#"
            taken
            the plugin DIGEST does not take its settings: at the top: missing properties 'word' (admission step: settings)
            help: settings fit this schema: {"examples":[{"word":"stop"}],"required":["word"],"type":"object"}"#]],
    )
    .await;
}

#[tokio::test]
async fn a_wrong_schema_of_settings_is_refused_with_its_reason() {
    let cases = [
        (
            "limit: int",
            expect![[r#"
            the plugin DIGEST has a wrong schema of its settings: it is not JSON: expected value at line 1 column 1 (admission step: settings)
            help: write a JSON Schema of type `object` without references, such as {"type": "object", "properties": {"limit": {"type": "integer", "minimum": 1}}}"#]],
        ),
        (
            r#"{"type": "array"}"#,
            expect![[r#"
            the plugin DIGEST has a wrong schema of its settings: it is not of type `object` at the top (admission step: settings)
            help: write a JSON Schema of type `object` without references, such as {"type": "object", "properties": {"limit": {"type": "integer", "minimum": 1}}}"#]],
        ),
        (
            r#"{"type": "object", "properties": {"a": {"type": "number!"}}}"#,
            expect![[r#"
            the plugin DIGEST has a wrong schema of its settings: it is not a JSON Schema: at `/properties/a/type`: value must be one of 'array', 'boolean', 'integer', 'null', 'number', 'object', 'string'; at `/properties/a/type`: want array, but got string (admission step: settings)
            help: write a JSON Schema of type `object` without references, such as {"type": "object", "properties": {"limit": {"type": "integer", "minimum": 1}}}"#]],
        ),
        (
            r#"{"type": "object", "properties": {"a": {"$ref": "file:///etc/passwd"}}}"#,
            expect![[r#"
            the plugin DIGEST has a wrong schema of its settings: it has the keyword `$ref`, and references are not followed (admission step: settings)
            help: write a JSON Schema of type `object` without references, such as {"type": "object", "properties": {"limit": {"type": "integer", "minimum": 1}}}"#]],
        ),
        (
            r#"{"type": "object", "required": ["a"]}"#,
            expect![[r#"
            the plugin DIGEST has a wrong schema of its settings: it does not take `{}` (at the top: missing properties 'a') and has no `examples` for the trial calls (admission step: settings)
            help: write a JSON Schema of type `object` without references, such as {"type": "object", "properties": {"limit": {"type": "integer", "minimum": 1}}}"#]],
        ),
        (
            r#"{"type": "object", "required": ["a"], "examples": [{"b": 1}]}"#,
            expect![[r#"
            the plugin DIGEST has a wrong schema of its settings: it does not take its own first example: at the top: missing properties 'a' (admission step: settings)
            help: write a JSON Schema of type `object` without references, such as {"type": "object", "properties": {"limit": {"type": "integer", "minimum": 1}}}"#]],
        ),
    ];
    for (schema, expected) in cases {
        check_settings(schema, &[], expected).await;
    }
}

/// Two large components with the same hundred functions, and different texts.
#[tokio::test]
async fn what_large_components_share_is_compiled_once() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("code");
    let functions = dir.join("functions");
    let component = |text: &str| {
        let mut guest = Guest::new();
        let (at, length) = guest.text(text);
        // In code, so that this function differs.
        let body = say(0, &format!("(i32.const {at})"), &format!("(i32.const {length})"));
        _ = guest.text(&"x".repeat(600 << 10));
        let shared: String = (0..100)
            .map(|number| {
                let steps = "(local.set 0 (i32.mul (local.get 0) (local.get 1)))".repeat(20);
                format!("(func (param i32 i32) (result i32) {steps} (i32.add (local.get 0) (i32.const {number})))\n")
            })
            .collect();
        guest.items(&shared).on(HookPoint::OnModelCall, &body).build()
    };
    let args = ["--exact", "plugin::bombs::compile_child_process", "--nocapture"];
    let program = std::env::current_exe().unwrap();
    let compile_in = CompileIn::Child { program, args: args.map(Into::into).to_vec() };
    let options = AdmissionOptions { compile_in, ..AdmissionOptions::default() };
    let mut sizes = Vec::new();
    for text in ["the first", "the second one"] {
        let code_cache = Some(CodeCache::open(&dir).unwrap());
        let engine = engine(EngineConfig { code_cache, ..EngineConfig::default() });
        let admitted = admit(&engine, &component(text), &Grants::none(), &options).await.unwrap();
        assert_eq!(says(&mut instance(&admitted)).await, text);
        assert_eq!(engine.compiled(), 1);
        sizes.push(fs::metadata(&functions).unwrap().len());
    }
    let [first, both] = sizes[..] else { unreachable!() };
    // Cranelift does not give every function the same key each time, so a few are added again.
    assert!(first > 10_000 && both > first && both < 2 * first, "{sizes:?}");
}
