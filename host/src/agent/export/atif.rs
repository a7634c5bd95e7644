//! A record as a trajectory of ATIF v1.8, the Agent Trajectory Interchange Format of Harbor.

use serde_json::{Map, Value, json};

use super::exchange::{
    Answer, Asked, Exchange, about, effects, exchanges, facts, late_effects, origins, text,
};
use crate::agent::record::EpisodeRecord;
use crate::policy::{Price, Role};

const SCHEMA: &str = "ATIF-v1.8";

/// The trajectory of an episode: a step for each message of the first prompt and one for each turn,
/// whose observation is what the next turn was shown.
///
/// What the format has no field for is under `extra`: the origin of text that a hook or a skill put
/// in, the other effects of hooks, the policy version, the outcome, what a summary stands for. Its
/// fields of cost are named in dollars; here they are in the currency of the policy's price. `metrics` has the sampled ids and
/// their log-probabilities where the policy tells them, and under `extra.new_prompt_token_ids` only
/// the ids that are new in this turn; the whole prompt is the concatenation up to there.
pub fn atif(record: &EpisodeRecord) -> Value {
    let mut steps = Vec::new();
    let first = record.turns.first().map(|turn| turn.input.as_slice()).unwrap_or_default();
    for (at, message) in first.iter().enumerate() {
        let source = if message.role == Role::System { "system" } else { "user" };
        let mut extra = Map::new();
        put(&mut extra, "origins", origins(&message.pieces));
        if at + 1 == first.len() {
            put(&mut extra, "effects", some(effects(record, 0)));
        }
        let fields = json!({"source": source, "message": text(&message.pieces)});
        steps.push(step(steps.len(), fields, extra));
    }
    let told = Tokens::of(record);
    for (exchange, tokens) in exchanges(record).iter().zip(told) {
        steps.push(agent_step(record, steps.len(), exchange, tokens.as_ref()));
    }
    if steps.is_empty() {
        // A trajectory has one step at least.
        let fields = json!({"source": "system", "message": "The policy was not called."});
        steps.push(step(0, fields, Map::new()));
    }
    let total = |name: &str| -> Option<u64> {
        let each = steps.iter().filter_map(|step| step["metrics"].get(name)?.as_u64());
        each.reduce(|sum, tokens| sum.saturating_add(tokens))
    };
    let mut metrics = Map::new();
    put(&mut metrics, "total_prompt_tokens", total("prompt_tokens"));
    put(&mut metrics, "total_completion_tokens", total("completion_tokens"));
    put(&mut metrics, "total_steps", Some(steps.len()));
    let paid = record.spent.price != Price::default();
    put(&mut metrics, "total_cost_usd", paid.then_some(record.spent.money.used));
    put(&mut metrics, "extra", Some(json!({"wall_seconds": record.seconds})));
    let mut extra = about(record);
    put(&mut extra, "effects", some(late_effects(record)));
    json!({
        "schema_version": SCHEMA,
        "session_id": record.id,
        "trajectory_id": record.id,
        "agent": {
            "name": "tandem",
            "version": env!("CARGO_PKG_VERSION"),
            "model_name": record.policy,
            "extra": {"harness": record.harness},
        },
        "steps": steps,
        "final_metrics": metrics,
        "extra": extra,
    })
}

fn agent_step(
    record: &EpisodeRecord,
    index: usize,
    exchange: &Exchange<'_>,
    tokens: Option<&TurnTokens<'_>>,
) -> Value {
    let turn = exchange.turn;
    let mut fields = json!({"source": "agent", "message": turn.reply.text(), "llm_call_count": 1});
    if !exchange.asked.is_empty() {
        fields["tool_calls"] = exchange.asked.iter().map(tool_call).collect();
    }
    if !exchange.answers.is_empty() {
        let results: Vec<_> = exchange.answers.iter().map(|answer| result(answer, &exchange.asked)).collect();
        fields["observation"] = json!({"results": results});
    }
    fields["metrics"] = match tokens {
        Some(tokens) => json!({
            "prompt_tokens": turn.prompt_tokens,
            "completion_tokens": tokens.ids.len(),
            "completion_token_ids": tokens.ids,
            "logprobs": tokens.logprobs,
            "extra": {"new_prompt_token_ids": tokens.new},
        }),
        None => json!({"extra": {
            "estimated_prompt_tokens": turn.prompt_tokens,
            "estimated_completion_tokens": turn.sampled_tokens,
        }}),
    };
    if record.spent.price != Price::default() {
        fields["metrics"]["cost_usd"] = turn.cost.into();
    }
    let mut extra = Map::new();
    put(&mut extra, "policy_version", Some(turn.policy_version));
    put(&mut extra, "finish", Some(turn.finish));
    put(&mut extra, "condensed", turn.condensed.as_ref());
    put(&mut extra, "effects", some(effects(record, exchange.number)));
    step(index, fields, extra)
}

fn tool_call(asked: &Asked<'_>) -> Value {
    let mut extra = Map::new();
    // What a hook made of it; the reply itself is as it was sampled.
    put(&mut extra, "rewritten_arguments", asked.rewritten());
    let arguments = match asked.arguments.is_object() {
        true => asked.arguments.clone(),
        false => {
            put(&mut extra, "unreadable_arguments", Some(&asked.arguments));
            json!({})
        }
    };
    let fields = json!({"tool_call_id": asked.id, "function_name": asked.name, "arguments": arguments});
    with_extra(fields, extra)
}

fn result(answer: &Answer<'_>, asked: &[Asked<'_>]) -> Value {
    let call = answer.call.and_then(|at| asked.get(at));
    let mut extra = call.and_then(|call| call.ran).map(facts).unwrap_or_default();
    put(&mut extra, "origins", origins(answer.pieces));
    if answer.unseen.is_some() {
        put(&mut extra, "shown", Some(false));
    }
    if call.is_none_or(|call| call.ran.is_none()) {
        put(&mut extra, "format_error", Some(true));
    }
    let mut fields = json!({"content": answer.text()});
    if let Some(call) = call {
        fields["source_call_id"] = call.id.clone().into();
    }
    with_extra(fields, extra)
}

fn step(index: usize, mut fields: Value, extra: Map<String, Value>) -> Value {
    fields["step_id"] = (index + 1).into();
    with_extra(fields, extra)
}

fn with_extra(mut fields: Value, extra: Map<String, Value>) -> Value {
    if !extra.is_empty() {
        fields["extra"] = extra.into();
    }
    fields
}

fn put<T: serde::Serialize>(map: &mut Map<String, Value>, name: &str, value: Option<T>) {
    if let Some(value) = value {
        map.insert(name.to_owned(), json!(value));
    }
}

fn some<T>(list: Vec<T>) -> Option<Vec<T>> {
    (!list.is_empty()).then_some(list)
}

/// The tokens of one turn.
struct TurnTokens<'a> {
    /// Those that the host put in since the last reply.
    new: &'a [u32],
    ids: &'a [u32],
    logprobs: &'a [f32],
}

/// Takes segments apart into turns.
struct Tokens;

impl Tokens {
    /// For each turn its tokens; none where the policy told none.
    fn of(record: &EpisodeRecord) -> Vec<Option<TurnTokens<'_>>> {
        let (mut segments, mut at) = (record.segments.as_slice(), 0);
        let mut turns = Vec::new();
        for turn in &record.turns {
            while segments.first().is_some_and(|segment| at >= segment.ids.len()) {
                (segments, at) = (&segments[1..], 0);
            }
            turns.push(segments.first().and_then(|segment| {
                let start = at + segment.mask.get(at..)?.iter().take_while(|sampled| !**sampled).count();
                let end = start.checked_add(usize::try_from(turn.sampled_tokens).ok()?)?;
                let new = &segment.ids[at..start];
                let (ids, logprobs) = (segment.ids.get(start..end)?, segment.logprobs.get(start..end)?);
                at = end;
                Some(TurnTokens { new, ids, logprobs })
            }));
        }
        turns
    }
}
