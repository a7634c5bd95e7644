//! A record as a trajectory file of mini-SWE-agent, format 1.1.

use serde_json::{Map, Value, json};

use super::chat;
use super::exchange::{about, effects, exchanges, facts, late_effects, origins};
use crate::agent::record::{EpisodeRecord, Exit};
use crate::harness::LimitKind;

/// The content of `ID.traj.json`. Times of day are not recorded: no message has a
/// `timestamp`. What the format has no field for is under `tandem`.
pub fn traj(record: &EpisodeRecord) -> Value {
    let status = exit_status(&record.exit);
    let submission = match record.patch_source {
        Some(_) => String::from_utf8_lossy(&record.patch).into_owned(),
        None => String::new(),
    };
    let mut messages = Vec::new();
    let first = record.turns.first().map(|turn| turn.input.as_slice()).unwrap_or_default();
    for (at, said) in first.iter().enumerate() {
        let mut tandem = Map::new();
        keep(&mut tandem, "origins", origins(&said.pieces));
        if at + 1 == first.len() {
            keep(&mut tandem, "effects", list(effects(record, 0)));
        }
        messages.push(with_extra(chat::message(said), json!({}), tandem));
    }
    for exchange in exchanges(record) {
        let actions = exchange.asked.iter().filter(|asked| asked.ran.is_some()).map(|asked| {
            let mut action = match &asked.arguments {
                Value::Object(arguments) => arguments.clone(),
                _ => Map::new(),
            };
            if !exchange.turn.reply.tool_calls.is_empty() {
                action.insert("tool_call_id".into(), asked.id.as_str().into());
            }
            if asked.name != "bash" {
                action.insert("tool".into(), asked.name.as_str().into());
            }
            Value::Object(action)
        });
        let extra = json!({"actions": actions.collect::<Vec<_>>(), "cost": exchange.turn.cost});
        let mut tandem = Map::new();
        keep(&mut tandem, "policy_version", Some(exchange.turn.policy_version.into()));
        keep(&mut tandem, "effects", list(effects(record, exchange.number)));
        let rewritten: Vec<_> = exchange.asked.iter().filter_map(|asked| asked.rewritten()).collect();
        keep(&mut tandem, "rewritten_arguments", list(rewritten));
        keep(&mut tandem, "condensed", exchange.turn.condensed.as_ref().map(|condensed| json!(condensed)));
        messages.push(with_extra(chat::message(&exchange.turn.reply), extra, tandem));

        for answer in &exchange.answers {
            let asked = answer.call.and_then(|at| exchange.asked.get(at));
            let mut message = Map::new();
            let tool = answer.role == crate::policy::Role::Tool;
            message.insert("role".into(), if tool { "tool" } else { "user" }.into());
            message.insert("content".into(), answer.text().into());
            if let Some(asked) = asked.filter(|_| tool) {
                message.insert("tool_call_id".into(), asked.id.as_str().into());
            }
            let mut tandem = Map::new();
            keep(&mut tandem, "origins", origins(answer.pieces));
            if answer.unseen.is_some() {
                keep(&mut tandem, "shown", Some(false.into()));
            }
            let extra = match asked.and_then(|asked| asked.ran) {
                None => json!({"interrupt_type": "FormatError", "n_actions": exchange.asked.len()}),
                Some(ran) => {
                    keep(&mut tandem, "result", Some(Value::Object(facts(ran))));
                    // As there: a command without an exit code of its own has -1.
                    json!({"returncode": ran.result.exit_code.unwrap_or(-1)})
                }
            };
            messages.push(with_extra(message, extra, tandem));
        }
    }
    messages.push(json!({
        "role": "exit",
        "content": if submission.is_empty() { status } else { &submission },
        "extra": {"exit_status": status, "submission": submission},
    }));
    let mut tandem = about(record);
    keep(&mut tandem, "effects", list(late_effects(record)));
    json!({
        "info": {
            "model_stats": {"instance_cost": record.spent.money.used, "api_calls": record.turns.len()},
            "config": {"agent_type": "tandem", "model": {"model_name": record.policy}},
            "mini_version": format!("tandem {}", env!("CARGO_PKG_VERSION")),
            "exit_status": status,
            "submission": submission,
        },
        "messages": messages,
        "trajectory_format": "mini-swe-agent-1.1",
        "instance_id": record.task,
        "tandem": tandem,
    })
}

/// How the run ended, in the words of that program where it has one.
fn exit_status(exit: &Exit) -> &'static str {
    match exit {
        Exit::Submitted => "Submitted",
        Exit::Limit { limit: LimitKind::FormatErrors, .. } => "RepeatedFormatError",
        Exit::Limit { limit: LimitKind::Seconds, .. } => "TimeExceeded",
        Exit::Limit { .. } => "LimitsExceeded",
        Exit::Stopped { .. } => "Stopped",
        Exit::Failed { .. } => "Failed",
    }
}

fn keep(map: &mut Map<String, Value>, name: &str, value: Option<Value>) {
    if let Some(value) = value {
        map.insert(name.to_owned(), value);
    }
}

fn list<T: serde::Serialize>(items: Vec<T>) -> Option<Value> {
    (!items.is_empty()).then(|| json!(items))
}

fn with_extra(mut message: Map<String, Value>, mut extra: Value, tandem: Map<String, Value>) -> Value {
    if !tandem.is_empty() {
        extra["tandem"] = tandem.into();
    }
    message.insert("extra".into(), extra);
    message.into()
}
