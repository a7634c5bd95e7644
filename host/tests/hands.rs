//! The harness `hands`: does an episode work with each of its tools?

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};
use tandem_host::agent::{Cancel, EpisodeSpec, Exit, Outcome, check_prompts, run_episode};
use tandem_host::forge::{Forge, ForgeConfig, Source};
use tandem_host::harness::{Generation, HarnessManifest, PluginEntry};
use tandem_host::plugin::{Engine, PluginLimits};
use tandem_host::policy::{Reply, Sampling, ScriptedPolicy, ToolCall};
use tandem_host::store::BlobStore;
use tandem_host::task::Task;
use tandem_host::workspace::WorkspaceConfig;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn spec() -> EpisodeSpec {
    EpisodeSpec {
        id: "e".into(),
        group: "g".into(),
        task: Arc::new(
            Task::load(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/tasks/add")).unwrap(),
        ),
        seed: 1,
        sampling: Sampling::default(),
        skill: None,
    }
}

#[tokio::test]
async fn an_episode_works_with_every_tool_of_hands() {
    let forge = Forge::new(ForgeConfig::new(Path::new(env!("CARGO_TARGET_TMPDIR")).join("forge"))).unwrap();
    let store = tempfile::tempdir().unwrap();
    let blobs = BlobStore::open(store.path()).unwrap();
    let mut manifest =
        HarnessManifest::read(&repository().join("examples/harnesses/hands/harness.toml")).unwrap();
    check_prompts(&manifest.prompts, &manifest.limits).unwrap();
    for (name, grants) in [("editor", vec!["workspace-read", "workspace-write"]), ("think", vec![])] {
        let built = forge.build(&Source::Crate { dir: repository().join("plugins").join(name) });
        let built = built.unwrap_or_else(|error| panic!("{name}: {error}"));
        manifest.plugins.push(PluginEntry {
            name: name.into(),
            digest: blobs.put(&built.component).unwrap(),
            grants: grants.into_iter().map(str::to_owned).collect(),
            settings: serde_json::Map::new(),
        });
    }
    let engine = Engine::new(PluginLimits::default()).unwrap();
    let generation =
        Generation::build(&engine, manifest, &blobs).await.unwrap_or_else(|error| panic!("{error}"));

    let calls: Vec<(&str, Value)> = vec![
        ("bash", json!({"command": "cd /tmp && seen=yes"})),
        ("bash", json!({"command": "pwd; echo $seen"})),
        ("editor", json!({"command": "view", "path": "/workspace/calc.py"})),
        ("think", json!({"thought": "The sign is wrong."})),
        (
            "editor",
            json!({"command": "str_replace", "path": "/workspace/calc.py", "old_str": "left - right", "new_str": "left + right"}),
        ),
        ("finish", json!({"message": "Repaired."})),
    ];
    let policy = ScriptedPolicy::answering(move |request, turn, _| {
        let names: Vec<_> = request.tools.iter().map(|tool| tool["function"]["name"].clone()).collect();
        assert_eq!(names, ["bash", "editor", "think", "finish"]);
        let (name, arguments) = calls.get(turn - 1)?.clone();
        Some(Reply {
            tool_calls: vec![ToolCall { id: format!("c{turn}"), name: name.into(), arguments }],
            ..Reply::default()
        })
    });
    let config = WorkspaceConfig::default();
    let record = run_episode(&spec(), &policy, &generation.lease(), &config, &Cancel::new()).await.unwrap();
    let shown = |turn: usize| record.turns[turn].input.last().unwrap().text();
    assert_eq!(shown(2), "/tmp\nyes");
    assert!(shown(3).contains("     2\t    return left - right"), "{}", shown(3));
    assert_eq!(shown(4), "Noted.");
    assert!(shown(5).starts_with("Changed. calc.py"), "{}", shown(5));
    assert_eq!((record.outcome, &record.exit), (Outcome::Solved, &Exit::Submitted));
    assert_eq!(record.faults, []);
}

#[tokio::test]
async fn a_long_history_of_hands_is_shortened_once_and_a_short_one_never() {
    let path = repository().join("examples/harnesses/hands/harness.toml");
    let manifest = HarnessManifest::read(&path).unwrap();
    let after = manifest.limits.condense.after;
    let lease = Arc::new(Generation::bare(manifest)).lease();
    let check = async |turns: usize, expected: u32| {
        let policy = ScriptedPolicy::answering(move |_, turn, _| {
            let (name, arguments) = match turn == turns {
                true => ("finish", json!({})),
                false => ("bash", json!({"command": format!("echo {turn}")})),
            };
            let call = ToolCall { id: format!("c{turn}"), name: name.into(), arguments };
            Some(Reply { tool_calls: vec![call], ..Reply::default() })
        });
        let config = WorkspaceConfig::default();
        let record = run_episode(&spec(), &policy, &lease, &config, &Cancel::new()).await.unwrap();
        assert_eq!((record.turns.len(), &record.exit), (turns, &Exit::Submitted));
        assert_eq!(record.spent.condensations, expected, "{turns} turns");
    };
    check(after + 1, 0).await;
    check(after + 2, 1).await;
}
