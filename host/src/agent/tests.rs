//! What do the effects of hooks come to in an episode? The rules of the contract are in `rules`.

use serde_json::json;

use super::testkit::*;
use super::*;
use crate::harness::{
    EffectKind, HandIn, HookPoint, LimitKind, Limits, PatchSource, Protocol, Repetition, Shell, ToolStatus,
};
use crate::plugin::testkit::{Guest, say, tool_says};
use crate::policy::{FinishReason, Origin, Reply, ScriptedPolicy, ToolCall};

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
    let watch = Guest::new().import("log", "log", "(param i32 i32 i32)").on(HookPoint::Observe, body).build();
    let record = play(&[("watch", watch)], Limits::default(), &[FIX, SUBMIT]).await;
    let heard: Vec<_> = record.effects.iter().map(|effect| effect.text.as_str()).collect();
    assert_eq!(heard.len(), 4, "{heard:?}");
    assert!(heard[0].contains("instruction"), "{heard:?}");
    assert!(heard[1].contains("\"turn\":1") && heard[2].contains("\"turn\":2"), "{heard:?}");
    assert!(heard[3].contains("\"exit\":\"submitted\""), "{heard:?}");
    assert!(!heard.iter().any(|text| text.contains("solved") || text.contains("reward")), "{heard:?}");
}

/// Notes the word at the index that a point is told: an enumeration behind the context.
fn tells_case(point: HookPoint, words: &[&str], option: bool) -> Vec<u8> {
    let mut guest = Guest::new();
    let width = words.iter().map(|word| word.len()).max().unwrap_or_default();
    let table: String = words.iter().map(|word| format!("{word:width$}")).collect();
    let (at, _) = guest.text(&table);
    let at = format!("(i32.add (i32.const {at}) (i32.mul (local.get 10) (i32.const {width})))");
    let length = format!("(i32.const {width})");
    let body = match option {
        true => format!(
            "(i32.store (i32.const 64) (i32.const 1)) (i32.store (i32.const 68) {at})
             (i32.store (i32.const 72) {length}) (i32.const 64)"
        ),
        false => say(0, &at, &length),
    };
    guest.on(point, &body).build()
}

#[tokio::test]
async fn every_repetition_reaches_on_loop_at_its_threshold() {
    let words = ["same-call", "same-error", "alternating", "no-action"];
    let check = async |replies: &[&str], expected: Repetition| {
        let plugin = tells_case(HookPoint::OnLoop, &words, false);
        let limits = Limits { format_errors: 0, turns: replies.len() as u64, ..Limits::default() };
        let record = play(&[("tell", plugin)], limits, replies).await;
        let told: Vec<_> =
            record.effects.iter().map(|effect| (effect.turn as usize, effect.text.trim())).collect();
        assert_eq!(told, [(replies.len(), words[expected as usize])]);
    };
    check(&["ls"; 4], Repetition::SameCall).await;
    check(&["exit 3", "(exit 3)", "bash -c 'exit 3'"], Repetition::SameError).await;
    let two = ["echo a", "echo b"];
    check(&[two, two, two].concat(), Repetition::Alternating).await;
    check(&["."; 3], Repetition::NoAction).await;
}

#[tokio::test]
async fn every_format_error_reaches_on_format_error() {
    let words = ["no-action", "several-actions", "unknown-tool", "bad-arguments", "cut-off"];
    let plugins = [("tell", tells_case(HookPoint::OnFormatError, &words, true))];
    let limits = |protocol| Limits { protocol, format_errors: 0, turns: 4, ..Limits::default() };
    let told = |record: &EpisodeRecord| -> Vec<String> {
        record.effects.iter().map(|effect| effect.text.trim().to_owned()).collect()
    };
    let two = "```bash\nls\n```\n```bash\nls\n```";
    let record = play(&plugins, limits(Protocol::Text), &[".", two, "ls", "ls"]).await;
    assert_eq!(told(&record), ["no-action", "several-actions"]);

    let policy = ScriptedPolicy::answering(|_, turn, _| {
        let call = |name: &str, arguments| ToolCall { id: "1".into(), name: name.into(), arguments };
        let (finish, tool_calls) = match turn {
            1 => (FinishReason::Stop, vec![]),
            2 => (FinishReason::Length, vec![]),
            3 => (FinishReason::Stop, vec![call("shell", json!({}))]),
            _ => (FinishReason::Stop, vec![call("bash", json!({"cmd": "ls"}))]),
        };
        Some(Reply { finish, tool_calls, ..Reply::default() })
    });
    let record = play_on(engine(), &plugins, limits(Protocol::Tools), &policy).await;
    assert_eq!(told(&record), ["no-action", "cut-off", "unknown-tool", "bad-arguments"]);
}

#[tokio::test]
async fn a_kept_shell_goes_on_where_the_command_before_stopped() {
    let commands = [
        "mkdir d && cd d && x='a\nb' && export Y=2 && f() { echo \"$x $Y $#\"; }; alias hi='echo hi'",
        "pwd; f 1; printenv Y",
        "cd ..; exit 3",
        "pwd; echo (",
        "x=lost; cd /tmp; sleep 30",
        "pwd; f; hi",
        "sleep 30 & unset -f f; set -u",
        "echo \"$nothing\"",
        "pwd; f",
    ];
    let turns = commands.len() as u64;
    let limits = Limits { shell: Shell::Kept, command_seconds: 5, turns, ..Limits::default() };
    let record = play(&[], limits, &commands).await;
    let told: Vec<_> = record.turns.iter().map(|turn| turn.calls[0].result.text.as_str()).collect();
    assert_eq!(told[..3], ["exit code 0\n", "exit code 0\n/workspace/d\na\nb 2 1\n2", "exit code 3\n"]);
    assert!(told[3].starts_with("exit code 2\n") && told[3].contains("syntax error"), "{}", told[3]);
    assert_eq!(told[4], "stopped after 5 seconds\n");
    assert_eq!(told[5..7], ["exit code 0\n/workspace\na\nb 2 0\nhi", "exit code 0\n"]);
    assert!(told[7].contains("nothing: unbound variable"), "{}", told[7]);
    assert!(
        told[8].contains("/workspace\n") && told[8].contains("bash: line 1: f: command not found"),
        "{}",
        told[8]
    );
    // What the shell keeps is no part of the work.
    assert_eq!(record.work_tree.untracked, Vec::<String>::new());
}

#[tokio::test]
async fn a_tool_that_finishes_hands_in_the_work_tree_and_can_be_deferred() {
    let limits = || Limits { hand_in: HandIn::Finish, ..Limits::default() };
    let finish = "```finish\n{\"message\": \"done\"}\n```";
    let record = play(&[], limits(), &[FIX, SUBMIT, "git add -A && git commit -qm x", finish]).await;
    assert_eq!((record.outcome, &record.exit, record.turns.len()), (Outcome::Solved, &Exit::Submitted, 4));
    assert_eq!(record.patch_source, Some(PatchSource::Submitted));
    assert!(shown(&record, 1).text().contains("- `finish`:"), "{}", shown(&record, 1).text());

    let hold = says(HookPoint::OnSubmit, "Look again.");
    let record = play(&[("hold", hold)], limits(), &[finish, FIX, finish, finish]).await;
    assert_eq!((record.outcome, record.turns.len()), (Outcome::Solved, 4));
    assert!(shown(&record, 2).text().ends_with("\nLook again."), "{}", shown(&record, 2).text());
    // Without it there is no such tool.
    let record = play(&[], Limits { turns: 1, ..Limits::default() }, &[finish]).await;
    assert!(record.turns[0].calls.is_empty());
}
