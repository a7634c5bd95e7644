//! Which plugins of a harness run a command of their owner's? Those that `tandem plugin wrap` made: a
//! harness takes them only with `trusted = true` and the command in their settings.

use serde_json::{Map, Value};
use tandem_host::harness::HarnessManifest;

/// Whether a pair may have plugins in it that run a command which nobody evaluated as a component.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Commands {
    Refuse,
    Ship,
}

/// The command that a plugin with these settings runs, if it is one of those.
pub fn runs(settings: &Map<String, Value>) -> Option<&str> {
    match settings.get("trusted") {
        Some(Value::Bool(true)) => settings.get("runs")?.as_str(),
        _ => None,
    }
}

/// The first of a harness, with its command.
pub fn first(harness: &HarnessManifest) -> Option<(&str, &str)> {
    harness.plugins.iter().find_map(|plugin| Some((plugin.name.as_str(), runs(&plugin.settings)?)))
}
