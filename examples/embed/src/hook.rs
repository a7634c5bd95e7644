//! A hook that says how many turns are left.

use tandem_plugin::*;

pub struct Plugin;

impl OnModelCall for Plugin {
    fn on_model_call(context: Context) -> Option<ModelCallEffect> {
        let turns = context.budget.turns;
        let left = turns.limit?.saturating_sub(turns.used);
        (left <= 3).then(|| ModelCallEffect::Note(format!("{left} turns are left.")))
    }
}

export_on_model_call!(Plugin);
