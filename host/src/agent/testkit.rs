//! Whole episodes on the task `add` with real components, for the tests of this room.

use std::sync::{Arc, OnceLock};

use super::*;
use crate::harness::{EffectKind, Generation, HarnessManifest, HookPoint, Limits, PluginEntry};
use crate::plugin::testkit::Guest;
use crate::plugin::{Capability, Engine, PluginLimits};
use crate::policy::{Message, Policy, Sampling, ScriptedPolicy};
use crate::store::BlobStore;
use crate::task::Task;
use crate::workspace::WorkspaceConfig;

pub(super) const SUBMIT: &str = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && git diff";
pub(super) const FIX: &str = "sed -i 's/left - right/left + right/' calc.py";

pub(super) fn engine() -> &'static Engine {
    static ENGINE: OnceLock<Engine> = OnceLock::new();
    ENGINE.get_or_init(|| Engine::new(PluginLimits::default()).unwrap())
}

/// A policy that gives commands, or whole replies that hold a fence or start with a dot.
pub(super) fn scripted(replies: &[&str]) -> ScriptedPolicy {
    let replies: Vec<_> = replies
        .iter()
        .map(|reply| match reply.contains("```") || reply.starts_with('.') {
            true => (*reply).to_owned(),
            false => format!("```bash\n{reply}\n```"),
        })
        .collect();
    ScriptedPolicy::new(move |_| replies.clone()).with_byte_ids()
}

/// Plays these replies under these plugins, each granted everything.
pub(super) async fn play(plugins: &[(&str, Vec<u8>)], limits: Limits, replies: &[&str]) -> EpisodeRecord {
    play_on(engine(), plugins, limits, &scripted(replies)).await
}

/// The same with another engine and policy.
pub(super) async fn play_on(
    engine: &Engine,
    plugins: &[(&str, Vec<u8>)],
    limits: Limits,
    policy: &ScriptedPolicy,
) -> EpisodeRecord {
    play_spec(engine, plugins, limits, policy, None).await
}

/// The same with a skill.
pub(super) async fn play_spec(
    engine: &Engine,
    plugins: &[(&str, Vec<u8>)],
    limits: Limits,
    policy: &dyn Policy,
    skill: Option<String>,
) -> EpisodeRecord {
    let folder = tempfile::tempdir().unwrap();
    let blobs = BlobStore::open(folder.path()).unwrap();
    let entry = |(name, bytes): &(&str, Vec<u8>)| PluginEntry {
        name: (*name).to_owned(),
        digest: blobs.put(bytes).unwrap(),
        grants: Capability::ALL.map(|capability| capability.name().to_owned()).to_vec(),
        settings: serde_json::Map::new(),
    };
    let plugins = plugins.iter().map(entry).collect();
    let manifest = HarnessManifest { plugins, limits, ..HarnessManifest::bare() };
    let lease = Generation::build(engine, manifest, &blobs).await.unwrap().lease();
    run_episode(&spec(skill), policy, &lease, &WorkspaceConfig::default(), &Cancel::new()).await.unwrap()
}

/// The task `add` of the tests.
pub(super) fn spec(skill: Option<String>) -> EpisodeSpec {
    let data = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/tasks/add");
    EpisodeSpec {
        id: "e".into(),
        group: "g".into(),
        task: Arc::new(Task::load(&data).unwrap()),
        seed: 1,
        sampling: Sampling::default(),
        skill,
    }
}

/// A plugin that answers a point with a fixed effect of a variant.
pub(super) fn on(point: HookPoint, case: u32, text: &str) -> Vec<u8> {
    let mut guest = Guest::new();
    let body = guest.effect(case, text);
    guest.on(point, &body).build()
}

/// A plugin that answers a point with a fixed text.
pub(super) fn says(point: HookPoint, text: &str) -> Vec<u8> {
    let mut guest = Guest::new();
    let body = guest.some(text);
    guest.on(point, &body).build()
}

/// The last message that was shown before a turn (from 1).
pub(super) fn shown(record: &EpisodeRecord, turn: usize) -> &Message {
    record.turns[turn - 1].input.last().unwrap()
}

pub(super) fn effects(record: &EpisodeRecord, kind: EffectKind) -> usize {
    record.effects.iter().filter(|effect| effect.kind == kind).count()
}
