//! The hook that is measured, for Extism. The logic is that of `hook.rs`.

use extism_pdk::*;
use serde::{Deserialize, Serialize};

#[derive(Deserialize)]
pub struct Context {
    budget: Budget,
}

#[derive(Deserialize)]
pub struct Budget {
    turns: Usage,
}

#[derive(Deserialize)]
pub struct Usage {
    used: u64,
    limit: Option<u64>,
}

#[derive(Deserialize)]
pub struct ToolCallInput {
    call: ToolCall,
}

#[derive(Deserialize)]
pub struct ToolCall {
    arguments: String,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Effect {
    Note(String),
    Refuse(String),
}

#[plugin_fn]
pub fn on_model_call(Json(context): Json<Context>) -> FnResult<Json<Option<Effect>>> {
    let turns = context.budget.turns;
    let Some(limit) = turns.limit else { return Ok(Json(None)) };
    let left = limit.saturating_sub(turns.used);
    let note = || Effect::Note(format!("{left} of {limit} turns are left."));
    Ok(Json((left <= 3).then(note)))
}

#[plugin_fn]
pub fn on_tool_call(Json(input): Json<ToolCallInput>) -> FnResult<Json<Option<Effect>>> {
    let deletes = input.call.arguments.contains("rm -rf /");
    Ok(Json(deletes.then(|| Effect::Refuse("Work in the repository.".into()))))
}
