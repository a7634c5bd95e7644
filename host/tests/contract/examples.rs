//! Do the examples of the contract answer as they say, in both languages?

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use serde::Deserialize;
use serde_json::{Map, Value, json};
use tandem_host::forge::{Forge, ForgeConfig, Language, Source};
use tandem_host::plugin::{
    AdmissionOptions, CodeCache, Engine, EngineConfig, Grants, HookPoint, RunPoint, admit, run_point,
};
use tandem_host::task::Task;
use tandem_host::workspace::{Workspace, WorkspaceConfig};

/// One call of an example.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// The point that is called; the example's own unless given.
    point: Option<String>,
    pub input: Value,
    #[serde(default)]
    pub settings: Map<String, Value>,
    pub output: Value,
    /// What it logs, `level: message`.
    #[serde(default)]
    pub log: Option<String>,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The source of an example.
pub fn source(name: &str, extension: &str) -> String {
    let path = root().join("examples/contract").join(format!("{name}.{extension}"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// What the examples answer.
pub fn cases() -> BTreeMap<String, Vec<Case>> {
    serde_json::from_str(&source("cases", "json")).unwrap_or_else(|error| panic!("cases.json: {error}"))
}

/// Compiled code is kept between test runs: a component with QuickJS inside takes seconds.
pub static ENGINE: LazyLock<Engine> = LazyLock::new(|| {
    let cache = CodeCache::open(Path::new(env!("CARGO_TARGET_TMPDIR")).join("contract-code"));
    let code_cache = Some(cache.unwrap_or_else(|error| panic!("{error}")));
    Engine::with(EngineConfig { code_cache, ..EngineConfig::default() }).unwrap()
});

static FORGE: LazyLock<Forge> = LazyLock::new(|| {
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("forge");
    Forge::new(ForgeConfig::new(cache)).unwrap_or_else(|error| panic!("{error}"))
});

/// The component of a plugin in one Rust file.
pub fn build(name: &str, text: &str) -> Vec<u8> {
    let source = Source::File { name: format!("{name}.rs"), text: text.to_owned() };
    FORGE.build(&source).unwrap_or_else(|error| panic!("{name}: {error}")).component
}

/// The task `add` of the tests.
pub fn task() -> Task {
    Task::load(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/tasks/add")).unwrap()
}

/// Admits an example, calls it, and compares.
async fn check(name: &str, component: &[u8]) {
    let config = WorkspaceConfig::default();
    let workspace = Workspace::create(task().snapshot(&config).await.unwrap(), &config).await.unwrap();
    let workspace = Arc::new(workspace);
    let options = AdmissionOptions::default();
    for case in &cases()[name] {
        let point = HookPoint::named(case.point.as_deref().unwrap_or(name)).unwrap();
        let settings = case.settings.clone();
        let how = RunPoint { grants: None, settings, seed: 1, workspace: workspace.clone() };
        let answer = run_point(&ENGINE, component, point, &case.input, how, &options).await;
        let answer = answer.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(answer.output, case.output, "{name}: {}", case.input);
        let log: Vec<_> = answer.log.iter().map(|line| format!("{}: {}", line.level, line.message)).collect();
        assert_eq!(log, Vec::from_iter(case.log.clone()), "{name}: {}", case.input);
    }
    let admitted = admit(&ENGINE, component, &Grants::all(), &options).await.unwrap();
    let schema = admitted.settings_schema().map(|schema| schema.json()["properties"].clone());
    let expected = json!({"turns_left": {"type": "integer", "minimum": 1, "maximum": 20}});
    assert_eq!(schema, (name == "settings-schema").then_some(expected), "{name}");
}

#[tokio::test]
async fn rust_examples_answer_as_they_say() {
    for name in cases().keys() {
        check(name, &build(name, &source(name, "rs"))).await;
    }
}

#[tokio::test]
async fn javascript_examples_answer_the_same() {
    if let Err(missing) = FORGE.tools(Language::JavaScript) {
        assert!(std::env::var_os("TANDEM_REQUIRE_LANGUAGES").is_none(), "{missing}");
        println!("the JavaScript examples are left out: {missing}");
        return;
    }
    for name in cases().keys() {
        let file = Source::File { name: format!("{name}.js"), text: source(name, "js") };
        let built = FORGE.build(&file).unwrap_or_else(|error| panic!("{name}.js: {error}"));
        check(name, &built.component).await;
    }
}
