//! What does an episode do at its limits of money and context, and when its history is shortened?

use serde_json::json;

use super::testkit::*;
use super::*;
use crate::harness::{Condense, EffectKind, Generation, HarnessManifest, HookPoint, LimitKind, Limits};
use crate::plugin::testkit::Guest;
use crate::policy::{HttpConfig, HttpPolicy, Price, Role};
use crate::workspace::WorkspaceConfig;

/// Hands in the work tree when `on-limit` is told `tokens`.
fn salvages_at_tokens() -> Vec<u8> {
    Guest::new().on(HookPoint::OnLimit, "(i32.eq (local.get 10) (i32.const 1))").build()
}

#[tokio::test]
async fn an_episode_ends_when_its_money_is_spent_and_its_work_is_kept() {
    // A token is a byte, and one of a reply costs 1.
    let price = Price { prompt: 0.0, reply: 1e6 };
    let replies = [FIX, "ls", "ls", SUBMIT];
    let tokens = |reply: &str| format!("```bash\n{reply}\n```").len() as f64;
    let two = tokens(FIX) + tokens("ls");
    let check = async |money: f64, turns: usize| {
        let limits = Limits { money, ..Limits::default() };
        let policy = scripted(&replies).with_price(price);
        let record = play_on(engine(), &[("salvage", salvages_at_tokens())], limits, &policy).await;
        assert_eq!(record.exit, Exit::Limit { limit: LimitKind::Money, salvaged: true }, "{money}");
        assert_eq!((record.turns.len(), record.outcome), (turns, Outcome::Solved), "{money}");
        let spent = record.turns.iter().map(|turn| turn.cost).sum::<f64>();
        assert_eq!((record.spent.money.used, record.spent.money.limit), (spent, Some(money)));
        assert_eq!(record.spent.price, price);
    };
    check(1.0, 1).await;
    check(two - 0.5, 2).await;
    check(two, 2).await;
    check(two + 0.5, 3).await;
    // Without a limit money is counted all the same.
    let record = play_on(engine(), &[], Limits::default(), &scripted(&[FIX, SUBMIT]).with_price(price)).await;
    assert_eq!(record.exit, Exit::Submitted);
    assert_eq!(record.spent.money.used, tokens(FIX) + tokens(SUBMIT));
}

#[tokio::test]
async fn prompts_are_paid_in_full_in_every_turn() {
    let policy = scripted(&["ls", "ls", SUBMIT]).with_price(Price { prompt: 1e6, reply: 0.0 });
    let record = play_on(engine(), &[], Limits::default(), &policy).await;
    // What a turn is given anew, and everything before it.
    let mut conversation = 0;
    for turn in &record.turns {
        let new: usize = turn.input.iter().map(|message| message.text().len()).sum();
        assert_eq!(turn.prompt_tokens, (conversation + new) as u64);
        assert_eq!(turn.cost, turn.prompt_tokens as f64);
        conversation += new + turn.reply.text().len();
    }
    assert_eq!(record.spent.prompt_tokens, record.turns.iter().map(|turn| turn.prompt_tokens).sum::<u64>());
}

#[tokio::test]
async fn a_limit_of_money_without_a_price_is_refused_before_the_first_call() {
    let config = HttpConfig { url: "http://localhost:1/v1".into(), model: "m".into(), ..Default::default() };
    let policy = HttpPolicy::new(config).unwrap();
    let mut manifest = HarnessManifest::bare();
    manifest.limits.money = 0.5;
    let lease = std::sync::Arc::new(Generation::bare(manifest)).lease();
    let record = run_episode(&spec(None), &policy, &lease, &WorkspaceConfig::default(), &Cancel::new()).await;
    let record = record.unwrap();
    assert_eq!(record.outcome, Outcome::Invalid(InvalidCause::Harness));
    let Exit::Failed { reason, .. } = &record.exit else { panic!("{:?}", record.exit) };
    expect_test::expect![[r#"
        the harness limits money to 0.5, and what tokens of `m` cost is not known
        help: say the price of a million tokens of the prompt and of the reply, or set `limits.money` to 0"#]]
    .assert_eq(reason);
}

/// The tokens of each prompt of these replies, where nothing limits them.
async fn prompts(replies: &[&str]) -> Vec<usize> {
    let turns = replies.len() as u64;
    let record = play(&[], Limits { turns, ..Limits::default() }, replies).await;
    record.turns.iter().map(|turn| turn.prompt_tokens as usize).collect()
}

#[tokio::test]
async fn a_prompt_that_no_longer_fits_is_a_limit_and_its_work_is_kept() {
    let replies = [FIX, "ls"];
    let second = prompts(&replies).await[1];
    let check = async |context: usize, limit: LimitKind, turns: usize| {
        let policy = scripted(&replies).with_context(context);
        let limits = Limits { turns: 2, ..Limits::default() };
        let record = play_on(engine(), &[("salvage", salvages_at_tokens())], limits, &policy).await;
        let salvaged = limit == LimitKind::Context;
        assert_eq!(record.exit, Exit::Limit { limit, salvaged }, "{context}");
        assert_eq!(record.turns.len(), turns, "{context}");
        assert_eq!(record.spent.context.limit, Some(context as u64));
        if salvaged {
            assert_eq!((record.spent.context.used, record.outcome), (second as u64, Outcome::Solved));
            let told = format!("{second} of {context} tokens of context were needed");
            assert!(record.spent.told(limit).ends_with(&told), "{}", record.spent.told(limit));
        }
    };
    // A reply needs room for one token.
    check(second + 1, LimitKind::Turns, 2).await;
    check(second, LimitKind::Context, 1).await;
    check(second - 1, LimitKind::Context, 1).await;
}

#[tokio::test]
async fn observers_hear_that_the_context_fills_up() {
    let body = "(call $log (i32.const 1) (local.get 12) (local.get 13))";
    let watch = Guest::new().import("log", "log", "(param i32 i32 i32)").on(HookPoint::Observe, body).build();
    let replies = ["ls", "ls", "ls"];
    let prompts = prompts(&replies).await;
    let heard = async |context: usize| -> Vec<String> {
        let policy = scripted(&replies).with_context(context);
        let limits = Limits { turns: 3, ..Limits::default() };
        let record = play_on(engine(), &[("watch", watch.clone())], limits, &policy).await;
        let logs = record.effects.into_iter().filter(|effect| effect.kind == EffectKind::Log);
        logs.map(|effect| effect.text).filter(|text| text.contains("\"limit\":")).collect()
    };
    assert_eq!(heard(prompts[2] * 10).await, Vec::<String>::new());
    let context = prompts[1] * 100 / 78;
    let told = heard(context).await;
    assert!(told[0].contains(&format!("\"limit\":{context}")), "{told:?}");
}

/// Keeps the first turn and the newest of more than three.
fn condensing() -> Limits {
    Limits { condense: Condense { after: 3, first: 1, last: 1 }, ..Limits::default() }
}

#[tokio::test]
async fn a_shortened_history_opens_a_segment_and_is_what_the_policy_reads() {
    let replies = ["echo 1", "echo 2", "echo 3", "echo 4", "echo 5", "echo 6", SUBMIT];
    let record = play(&[], condensing(), &replies).await;
    assert_eq!(record.exit, Exit::Submitted);
    let condensed: Vec<_> =
        record.turns.iter().map(|turn| turn.condensed.as_ref().map(|it| (it.from, it.to))).collect();
    assert_eq!(condensed, [None, None, None, None, Some((2, 3)), None, Some((2, 5))]);
    assert_eq!((record.spent.condensations, record.segments.len()), (2, 3));

    let turn = |number: usize| &record.turns[number - 1];
    let summary = &turn(5).condensed.as_ref().unwrap().summary;
    assert!(
        summary.ends_with("\n2. bash: echo 2 -> exit code 0.\n3. bash: echo 3 -> exit code 0."),
        "{summary}"
    );
    let given =
        |number: usize| -> String { turn(number).input.iter().map(|message| message.text()).collect() };
    let said = |number: usize| turn(number).reply.text();
    let expected = [
        // First prompt, first turn, what was left out, the newest turn.
        given(1),
        said(1),
        given(2),
        format!("\n\n{summary}"),
        said(4),
        given(5),
        said(5),
        given(6),
        said(6),
    ]
    .concat();
    let segment = &record.segments[1];
    let text: Vec<u8> = segment.ids.iter().map(|id| *id as u8).collect();
    assert_eq!(String::from_utf8(text).unwrap(), expected);
    // Only what was sampled in this segment is trained on in it.
    let trained = segment.mask.iter().filter(|trained| **trained).count();
    assert_eq!(trained, said(5).len() + said(6).len());
    assert_eq!(turn(5).prompt_tokens, (expected.len() - trained - given(6).len()) as u64);
}

#[tokio::test]
async fn a_history_that_is_not_longer_than_it_may_be_stays() {
    let record = play(&[], condensing(), &["ls", "ls", "ls", SUBMIT]).await;
    assert!(record.turns.iter().all(|turn| turn.condensed.is_none()));
    assert_eq!((record.spent.condensations, record.segments.len()), (0, 1));
}

#[tokio::test]
async fn a_full_context_shortens_the_history_where_the_harness_allows_it() {
    let replies = ["seq 300", "seq 300", "seq 300", "seq 300", "seq 300", SUBMIT];
    let prompts = prompts(&replies).await;
    let check = async |condense: Condense, expected: Exit| {
        let policy = scripted(&replies).with_context(prompts[4]);
        let limits = Limits { condense, ..Limits::default() };
        let record = play_on(engine(), &[], limits, &policy).await;
        assert_eq!(record.exit, expected);
        record
    };
    let full = Exit::Limit { limit: LimitKind::Context, salvaged: false };
    check(Condense::default(), full.clone()).await;
    let record = check(Condense { after: 100, first: 1, last: 2 }, Exit::Submitted).await;
    assert_eq!(record.turns[4].condensed.as_ref().map(|it| (it.from, it.to)), Some((2, 2)));
    // Nothing that can be left out is enough: a limit as ever.
    check(Condense { after: 100, first: 4, last: 2 }, full).await;
}

#[tokio::test]
async fn native_calls_and_their_answers_stay_together_in_a_shortened_history() {
    use crate::harness::Protocol;
    use crate::policy::{Reply, ScriptedPolicy, ToolCall};
    let policy = ScriptedPolicy::answering(|_, turn, new| {
        let mut open: Vec<&str> = Vec::new();
        for message in new {
            match message.role {
                Role::Assistant => open.extend(message.tool_calls.iter().map(|call| call.id.as_str())),
                // The newest reply was asked before, in the same session.
                Role::Tool if turn != 5 => {}
                Role::Tool => {
                    let id = message.tool_call_id.as_deref().unwrap();
                    assert!(open.contains(&id), "an answer without its call");
                    open.retain(|one| *one != id);
                }
                _ => assert!(open.is_empty(), "a call without an answer"),
            }
        }
        let command = if turn == 6 { SUBMIT.to_owned() } else { format!("echo {turn}") };
        let call =
            |id: String| ToolCall { id, name: "bash".into(), arguments: json!({ "command": command }) };
        let tool_calls = vec![call(format!("{turn}-a")), call(format!("{turn}-b"))];
        Some(Reply { tool_calls, ..Reply::default() })
    });
    let limits = Limits { protocol: Protocol::Tools, ..condensing() };
    let record = play_on(engine(), &[], limits, &policy).await;
    assert_eq!((record.exit, record.spent.condensations), (Exit::Submitted, 1));
}
