//! Rule 6, as far as the chain keeps it: every text that a hook put in names the plugin digest,
//! the hook point and the effect. Rule 10: text over the model-visible cap is cut head and tail,
//! and says so with both numbers.

use serde_json::json;

use super::super::testkit::*;
use super::super::*;
use crate::plugin::testkit::*;
use crate::policy::{Origin, Piece, ToolCall};
use crate::store::Digest;

/// Every way in which a hook puts a text before the policy: point, effect, and a plugin that
/// does it with `text`.
fn ways(text: &str) -> Vec<(HookPoint, &'static str, Vec<u8>)> {
    let mut guest = Guest::new();
    let (at, length) = guest.text(text);
    let answer = tool_says(&format!("(i32.const {at})"), &format!("(i32.const {length})"), false);
    let tool = guest.tools(&[("tell", "Tells.", "{\"type\": \"object\"}")], &answer).build();
    vec![
        (HookPoint::Tools, "tool-call", tool),
        (HookPoint::OnEpisodeStart, "note", says(HookPoint::OnEpisodeStart, text)),
        (HookPoint::OnModelCall, "note", on(HookPoint::OnModelCall, 0, text)),
        (HookPoint::OnModelCall, "stop", on(HookPoint::OnModelCall, 1, text)),
        (HookPoint::OnFormatError, "replace", says(HookPoint::OnFormatError, text)),
        (HookPoint::OnToolCall, "refuse", on(HookPoint::OnToolCall, 1, text)),
        (HookPoint::OnToolResult, "annotate", on(HookPoint::OnToolResult, 0, text)),
        (HookPoint::OnToolResult, "replace", on(HookPoint::OnToolResult, 1, text)),
        (HookPoint::OnLoop, "note", on(HookPoint::OnLoop, 0, text)),
        (HookPoint::OnLoop, "stop", on(HookPoint::OnLoop, 1, text)),
        (HookPoint::OnSubmit, "defer", says(HookPoint::OnSubmit, text)),
    ]
}

/// The pieces that a point gives; for a stop, what the record of the episode shows.
async fn pieces(hooks: &mut EpisodeHooks, point: HookPoint) -> Vec<Piece> {
    let at = at(1);
    let stop_or = |effect: ModelCallEffect, effect_name: &str| match effect {
        ModelCallEffect::Proceed(pieces) => pieces,
        ModelCallEffect::Stop { plugin, reason } => {
            let (point, effect) = (point.name().to_owned(), effect_name.to_owned());
            vec![Piece { origin: Origin::Hook { plugin, point, effect }, text: reason }]
        }
    };
    match point {
        HookPoint::OnEpisodeStart => hooks.on_episode_start(&at, "repair").await,
        HookPoint::OnModelCall => stop_or(hooks.on_model_call(&at).await, "stop"),
        HookPoint::OnLoop => stop_or(hooks.on_loop(&at, Repetition::SameCall).await, "stop"),
        HookPoint::OnFormatError => {
            hooks.on_format_error(&at, FormatError::NoAction, "hm").await.into_iter().collect()
        }
        HookPoint::OnToolCall => match hooks.on_tool_call(&at, &bash("ls")).await {
            ToolCallEffect::Refuse(piece) => vec![piece],
            ToolCallEffect::Proceed(_) => Vec::new(),
        },
        HookPoint::OnToolResult => hooks.on_tool_result(&at, &bash("ls"), &result("")).await,
        HookPoint::OnSubmit => match hooks.on_submit(&at, &submission(9, 0)).await {
            SubmitEffect::Defer(piece) => vec![piece],
            SubmitEffect::Accept => Vec::new(),
        },
        HookPoint::Tools => {
            let call = ToolCall { id: "7".into(), name: "tell".into(), arguments: json!({}) };
            let answer = hooks.call_tool(&at, &call).await.unwrap();
            hooks.on_tool_result(&at, &call, &answer).await
        }
        point => panic!("{} gives no text", point.name()),
    }
}

#[tokio::test]
async fn rule_6_text_names_plugin_point_and_effect() {
    for (point, effect, bytes) in ways("look again") {
        let mut hooks = hooks(&[("p", &bytes)]).await;
        let pieces = pieces(&mut hooks, point).await;
        let origin =
            Origin::Hook { plugin: Digest::of(&bytes), point: point.name().into(), effect: effect.into() };
        let last = pieces.last().unwrap_or_else(|| panic!("{} {effect}: no text", point.name()));
        assert_eq!(*last, Piece { origin, text: "look again".into() }, "{} {effect}", point.name());
        // The record of the episode says the same.
        let (effects, _) = hooks.finish();
        let [told] = &effects[..] else { panic!("{effects:?}") };
        assert_eq!((told.plugin, told.point, told.kind.name()), (Digest::of(&bytes), point, effect));
        assert_eq!(told.text, "look again");
    }
}

#[tokio::test]
async fn rule_6_text_of_the_host_beside_it_stays_the_hosts() {
    let annotate = on(HookPoint::OnToolResult, 0, "look again");
    let mut hooks = hooks(&[("annotate", &annotate)]).await;
    let pieces = hooks.on_tool_result(&at(1), &bash("ls"), &result("a.py\n")).await;
    assert_eq!(pieces[0], Piece { origin: Origin::Host, text: "a.py\n".into() });
    assert_eq!(pieces[1].text, "look again");
}

#[tokio::test]
async fn rule_6_text_of_a_plugins_tool_is_the_plugins_and_the_next_result_is_not() {
    let (_, _, bytes) = ways("4 lines").remove(0);
    let mut hooks = hooks(&[("tell", &bytes)]).await;
    assert!(matches!(pieces(&mut hooks, HookPoint::Tools).await[0].origin, Origin::Hook { .. }));
    let pieces = hooks.on_tool_result(&at(2), &bash("ls"), &result("a.py")).await;
    assert_eq!(pieces[0].origin, Origin::Host);
}

#[tokio::test]
async fn rule_6_arguments_that_a_hook_rewrote_name_it_in_the_record() {
    let bytes = on(HookPoint::OnToolCall, 0, "{\"command\": \"ls -a\"}");
    let mut hooks = hooks(&[("p", &bytes)]).await;
    hooks.on_tool_call(&at(1), &bash("ls")).await;
    let (effects, _) = hooks.finish();
    let [told] = &effects[..] else { panic!("{effects:?}") };
    assert_eq!((told.plugin, told.kind), (Digest::of(&bytes), EffectKind::Rewrite));
    assert_eq!(told.text, "{\"command\":\"ls -a\"}");
}

#[tokio::test]
async fn rule_10_text_over_the_cap_is_cut_wherever_a_hook_puts_it() {
    let long = format!("head{}tail", "x".repeat(9_993));
    let exact = "x".repeat(10_000);
    for (point, effect, bytes) in ways(&long) {
        let mut hooks = hooks(&[("long", &bytes)]).await;
        let pieces = pieces(&mut hooks, point).await;
        let text = &pieces.last().unwrap().text;
        assert!(
            text.contains("\n[cut: 10000 of 10001 characters are shown]\n"),
            "{} {effect}: {} bytes",
            point.name(),
            text.len()
        );
        assert!(text.starts_with("head") && text.ends_with("tail"), "{} {effect}", point.name());
        // The record keeps what the policy saw.
        assert_eq!(hooks.finish().0.last().unwrap().text, *text);
    }
    for (point, effect, bytes) in ways(&exact) {
        let pieces = pieces(&mut hooks(&[("exact", &bytes)]).await, point).await;
        assert_eq!(pieces.last().unwrap().text, exact, "{} {effect}", point.name());
    }
}
