//! What does each plugin of a harness hook, bring and ask for?

use std::collections::BTreeSet;

use serde::Serialize;

use super::effects::HookPoint;
use super::generation::Generation;
use crate::plugin::{Admitted, Capability, ToolDefinition};
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

impl PluginFacts {
    /// What admission found of a component, with the tools that it has without settings of a
    /// manifest.
    pub fn of(name: String, admitted: &Admitted) -> Self {
        Self {
            name,
            digest: admitted.digest(),
            grants: admitted.grants().iter().collect(),
            points: admitted.exports().to_vec(),
            imports: admitted.imports().to_vec(),
            capabilities: admitted.capabilities().iter().copied().collect(),
            tools: admitted.tools().to_vec(),
            settings_schema: admitted.settings_schema().map(|schema| schema.json().clone()),
        }
    }
}

impl Generation {
    /// Its plugins as admission found them, in harness order.
    pub fn facts(&self) -> Vec<PluginFacts> {
        let facts = self.plugins().iter().map(|member| PluginFacts {
            tools: member.tools.clone(),
            ..PluginFacts::of(member.name.clone(), &member.admitted)
        });
        facts.collect()
    }
}
