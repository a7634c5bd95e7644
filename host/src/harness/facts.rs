//! What does each plugin of a harness hook, bring and ask for?

use std::collections::BTreeSet;

use serde::Serialize;

use super::effects::HookPoint;
use super::generation::Generation;
use crate::plugin::{Capability, ToolDefinition};
use crate::store::Digest;

/// One plugin as admission found it, under its settings.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PluginFacts {
    /// The name in the manifest.
    pub name: String,
    pub digest: Digest,
    /// What the manifest grants.
    pub grants: BTreeSet<Capability>,
    /// Points that it exports, in the order of the contract.
    pub points: Vec<HookPoint>,
    /// Its imports as they are written in the component.
    pub imports: Vec<String>,
    /// The capabilities among the imports.
    pub capabilities: BTreeSet<Capability>,
    /// Its tools under these settings.
    pub tools: Vec<ToolDefinition>,
    /// The JSON Schema of its settings, if it declares one.
    pub settings_schema: Option<serde_json::Value>,
}

impl Generation {
    /// Its plugins as admission found them, in harness order.
    pub fn facts(&self) -> Vec<PluginFacts> {
        let facts = self.plugins().iter().map(|member| PluginFacts {
            name: member.name.clone(),
            digest: member.admitted.digest(),
            grants: member.admitted.grants().iter().collect(),
            points: member.admitted.exports().to_vec(),
            imports: member.admitted.imports().to_vec(),
            capabilities: member.admitted.capabilities().iter().copied().collect(),
            tools: member.tools.clone(),
            settings_schema: member.admitted.settings_schema().map(|schema| schema.json().clone()),
        });
        facts.collect()
    }
}
