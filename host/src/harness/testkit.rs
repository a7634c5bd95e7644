//! The hooks of one episode, with real components, for the tests of this room.

use std::sync::{Arc, OnceLock};

use serde_json::json;

use super::*;
use crate::plugin::testkit::*;
use crate::plugin::{Engine, NoWorkspace, PluginLimits};
use crate::policy::{Origin, Piece, ToolCall};
use crate::store::BlobStore;

pub(crate) fn engine() -> &'static Engine {
    static ENGINE: OnceLock<Engine> = OnceLock::new();
    ENGINE.get_or_init(|| Engine::new(PluginLimits::default()).unwrap())
}

pub(crate) fn blobs() -> (tempfile::TempDir, BlobStore) {
    let dir = tempfile::tempdir().unwrap();
    let blobs = BlobStore::open(dir.path()).unwrap();
    (dir, blobs)
}

/// A manifest of these plugins, each granted everything.
pub(crate) fn manifest(blobs: &BlobStore, plugins: &[(&str, &[u8])]) -> HarnessManifest {
    let grants: Vec<_> = crate::plugin::Capability::ALL.map(|c| c.name().to_owned()).to_vec();
    let entry = |(name, bytes): &(&str, &[u8])| PluginEntry {
        name: (*name).to_owned(),
        digest: blobs.put(bytes).unwrap(),
        grants: grants.clone(),
        settings: serde_json::Map::new(),
    };
    HarnessManifest { plugins: plugins.iter().map(entry).collect(), ..HarnessManifest::bare() }
}

/// The hooks of one episode with these plugins.
pub(crate) async fn hooks(plugins: &[(&str, &[u8])]) -> EpisodeHooks {
    hooks_of(engine(), plugins).await
}

/// The same on an engine with limits of its own.
pub(crate) async fn hooks_of(engine: &Engine, plugins: &[(&str, &[u8])]) -> EpisodeHooks {
    generation_of(engine, plugins).await.lease().open(1, Arc::new(NoWorkspace))
}

/// A generation with these plugins.
pub(crate) async fn generation_of(engine: &Engine, plugins: &[(&str, &[u8])]) -> Arc<Generation> {
    let (_dir, blobs) = blobs();
    Generation::build(engine, manifest(&blobs, plugins), &blobs).await.unwrap()
}

pub(crate) fn at(turn: u32) -> Context {
    Context { turn, ..Context::default() }
}

pub(crate) fn bash(command: &str) -> ToolCall {
    ToolCall { id: "1".into(), name: "bash".into(), arguments: json!({ "command": command }) }
}

pub(crate) fn result(text: &str) -> ToolResult {
    let raw_bytes = text.len() as u64;
    ToolResult { status: ToolStatus::Finished, exit_code: Some(0), text: text.into(), raw_bytes }
}

pub(crate) fn patch(source: PatchSource, bytes: u64) -> PatchCandidate {
    PatchCandidate { source, bytes, files: vec!["a.py".into()], applies: bytes > 0 }
}

pub(crate) fn texts(pieces: &[Piece]) -> Vec<&str> {
    pieces.iter().map(|piece| piece.text.as_str()).collect()
}

/// One line for each effect and fault.
pub(crate) fn record(hooks: EpisodeHooks) -> String {
    let (effects, faults) = hooks.finish();
    let effects = effects.iter().map(|effect| {
        let Effect { name, point, turn, kind, text, .. } = effect;
        format!("{name} {} turn {turn} {}: {text}", point.name(), kind.name())
    });
    let faults = faults.iter().map(|fault| {
        let out = if fault.barred { ", out" } else { "" };
        format!("{} {} turn {} fault: {}{out}", fault.name, fault.point.name(), fault.turn, fault.reason)
    });
    effects.chain(faults).collect::<Vec<_>>().join("\n")
}

/// A plugin that answers `point` with a fixed effect of its variant.
pub(crate) fn on(point: HookPoint, case: u32, text: &str) -> Vec<u8> {
    let mut guest = Guest::new();
    let body = guest.effect(case, text);
    guest.on(point, &body).build()
}

/// A plugin that answers `point` with a fixed text.
pub(crate) fn says(point: HookPoint, text: &str) -> Vec<u8> {
    let mut guest = Guest::new();
    let body = guest.some(text);
    guest.on(point, &body).build()
}

/// A plugin that does `body` at `point` from turn 100 on, and nothing before: it passes the
/// trial calls of admission.
pub(crate) fn from_turn_100(point: HookPoint, body: &str) -> Guest {
    let body = match point {
        HookPoint::Observe => format!("(if (i32.ge_u (local.get 0) (i32.const 100)) (then {body}))"),
        HookPoint::OnLimit => late(body).replace(NOTHING, "(i32.const 0)"),
        // The parameters of these are in memory.
        HookPoint::OnToolResult | HookPoint::OnSubmit => {
            late(body).replace("(local.get 0)", "(i32.load (local.get 0))")
        }
        _ => late(body),
    };
    Guest::new().on(point, &body)
}

/// The choice of the second candidate.
pub(crate) const SECOND: &str =
    "(i32.store8 (i32.const 64) (i32.const 1)) (i32.store (i32.const 68) (i32.const 1)) (i32.const 64)";

/// Logs the names of the events that it observes.
pub(crate) fn observer() -> Vec<u8> {
    let body = "(call $log (i32.const 1) (local.get 10) (local.get 11))";
    Guest::new().import("log", "log", "(param i32 i32 i32)").on(HookPoint::Observe, body).build()
}

/// Refuses every call with the arguments that it sees as the reason.
pub(crate) fn tells_arguments() -> Vec<u8> {
    let (at, length) = CALL_ARGUMENTS;
    Guest::new().on(HookPoint::OnToolCall, &say(1, at, length)).build()
}

/// Calls every point and sees that the original value stands.
pub(crate) async fn unchanged(hooks: &mut EpisodeHooks, turn: u32) {
    let at = at(turn);
    assert!(hooks.on_episode_start(&at, "repair").await.is_empty());
    assert_eq!(hooks.on_model_call(&at).await, ModelCallEffect::Proceed(vec![]));
    assert_eq!(hooks.on_format_error(&at, FormatError::NoAction, "hm").await, None);
    let call = bash("ls");
    let effect = hooks.on_tool_call(&at, &call).await;
    assert_eq!(effect, ToolCallEffect::Proceed(call.arguments.clone()));
    let pieces = hooks.on_tool_result(&at, &call, &result("a.py")).await;
    assert_eq!(pieces, [Piece { origin: Origin::Host, text: "a.py".into() }]);
    let effect = hooks.on_loop(&at, Repetition::SameCall).await;
    assert_eq!(effect, ModelCallEffect::Proceed(vec![]));
    let submission =
        Submission { patch: patch(PatchSource::Submitted, 9), work_tree: WorkTree::default(), deferrals: 0 };
    assert_eq!(hooks.on_submit(&at, &submission).await, SubmitEffect::Accept);
    let candidates = [patch(PatchSource::Submitted, 9), patch(PatchSource::WorkTree, 9)];
    assert_eq!(hooks.on_choose_patch(&at, &candidates).await, 0);
    assert!(!hooks.on_limit(&at, LimitKind::Turns, &candidates[1]).await);
    hooks.observe(&at, "turn", &json!({})).await;
}

/// A submission of a patch, with the work tree clean.
pub(crate) fn submission(bytes: u64, deferrals: u32) -> Submission {
    Submission { patch: patch(PatchSource::Submitted, bytes), work_tree: WorkTree::default(), deferrals }
}
