//! Does the loop keep the contract's rules around its hooks? Real components,
//! real workspaces.

use std::sync::{Arc, OnceLock};

use serde_json::json;

use super::*;
use crate::harness::{
    EffectKind, Generation, Generations, HarnessManifest, HookPoint, LimitKind, Limits, PatchSource,
    PluginEntry, Protocol, ToolStatus,
};
use crate::plugin::testkit::{Guest, notes, tool_says};
use crate::plugin::{Engine, PluginLimits};
use crate::policy::{Message, Origin, Reply, Sampling, ScriptedPolicy, ToolCall};
use crate::store::BlobStore;
use crate::task::Task;
use crate::workspace::WorkspaceConfig;

const SUBMIT: &str = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && git diff";
const FIX: &str = "sed -i 's/left - right/left + right/' calc.py";

fn engine() -> &'static Engine {
    static ENGINE: OnceLock<Engine> = OnceLock::new();
    ENGINE.get_or_init(|| Engine::new(PluginLimits::default()).unwrap())
}

/// Plays commands, or whole replies that hold a fence, under these plugins.
async fn play(plugins: &[(&str, Vec<u8>)], limits: Limits, replies: &[&str]) -> EpisodeRecord {
    let replies: Vec<_> = replies
        .iter()
        .map(|reply| match reply.contains("```") || reply.starts_with('.') {
            true => (*reply).to_owned(),
            false => format!("```bash\n{reply}\n```"),
        })
        .collect();
    play_policy(plugins, limits, &ScriptedPolicy::new(move |_| replies.clone()).with_byte_ids()).await
}

async fn play_policy(plugins: &[(&str, Vec<u8>)], limits: Limits, policy: &ScriptedPolicy) -> EpisodeRecord {
    let folder = tempfile::tempdir().unwrap();
    let blobs = BlobStore::open(folder.path()).unwrap();
    let entry = |(name, bytes): &(&str, Vec<u8>)| PluginEntry {
        name: (*name).to_owned(),
        digest: blobs.put(bytes).unwrap(),
        grants: Vec::new(),
        settings: serde_json::Map::new(),
    };
    let plugins = plugins.iter().map(entry).collect();
    let manifest = HarnessManifest { plugins, limits, ..HarnessManifest::bare() };
    let generation = Generation::build(engine(), manifest, &blobs).await.unwrap();
    let data = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/tasks/add");
    let spec = EpisodeSpec {
        id: "e".into(),
        group: "g".into(),
        task: Arc::new(Task::load(&data).unwrap()),
        seed: 1,
        sampling: Sampling::default(),
        skill: None,
    };
    let lease = Generations::new(generation).lease();
    run_episode(&spec, policy, &lease, &WorkspaceConfig::default(), &Cancel::new()).await.unwrap()
}

/// A plugin that answers a point with a fixed effect of a variant.
fn on(point: HookPoint, case: u32, text: &str) -> Vec<u8> {
    let mut guest = Guest::new();
    let body = guest.effect(case, text);
    guest.on(point, &body).build()
}

/// A plugin that answers a point with a fixed text.
fn says(point: HookPoint, text: &str) -> Vec<u8> {
    let mut guest = Guest::new();
    let body = guest.some(text);
    guest.on(point, &body).build()
}

/// The last message that was shown before a turn (from 1).
fn shown(record: &EpisodeRecord, turn: usize) -> &Message {
    record.turns[turn - 1].input.last().unwrap()
}

fn effects(record: &EpisodeRecord, kind: EffectKind) -> usize {
    record.effects.iter().filter(|effect| effect.kind == kind).count()
}

#[tokio::test]
async fn a_deferred_submission_becomes_an_observation_and_is_capped() {
    let defer = says(HookPoint::OnSubmit, "Look again.");
    let replies = [SUBMIT, FIX, SUBMIT, SUBMIT];
    let record = play(&[("hold", defer)], Limits::default(), &replies).await;
    assert_eq!(record.outcome, Outcome::Solved);
    assert_eq!((record.turns.len(), effects(&record, EffectKind::Defer)), (4, 2));
    let message = shown(&record, 2);
    assert!(message.text().starts_with("exit code 0\nCOMPLETE_TASK"), "{}", message.text());
    let last = message.pieces.last().unwrap();
    assert_eq!(last.text, "Look again.");
    assert!(
        matches!(&last.origin, Origin::Hook { point, effect, .. } if point == "on-submit" && effect == "defer")
    );
}

#[tokio::test]
async fn notes_of_a_hook_are_at_the_end_of_the_newest_content_and_not_trained_on() {
    let record = play(&[("note", notes("Careful."))], Limits::default(), &["ls", SUBMIT]).await;
    for turn in [1, 2] {
        assert!(shown(&record, turn).text().ends_with("\n\nCareful."));
    }
    let segment = &record.segments[0];
    let sampled: Vec<u8> =
        segment.ids.iter().zip(&segment.mask).filter(|(_, mask)| **mask).map(|(id, _)| *id as u8).collect();
    assert!(!String::from_utf8_lossy(&sampled).contains("Careful."));
}

#[tokio::test]
async fn every_call_has_one_result_call_whatever_happened_to_it() {
    let annotate = on(HookPoint::OnToolResult, 0, "[seen]");
    let limits = Limits { command_seconds: 1, ..Limits::default() };
    let replies = ["ls", "false", "sleep 9", SUBMIT];
    let record = play(&[("seen", annotate.clone())], limits, &replies).await;
    assert_eq!(effects(&record, EffectKind::Annotate), 4);

    let refuse = on(HookPoint::OnToolCall, 1, "Not this way.");
    let limits = Limits { turns: 2, ..Limits::default() };
    let record = play(&[("no", refuse), ("seen", annotate.clone())], limits, &[FIX, FIX]).await;
    assert_eq!((effects(&record, EffectKind::Refuse), effects(&record, EffectKind::Annotate)), (2, 2));
    let call = &record.turns[0].calls[0];
    assert_eq!((call.result.status, call.result.exit_code), (ToolStatus::Refused, None));
    let message = shown(&record, 2);
    assert_eq!(message.text(), "refused\nNot this way.\n[seen]");
    assert!(message.pieces.iter().all(|piece| matches!(piece.origin, Origin::Hook { .. })));
    assert!(record.work_tree.changed.is_empty(), "a refused command does not run");

    // In a reply with several calls, those after the one that hands in do not run.
    let policy = ScriptedPolicy::answering(|_, _, _| {
        let call = |id: &str, command: &str| ToolCall {
            id: id.into(),
            name: "bash".into(),
            arguments: json!({ "command": command }),
        };
        let tool_calls = vec![call("1", FIX), call("2", SUBMIT), call("3", "rm calc.py")];
        Some(Reply { tool_calls, ..Reply::default() })
    });
    let limits = Limits { protocol: Protocol::Tools, ..Limits::default() };
    let record = play_policy(&[("seen", annotate)], limits, &policy).await;
    assert_eq!((record.outcome, effects(&record, EffectKind::Annotate)), (Outcome::Solved, 3));
}

#[tokio::test]
async fn rewritten_arguments_are_what_runs_and_what_is_recorded() {
    let rewrite = on(HookPoint::OnToolCall, 0, r#"{"command": "echo rewritten"}"#);
    let limits = Limits { turns: 1, ..Limits::default() };
    let record = play(&[("rewrite", rewrite)], limits, &["ls"]).await;
    let call = &record.turns[0].calls[0];
    assert_eq!(call.arguments, json!({"command": "echo rewritten"}));
    assert_eq!(call.result.text, "exit code 0\nrewritten");

    let broken = on(HookPoint::OnToolCall, 0, r#"{"cmd": "ls"}"#);
    let limits = Limits { turns: 1, ..Limits::default() };
    let record = play(&[("broken", broken)], limits, &["ls"]).await;
    assert_eq!(record.turns[0].calls[0].result.status, ToolStatus::Failed);
}

#[tokio::test]
async fn a_plugin_chooses_and_salvages_the_work_tree_and_never_its_own_bytes() {
    let salvage = Guest::new().on(HookPoint::OnLimit, "(i32.const 1)").build();
    let limits = Limits { turns: 1, ..Limits::default() };
    let record = play(&[("salvage", salvage.clone())], limits, &[FIX]).await;
    assert_eq!(record.exit, Exit::Limit { limit: LimitKind::Turns, salvaged: true });
    assert_eq!((record.outcome, record.patch_source), (Outcome::Solved, Some(PatchSource::WorkTree)));
    // Three format errors are a limit too.
    let replies = [FIX, ".", ".", "."];
    let record = play(&[("salvage", salvage)], Limits::default(), &replies).await;
    assert_eq!(record.exit, Exit::Limit { limit: LimitKind::FormatErrors, salvaged: true });
    assert_eq!(record.outcome, Outcome::Solved);

    // `some(1)` where there is a second candidate, which is what the trial calls of admission give.
    let second =
        "(i32.store8 (i32.const 64) (i32.const 1)) (i32.store (i32.const 68) (i32.const 1)) (i32.const 64)";
    let choose = Guest::new().on(HookPoint::OnChoosePatch, second).build();
    let replies = [FIX, "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; echo done"];
    let record = play(&[("choose", choose)], Limits::default(), &replies).await;
    assert_eq!((record.outcome, record.patch_source), (Outcome::Solved, Some(PatchSource::WorkTree)));
    assert_eq!(record.submitted_applies, Some(false));
}

#[tokio::test]
async fn a_hook_stops_a_policy_that_goes_round_in_circles() {
    let stop = on(HookPoint::OnLoop, 1, "It repeats itself.");
    let record = play(&[("stop", stop)], Limits::default(), &["ls", "ls", "ls", "ls", "ls"]).await;
    let Exit::Stopped { reason, .. } = &record.exit else { panic!("{:?}", record.exit) };
    assert_eq!((reason.as_str(), record.turns.len()), ("It repeats itself.", 4));
    assert_eq!((record.outcome, record.patch_source), (Outcome::Unsolved, None));

    let note = on(HookPoint::OnLoop, 0, "Try something else.");
    let record = play(&[("note", note)], Limits::default(), &["ls", "ls", "ls", "ls", SUBMIT]).await;
    assert!(shown(&record, 5).text().ends_with("\n\nTry something else."));
}

#[tokio::test]
async fn a_hook_stops_before_a_model_call() {
    let record =
        play(&[("stop", on(HookPoint::OnModelCall, 1, "Enough."))], Limits::default(), &["ls"]).await;
    assert!(matches!(&record.exit, Exit::Stopped { reason, .. } if reason == "Enough."));
    assert!(record.turns.is_empty());
}

#[tokio::test]
async fn a_plugin_has_its_section_in_the_first_prompt_and_its_own_corrective_text() {
    let start = says(HookPoint::OnEpisodeStart, "Tests lie in `tests/`.");
    let correct = says(HookPoint::OnFormatError, "One block, please.");
    let record = play(&[("start", start), ("correct", correct)], Limits::default(), &[".", SUBMIT]).await;
    assert!(shown(&record, 1).text().ends_with("\n\nTests lie in `tests/`."));
    assert_eq!(shown(&record, 2).text(), "One block, please.");
}

#[tokio::test]
async fn a_tool_of_a_plugin_is_called_as_a_block_of_its_name() {
    let mut guest = Guest::new();
    let (at, length) = guest.text("4 lines");
    let body = tool_says(&format!("(i32.const {at})"), &format!("(i32.const {length})"), false);
    let tool = guest.tools(&[("count", "Counts lines.", r#"{"type": "object"}"#)], &body).build();
    let replies = ["```count\n{\"path\": \"calc.py\"}\n```", "```count\ncalc.py\n```", SUBMIT];
    let record = play(&[("count", tool)], Limits::default(), &replies).await;
    let first = shown(&record, 1).text();
    assert!(first.contains("- `count`: Counts lines. Arguments: {\"type\":\"object\"}"), "{first}");
    let call = &record.turns[0].calls[0];
    assert_eq!((call.name.as_str(), call.result.text.as_str()), ("count", "4 lines"));
    assert!(matches!(shown(&record, 2).pieces[0].origin, Origin::Hook { .. }));
    assert!(shown(&record, 3).text().contains("`count` takes a JSON object"), "{}", shown(&record, 3).text());
}

#[tokio::test]
async fn observers_hear_of_the_episode_and_never_of_its_verdict() {
    let body = "(call $log (i32.const 1) (local.get 12) (local.get 13))";
    let guest = Guest::new().import("log", "log", "(param i32 i32 i32)").on(HookPoint::Observe, body).build();
    let folder = tempfile::tempdir().unwrap();
    let blobs = BlobStore::open(folder.path()).unwrap();
    let entry = PluginEntry {
        name: "watch".into(),
        digest: blobs.put(&guest).unwrap(),
        grants: vec!["log".into()],
        settings: serde_json::Map::new(),
    };
    let manifest = HarnessManifest { plugins: vec![entry], ..HarnessManifest::bare() };
    let generation = Generation::build(engine(), manifest, &blobs).await.unwrap();
    let data = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/tasks/add");
    let spec = EpisodeSpec {
        id: "e".into(),
        group: "g".into(),
        task: Arc::new(Task::load(&data).unwrap()),
        seed: 1,
        sampling: Sampling::default(),
        skill: None,
    };
    let replies = vec![format!("```bash\n{FIX}\n```"), format!("```bash\n{SUBMIT}\n```")];
    let policy = ScriptedPolicy::new(move |_| replies.clone());
    let lease = Generations::new(generation).lease();
    let record =
        run_episode(&spec, &policy, &lease, &WorkspaceConfig::default(), &Cancel::new()).await.unwrap();
    let heard: Vec<_> = record.effects.iter().map(|effect| effect.text.as_str()).collect();
    assert_eq!(heard.len(), 4, "{heard:?}");
    assert!(heard[0].contains("instruction"), "{heard:?}");
    assert!(heard[1].contains("\"turn\":1") && heard[2].contains("\"turn\":2"), "{heard:?}");
    assert!(heard[3].contains("\"exit\":\"submitted\""), "{heard:?}");
    assert!(!heard.iter().any(|text| text.contains("solved") || text.contains("reward")), "{heard:?}");
}
