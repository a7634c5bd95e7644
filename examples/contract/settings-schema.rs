//! Says once how many turns are left; `turns_left` is from 1 to 20, or the harness is refused.

use tandem_plugin::*;

pub struct Plugin;

impl SettingsSchema for Plugin {
    fn settings_schema() -> String {
        r#"{"type": "object", "properties": {"turns_left": {"type": "integer", "minimum": 1, "maximum": 20}}, "additionalProperties": false}"#
            .into()
    }
}

export_settings_schema!(Plugin);

impl OnModelCall for Plugin {
    fn on_model_call(context: Context) -> Option<ModelCallEffect> {
        let say_at = settings::get("turns_left").and_then(|value| value.as_u64()).unwrap_or(5);
        let turns = context.budget.turns;
        let left = turns.limit?.saturating_sub(turns.used);
        (left == say_at).then(|| ModelCallEffect::Note(format!("{left} turns are left.")))
    }
}

export_on_model_call!(Plugin);
