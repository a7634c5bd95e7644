//! The forge's components in the host: are the first-party plugins admitted, and what do they
//! answer?

use std::path::Path;
use std::sync::{Arc, LazyLock};
use std::time::Instant;

use expect_test::{Expect, expect};
use serde_json::{Value, json};
use tandem_host::forge::{Forge, ForgeConfig, Source};
use tandem_host::harness::{Context, Generation, Generations, HarnessManifest, ModelCallEffect, PluginEntry};
use tandem_host::plugin::{
    AdmissionOptions, Engine, HookPoint, NoWorkspace, PluginLimits, RunPoint, check, run_point,
};
use tandem_host::store::BlobStore;

static FORGE: LazyLock<Forge> = LazyLock::new(|| {
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("forge");
    Forge::new(ForgeConfig::new(cache)).unwrap_or_else(|error| panic!("{error}"))
});
static ENGINE: LazyLock<Engine> = LazyLock::new(|| Engine::new(PluginLimits::default()).unwrap());

/// The component of a plugin in `plugins/`.
fn first_party(name: &str) -> Vec<u8> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../plugins").join(name);
    FORGE.build(&Source::Crate { dir }).unwrap_or_else(|error| panic!("{error}")).component
}

fn written(text: &str) -> Vec<u8> {
    let source = Source::File { name: "plugin.rs".into(), text: text.into() };
    FORGE.build(&source).unwrap_or_else(|error| panic!("{error}")).component
}

/// Points, grants, tools, and what was answered to trial calls.
async fn admitted(name: &str, expected: Expect) {
    let report = match check(&ENGINE, &first_party(name), None, &AdmissionOptions::default()).await {
        Ok(report) => report,
        Err(reasons) => panic!("{}", reasons[0]),
    };
    let points: Vec<_> = report.exports.iter().map(|point| point.name()).collect();
    let tools: Vec<_> = report.tools.iter().map(|tool| tool.name.as_str()).collect();
    let mut text = format!("exports {points:?}, grants {}, tools {tools:?}\n", report.grants.to_toml());
    for call in report.canary.iter().filter(|call| !call.output.is_null()) {
        text.push_str(&format!("{} {} -> {}\n", call.point.name(), call.input, call.output));
    }
    expected.assert_eq(&text);
}

#[tokio::test]
async fn first_party_plugins_are_admitted() {
    admitted(
        "budget-warning",
        expect![[r#"
        exports ["on-model-call"], grants [], tools []
    "#]],
    )
    .await;
    admitted("hold-empty-patch", expect![[r#"
        exports ["on-submit"], grants [], tools []
        on-submit {"submission":{"patch":{"bytes":0,"files":[]},"work_tree":{"changed":[]}}} -> "Your patch is empty and no file is changed. Edit the source file that has the fault, check the fix, then hand in."
    "#]]).await;
    admitted(
        "new-file-reminder",
        expect![[r#"
        exports ["on-tool-result", "on-submit"], grants ["workspace-read"], tools []
    "#]],
    )
    .await;
    admitted(
        "check-names",
        expect![[r#"
        exports ["on-submit"], grants ["workspace-read"], tools []
    "#]],
    )
    .await;
    admitted("rescue-patch", expect![[r#"
        exports ["on-choose-patch", "on-limit"], grants [], tools []
        on-choose-patch {"candidates":[{"applies":false,"bytes":0,"files":[],"source":"submitted"},{"applies":true,"bytes":9,"files":["a"],"source":"work-tree"}]} -> 1
        on-limit {} -> true
        on-limit {"limit":"tokens","work_tree":{"bytes":0,"files":[]}} -> false
    "#]]).await;
    admitted("edit", expect![[r#"
        exports ["tools"], grants ["workspace-read", "workspace-write"], tools ["edit"]
        tools {"arguments":{},"name":"edit"} -> {"content":[{"text":"`path` is missing: the file, relative to the repository."}],"is_error":true,"structured":null}
    "#]]).await;
}

/// One call of a point, as `plugin run` makes it.
async fn run(bytes: &[u8], point: HookPoint, input: Value) -> String {
    let workspace = Arc::new(NoWorkspace);
    let how = RunPoint { grants: None, settings: serde_json::Map::new(), seed: 1, workspace };
    match run_point(&ENGINE, bytes, point, &input, how, &AdmissionOptions::default()).await {
        Ok(answer) => answer.output.to_string(),
        Err(error) => error.to_string(),
    }
}

#[tokio::test]
async fn panic_of_a_rust_plugin_shows_its_message() {
    let bytes = written(
        r#"
use tandem_plugin::*;
pub struct Plugin;
impl OnModelCall for Plugin {
    fn on_model_call(context: Context) -> Option<ModelCallEffect> {
        if context.turn == 7 {
            let none: Option<u32> = None;
            none.expect("seven is too much");
        }
        None
    }
}
export_on_model_call!(Plugin);
"#,
    );
    let point = HookPoint::OnModelCall;
    let said = run(&bytes, point, json!({"context": {"turn": 7}})).await;
    assert!(said.contains("trapped") && said.contains("seven is too much"), "{said}");
    assert_eq!(run(&bytes, point, json!({"context": {"turn": 8}})).await, "null");
}

/// What a call costs; printed with `--nocapture`. The bound only catches a slip of magnitude.
#[tokio::test]
async fn hook_call_takes_microseconds() {
    let dir = tempfile::tempdir().unwrap();
    let blobs = BlobStore::open(dir.path()).unwrap();
    let mut manifest = HarnessManifest::bare();
    manifest.plugins.push(PluginEntry {
        name: "budget-warning".into(),
        digest: blobs.put(&first_party("budget-warning")).unwrap(),
        grants: Vec::new(),
        settings: serde_json::Map::new(),
    });
    let start = Instant::now();
    let generation = Generation::build(&ENGINE, manifest.clone(), &blobs).await.unwrap();
    let build = start.elapsed();
    let start = Instant::now();
    Generation::build(&ENGINE, manifest, &blobs).await.unwrap();
    let again = start.elapsed();
    let generations = Generations::new(generation);

    let context = Context { turn: 1, ..Context::default() };
    let (mut fresh, mut warm) = (Vec::new(), Vec::new());
    for seed in 0..200 {
        let start = Instant::now();
        let mut hooks = generations.lease().open(seed, Arc::new(NoWorkspace));
        let effect = hooks.on_model_call(&context).await;
        fresh.push(start.elapsed());
        assert_eq!(effect, ModelCallEffect::Proceed(vec![]));
        for _ in 0..20 {
            let start = Instant::now();
            hooks.on_model_call(&context).await;
            warm.push(start.elapsed());
        }
    }
    fresh.sort();
    warm.sort();
    let (fresh, warm) = (fresh[fresh.len() / 2], warm[warm.len() / 2]);
    println!("build {build:?}, again {again:?}, first call {fresh:?}, next call {warm:?}");
    assert!(warm.as_micros() < 1_000, "{warm:?}");
}
