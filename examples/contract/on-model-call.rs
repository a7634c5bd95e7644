//! Says once how many turns are left. Setting: `turns_left`, default 5.

use tandem_plugin::*;

pub struct Plugin;

impl OnModelCall for Plugin {
    fn on_model_call(context: Context) -> Option<ModelCallEffect> {
        let say_at = settings::get("turns_left").and_then(|value| value.as_u64()).unwrap_or(5);
        let turns = context.budget.turns;
        let left = turns.limit?.saturating_sub(turns.used);
        (left == say_at).then(|| ModelCallEffect::Note(format!("{left} turns are left. Hand in in time.")))
    }
}

export_on_model_call!(Plugin);
