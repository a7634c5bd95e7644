//! Does a whole episode keep the rules of the contract? Real components, real workspaces.
//! Rule 2: exactly one result call for every tool call. Rule 5: append-only over sampled tokens.
//! Rule 6: no text of a hook is trained on, and each names where it came from. Rule 8: the same
//! path in training, evaluation and deployment.

use serde_json::{Value, json};

use super::testkit::*;
use super::*;
use crate::harness::{EffectKind, HookPoint, Limits, Protocol, ToolStatus};
use crate::plugin::testkit::*;
use crate::plugin::{Engine, PluginLimits};
use crate::policy::{Origin, Reply, Role, ScriptedPolicy, ToolCall};
use crate::store::Digest;

/// A plugin that annotates every result.
fn seen() -> Vec<u8> {
    on(HookPoint::OnToolResult, 0, "[seen]")
}

/// A tool `count` with this body.
fn tool(body: &str) -> Vec<u8> {
    Guest::new().tools(&[("count", "Counts lines.", r#"{"type": "object"}"#)], body).build()
}

/// A tool that does `body` from its first turn with a workspace on, and answers nothing in the
/// trial calls, whose turn is 1.
fn tool_from_turn_2(body: &str) -> Vec<u8> {
    let answer = tool_says("(i32.const 0)", "(i32.const 0)", false);
    tool(&format!("(if (i32.ge_u (local.get 0) (i32.const 2)) (then {body})) {answer}"))
}

/// Each call of the record has one result call; `calls` and their states are as expected.
#[track_caller]
fn check_results(record: &EpisodeRecord, expected: &[ToolStatus]) {
    let calls: Vec<_> =
        record.turns.iter().flat_map(|turn| &turn.calls).map(|call| call.result.status).collect();
    assert_eq!(calls, expected);
    assert_eq!(effects(record, EffectKind::Annotate), expected.len(), "result calls");
}

#[tokio::test]
async fn rule_2_commands_have_one_result_call_however_they_end() {
    use ToolStatus::{Finished, TimedOut};
    let limits = Limits { command_seconds: 1, ..Limits::default() };
    let replies = ["ls", "false", "sleep 9", SUBMIT];
    let record = play(&[("seen", seen())], limits, &replies).await;
    check_results(&record, &[Finished, Finished, TimedOut, Finished]);
}

#[tokio::test]
async fn rule_2_a_refused_call_has_one_result_call() {
    let refuse = on(HookPoint::OnToolCall, 1, "Not this way.");
    let limits = Limits { turns: 2, ..Limits::default() };
    let record = play(&[("no", refuse), ("seen", seen())], limits, &[FIX, FIX]).await;
    check_results(&record, &[ToolStatus::Refused; 2]);
    assert_eq!(effects(&record, EffectKind::Refuse), 2);
    let call = &record.turns[0].calls[0];
    assert_eq!(call.result.exit_code, None);
    let message = shown(&record, 2);
    assert_eq!(message.text(), "refused\nNot this way.\n[seen]");
    assert!(message.pieces.iter().all(|piece| matches!(piece.origin, Origin::Hook { .. })));
    assert!(record.work_tree.changed.is_empty(), "a refused command does not run");
}

#[tokio::test]
async fn rule_2_a_call_with_broken_arguments_has_one_result_call() {
    let broken = on(HookPoint::OnToolCall, 0, r#"{"cmd": "ls"}"#);
    let limits = Limits { turns: 1, ..Limits::default() };
    let record = play(&[("broken", broken), ("seen", seen())], limits, &["ls"]).await;
    check_results(&record, &[ToolStatus::Failed]);
}

#[tokio::test]
async fn rule_2_a_plugins_tool_has_one_result_call_however_it_ends() {
    use ToolStatus::{Failed, Finished};
    let call = "```count\n{}\n```";
    let check = async |body: Vec<u8>, fuel_tool: u64, expected: &[ToolStatus]| {
        let engine = Engine::new(PluginLimits { fuel_tool, ..PluginLimits::default() }).unwrap();
        let limits = Limits { turns: 5, ..Limits::default() };
        let plugins = [("count", body), ("seen", seen())];
        let record = play_on(&engine, &plugins, limits, &scripted(&[call; 5])).await;
        check_results(&record, expected);
    };
    let fuel = PluginLimits::default().fuel_tool;
    let nothing = tool_says("(i32.const 0)", "(i32.const 0)", false);
    let sorry = tool_says("(i32.const 0)", "(i32.const 0)", true);
    check(tool(&nothing), fuel, &[Finished; 5]).await;
    check(tool(&sorry), fuel, &[Failed; 5]).await;
    // Three faults, and then it is out: the fifth call has its result too.
    let out = [Finished, Failed, Failed, Failed, Failed];
    check(tool_from_turn_2("(unreachable)"), fuel, &out).await;
    check(tool_from_turn_2(LOOP), 1_000_000, &out).await;
}

#[tokio::test]
async fn rule_2_a_submission_has_one_result_call_also_when_it_is_deferred() {
    let defer = says(HookPoint::OnSubmit, "Look again.");
    let plugins = [("hold", defer), ("seen", seen())];
    let record = play(&plugins, Limits::default(), &[SUBMIT, FIX, SUBMIT, SUBMIT]).await;
    check_results(&record, &[ToolStatus::Finished; 4]);
    assert_eq!((effects(&record, EffectKind::Defer), record.outcome), (2, Outcome::Solved));
}

#[tokio::test]
async fn rule_2_calls_of_one_reply_have_one_result_call_each_run_or_not() {
    // Those after the one that hands in do not run.
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
    let record = play_on(engine(), &[("seen", seen())], limits, &policy).await;
    check_results(&record, &[ToolStatus::Finished, ToolStatus::Finished, ToolStatus::Failed]);
    assert_eq!(record.outcome, Outcome::Solved);
}

#[tokio::test]
async fn rule_2_output_without_a_call_has_no_result_call() {
    let record = play(&[("seen", seen())], Limits::default(), &[".", ".", SUBMIT]).await;
    check_results(&record, &[ToolStatus::Finished]);
}

/// Walks the messages and replies of an episode beside its tokens: the tokens are those of the
/// conversation in the order in which it was held, each once, and only replies are trained on.
/// Gives the mask of every piece of input with its origin.
#[track_caller]
fn walk(record: &EpisodeRecord) -> Vec<(Origin, String)> {
    let [segment] = &record.segments[..] else { panic!("{} segments", record.segments.len()) };
    let mut at = 0;
    let mut take = |text: &str, sampled: bool| {
        let (ids, mask) = (&segment.ids[at..at + text.len()], &segment.mask[at..at + text.len()]);
        assert!(
            ids.iter().zip(text.bytes()).all(|(id, byte)| *id == u32::from(byte)),
            "other tokens: {text}"
        );
        assert!(mask.iter().all(|trained| *trained == sampled), "wrong mask: {text}");
        at += text.len();
    };
    let mut pieces = Vec::new();
    for turn in &record.turns {
        for message in &turn.input {
            assert_ne!(message.role, Role::Assistant);
            for piece in &message.pieces {
                take(&piece.text, false);
                pieces.push((piece.origin.clone(), piece.text.clone()));
            }
        }
        take(&turn.reply.text(), true);
    }
    assert_eq!(at, segment.ids.len(), "tokens that nobody said");
    pieces
}

/// Every way in which a hook puts a text before the policy: point, effect, plugin, and replies
/// that bring it about.
fn ways(text: &str) -> Vec<(&'static str, &'static str, Vec<u8>, Vec<&'static str>)> {
    let mut guest = Guest::new();
    let (at, length) = guest.text(text);
    let answer = tool_says(&format!("(i32.const {at})"), &format!("(i32.const {length})"), false);
    let tool = guest.tools(&[("count", "Counts.", r#"{"type": "object"}"#)], &answer).build();
    vec![
        ("tools", "tool-call", tool, vec!["```count\n{}\n```", SUBMIT]),
        ("on-episode-start", "note", says(HookPoint::OnEpisodeStart, text), vec![SUBMIT]),
        ("on-model-call", "note", on(HookPoint::OnModelCall, 0, text), vec!["ls", SUBMIT]),
        ("on-format-error", "replace", says(HookPoint::OnFormatError, text), vec![".", SUBMIT]),
        ("on-tool-call", "refuse", on(HookPoint::OnToolCall, 1, text), vec!["ls"; 6]),
        ("on-tool-result", "annotate", on(HookPoint::OnToolResult, 0, text), vec!["ls", SUBMIT]),
        ("on-tool-result", "replace", on(HookPoint::OnToolResult, 1, text), vec!["ls", SUBMIT]),
        ("on-loop", "note", on(HookPoint::OnLoop, 0, text), vec!["ls", "ls", "ls", "ls", SUBMIT]),
        ("on-submit", "defer", says(HookPoint::OnSubmit, text), vec![SUBMIT, SUBMIT, SUBMIT]),
    ]
}

#[tokio::test]
async fn rule_5_effects_only_append_to_what_the_policy_has_seen() {
    let limits = Limits { turns: 6, ..Limits::default() };
    for (_, _, plugin, replies) in ways("Careful.") {
        walk(&play(&[("p", plugin)], limits.clone(), &replies).await);
    }
    // All of them at once.
    let all: Vec<_> = ways("Careful.").into_iter().map(|(_, _, plugin, _)| plugin).collect();
    let names: Vec<_> = (0..all.len()).map(|at| format!("p{at}")).collect();
    let plugins: Vec<_> = names.iter().map(String::as_str).zip(all).collect();
    let replies = [".", "ls", "ls", "```count\n{}\n```", SUBMIT, SUBMIT];
    walk(&play(&plugins, limits, &replies).await);
}

#[tokio::test]
async fn rule_5_the_policy_is_given_each_text_once() {
    // What a turn is given is what came after the reply before it, never the whole again.
    let policy = ScriptedPolicy::answering(|_, turn, new| {
        let roles: Vec<_> = new.iter().map(|message| message.role).collect();
        match turn {
            1 => assert_eq!(roles, [Role::System, Role::User]),
            _ => assert_eq!(roles, [Role::User]),
        }
        let text = if turn < 4 { "```bash\nls\n```".into() } else { format!("```bash\n{SUBMIT}\n```") };
        Some(Reply { text, ..Reply::default() })
    });
    let plugins = [("note", notes("Careful.")), ("seen", seen())];
    let record = play_on(engine(), &plugins, Limits::default(), &policy).await;
    assert_eq!((record.turns.len(), &record.exit), (4, &Exit::Submitted));
}

#[tokio::test]
async fn rule_6_text_of_a_hook_has_loss_mask_0_and_names_digest_point_and_effect() {
    const TEXT: &str = "Mind the gap.";
    let limits = Limits { turns: 6, ..Limits::default() };
    for (point, effect, plugin, replies) in ways(TEXT) {
        let digest = Digest::of(&plugin);
        let record = play(&[("p", plugin)], limits.clone(), &replies).await;
        let pieces = walk(&record);
        let hooked: Vec<_> = pieces.iter().filter(|(_, text)| text.contains(TEXT)).collect();
        assert!(!hooked.is_empty(), "{point} {effect}: the text is not there: {:?}", record.exit);
        let expected = Origin::Hook { plugin: digest, point: point.into(), effect: effect.into() };
        for (origin, text) in hooked {
            assert_eq!(*origin, expected, "{point} {effect}: {text}");
        }
        // Nothing else is called a hook's.
        let is_hooks = |origin: &Origin| matches!(origin, Origin::Hook { .. });
        assert!(pieces.iter().all(|(origin, text)| text.contains(TEXT) || !is_hooks(origin)));
        let told =
            record.effects.iter().filter(|effect| effect.plugin == digest && effect.text.contains(TEXT));
        assert!(told.count() > 0, "{point} {effect}: not in the record");
    }
}

#[tokio::test]
async fn rule_6_a_stop_names_the_plugin_that_stopped() {
    for point in [HookPoint::OnModelCall, HookPoint::OnLoop] {
        let bytes = on(point, 1, "Enough.");
        let digest = Digest::of(&bytes);
        let record = play(&[("stop", bytes)], Limits::default(), &["ls"; 4]).await;
        assert_eq!(record.exit, Exit::Stopped { plugin: digest, reason: "Enough.".into() });
    }
}

/// What a plugin was told in an episode: a note of each event in order.
async fn heard(skill: Option<&str>) -> (EpisodeRecord, Vec<Value>) {
    let body = "(call $log (i32.const 1) (local.get 12) (local.get 13))";
    let watch = Guest::new().import("log", "log", "(param i32 i32 i32)").on(HookPoint::Observe, body).build();
    let plugins = [("watch", watch), ("note", notes("Careful.")), ("seen", seen())];
    let replies = ["ls", FIX, SUBMIT];
    let skill = skill.map(str::to_owned);
    let record = play_spec(engine(), &plugins, Limits::default(), &scripted(&replies), skill).await;
    let told =
        record.effects.iter().map(|effect| json!([effect.point, effect.kind, effect.turn, effect.text]));
    let told = told.collect();
    (record, told)
}

#[tokio::test]
async fn rule_8_a_skill_is_all_that_a_mode_can_leave_out() {
    let (with, told_with) = heard(Some("Look at the sign.")).await;
    let (without, told_without) = heard(None).await;
    // The plugins hear and do the same, skill or not.
    assert_eq!(told_with, told_without);
    assert!(!told_with.iter().any(|told| told.to_string().contains("Look at the sign.")));
    assert_eq!((with.harness, with.outcome, &with.patch), (without.harness, without.outcome, &without.patch));
    // The conversation is the same but for the skill and the separator before it.
    let (mut said, skipped) = (walk(&with), walk(&without));
    let at = said.iter().position(|(origin, _)| *origin == Origin::Skill).unwrap();
    assert_eq!(said[at].1, "Look at the sign.");
    said.drain(at - 1..=at);
    assert_eq!(said, skipped);
}

#[test]
fn rule_8_an_episode_is_not_told_what_it_is_for() {
    // Does not compile when a field is added that could say so; then this rule needs a look.
    let EpisodeSpec { id: _, group: _, task: _, seed: _, sampling: _, skill: _ } = spec(None);
}
