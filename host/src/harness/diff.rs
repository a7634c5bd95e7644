//! What does one harness ask for, hook and say that another does not?

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde_json::Value;

use super::effects::HookPoint;
use super::facts::PluginFacts;
use super::lines::{LineChange, line_changes};
use super::manifest::{HarnessManifest, PluginEntry};
use crate::store::Digest;

/// One of the two harnesses of a comparison.
#[derive(Clone, Copy, Debug)]
pub struct Side<'a> {
    pub manifest: &'a HarnessManifest,
    /// What admission found, or why nothing is known of the plugins, as a sentence.
    pub facts: Result<&'a [PluginFacts], &'a str>,
}

/// How a harness differs from another. Shown, it is text for people.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HarnessDiff {
    pub from: Digest,
    pub to: Digest,
    pub changes: Vec<Change>,
}

/// One difference. Of a plugin that came or went, everything that it has is a difference too.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "change")]
pub enum Change {
    /// The plugins of this harness could not be looked into: points, tools and imports of
    /// neither side are compared.
    PluginsUnknown {
        harness: Digest,
        reason: String,
    },
    /// It asks for something more: a capability that the manifest grants.
    GrantAdded {
        plugin: String,
        grant: String,
    },
    ImportsAdded {
        plugin: String,
        imports: Vec<String>,
    },
    PointAdded {
        plugin: String,
        point: HookPoint,
    },
    ToolAdded {
        plugin: String,
        tool: String,
        description: String,
    },
    GrantRemoved {
        plugin: String,
        grant: String,
    },
    ImportsRemoved {
        plugin: String,
        imports: Vec<String>,
    },
    PointRemoved {
        plugin: String,
        point: HookPoint,
    },
    ToolRemoved {
        plugin: String,
        tool: String,
    },
    /// Description or arguments of a tool, as the policy reads them.
    ToolChanged {
        plugin: String,
        tool: String,
    },
    /// Places count from 1.
    PluginAdded {
        plugin: String,
        component: Digest,
        place: usize,
        of: usize,
    },
    PluginRemoved {
        plugin: String,
        component: Digest,
    },
    ComponentChanged {
        plugin: String,
        from: Digest,
        to: Digest,
    },
    OrderChanged {
        from: Vec<String>,
        to: Vec<String>,
    },
    SettingChanged {
        plugin: String,
        key: String,
        from: Option<Value>,
        to: Option<Value>,
    },
    LimitChanged {
        limit: String,
        from: Value,
        to: Value,
    },
    PromptChanged {
        prompt: String,
        lines: Vec<LineChange>,
    },
    ContractChanged {
        from: String,
        to: String,
    },
}

impl HarnessDiff {
    /// How `to` differs from `from`.
    pub fn of(from: Side, to: Side) -> Self {
        let mut changes = Vec::new();
        surfaces(from, to, &mut changes);
        plugins(from.manifest, to.manifest, &mut changes);
        settings(from.manifest, to.manifest, &mut changes);
        values(&from.manifest.limits, &to.manifest.limits, |limit, from, to| {
            changes.push(Change::LimitChanged { limit, from, to });
        });
        values(&from.manifest.prompts, &to.manifest.prompts, |prompt, from, to| {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let lines = line_changes(&text(&from), &text(&to));
            changes.push(Change::PromptChanged { prompt, lines });
        });
        if from.manifest.contract != to.manifest.contract {
            let (from, to) = (from.manifest.contract.clone(), to.manifest.contract.clone());
            changes.push(Change::ContractChanged { from, to });
        }
        changes.sort_by_key(|change| change.heading());
        Self { from: from.manifest.digest(), to: to.manifest.digest(), changes }
    }

    /// How the component `to` differs from `from` in what it asks for, hooks and offers, in the
    /// same words. The digests are those of the components.
    pub fn of_components(from: &PluginFacts, to: &PluginFacts) -> Self {
        let (plugin, mut changes) = (&to.name, Vec::new());
        changes.extend(
            to.capabilities.difference(&from.capabilities).map(|capability| Change::GrantAdded {
                plugin: plugin.clone(),
                grant: capability.to_string(),
            }),
        );
        changes.extend(from.capabilities.difference(&to.capabilities).map(|capability| {
            Change::GrantRemoved { plugin: plugin.clone(), grant: capability.to_string() }
        }));
        one_surface(plugin, Some(from), Some(to), &mut changes);
        changes.sort_by_key(|change| change.heading());
        Self { from: from.digest, to: to.digest, changes }
    }
}

/// Grants by the manifests; imports, points and tools by what admission found.
fn surfaces(from: Side, to: Side, changes: &mut Vec<Change>) {
    let names = names(from.manifest, to.manifest);
    for name in &names {
        let grants = |side: Side| -> BTreeSet<String> {
            entry(side.manifest, name).map(|entry| entry.grants.iter().cloned().collect()).unwrap_or_default()
        };
        let (old, new) = (grants(from), grants(to));
        let plugin = || (*name).to_owned();
        changes
            .extend(new.difference(&old).map(|g| Change::GrantAdded { plugin: plugin(), grant: g.clone() }));
        changes.extend(
            old.difference(&new).map(|g| Change::GrantRemoved { plugin: plugin(), grant: g.clone() }),
        );
    }
    let (old, new) = match (from.facts, to.facts) {
        (Ok(old), Ok(new)) => (old, new),
        (old, new) => {
            for (side, facts) in [(from, old), (to, new)] {
                if let Err(reason) = facts {
                    let (harness, reason) = (side.manifest.digest(), reason.to_owned());
                    changes.push(Change::PluginsUnknown { harness, reason });
                }
            }
            return;
        }
    };
    for name in &names {
        let of = |facts: &[PluginFacts]| facts.iter().find(|facts| facts.name == *name).cloned();
        one_surface(name, of(old).as_ref(), of(new).as_ref(), changes);
    }
}

/// Interfaces that ask for nothing: types, and the text of a fault.
fn asks_for_nothing(import: &str) -> bool {
    let interface = import.split('@').next().unwrap_or_default();
    matches!(interface, "tandem:harness/types" | "tandem:harness/workspace-types" | "tandem:harness/failure")
}

fn one_surface(name: &str, old: Option<&PluginFacts>, new: Option<&PluginFacts>, changes: &mut Vec<Change>) {
    let plugin = || name.to_owned();
    let set = |facts: Option<&PluginFacts>| -> BTreeSet<String> {
        let imports = facts.iter().flat_map(|facts| &facts.imports);
        imports.filter(|import| !asks_for_nothing(import)).cloned().collect()
    };
    let (before, after) = (set(old), set(new));
    let added: Vec<_> = after.difference(&before).cloned().collect();
    let removed: Vec<_> = before.difference(&after).cloned().collect();
    if !added.is_empty() {
        changes.push(Change::ImportsAdded { plugin: plugin(), imports: added });
    }
    if !removed.is_empty() {
        changes.push(Change::ImportsRemoved { plugin: plugin(), imports: removed });
    }
    let points = |facts: Option<&PluginFacts>| facts.map(|facts| facts.points.clone()).unwrap_or_default();
    let (before, after) = (points(old), points(new));
    // Tools have lines of their own.
    let hooks = |point: &HookPoint| *point != HookPoint::Tools;
    let added = after.iter().copied().filter(|point| hooks(point) && !before.contains(point));
    changes.extend(added.map(|point| Change::PointAdded { plugin: plugin(), point }));
    let removed = before.iter().copied().filter(|point| hooks(point) && !after.contains(point));
    changes.extend(removed.map(|point| Change::PointRemoved { plugin: plugin(), point }));
    let tools = |facts: Option<&PluginFacts>| facts.map(|facts| facts.tools.clone()).unwrap_or_default();
    let (before, after) = (tools(old), tools(new));
    for tool in &after {
        match before.iter().find(|other| other.name == tool.name) {
            None => changes.push(Change::ToolAdded {
                plugin: plugin(),
                tool: tool.name.clone(),
                description: tool.description.clone(),
            }),
            Some(other) if other != tool => {
                changes.push(Change::ToolChanged { plugin: plugin(), tool: tool.name.clone() });
            }
            Some(_) => {}
        }
    }
    let gone = before.iter().filter(|tool| after.iter().all(|other| other.name != tool.name));
    changes.extend(gone.map(|tool| Change::ToolRemoved { plugin: plugin(), tool: tool.name.clone() }));
}

/// Which plugins came, went, were replaced or changed places.
fn plugins(from: &HarnessManifest, to: &HarnessManifest, changes: &mut Vec<Change>) {
    for (at, new) in to.plugins.iter().enumerate() {
        let plugin = new.name.clone();
        match entry(from, &new.name) {
            None => changes.push(Change::PluginAdded {
                plugin,
                component: new.digest,
                place: at + 1,
                of: to.plugins.len(),
            }),
            Some(old) if old.digest != new.digest => {
                changes.push(Change::ComponentChanged { plugin, from: old.digest, to: new.digest });
            }
            Some(_) => {}
        }
    }
    for old in &from.plugins {
        if entry(to, &old.name).is_none() {
            changes.push(Change::PluginRemoved { plugin: old.name.clone(), component: old.digest });
        }
    }
    // Only plugins of both can change places with each other.
    let shared = |manifest: &HarnessManifest, other: &HarnessManifest| -> Vec<String> {
        let names = manifest.plugins.iter().map(|plugin| plugin.name.clone());
        names.filter(|name| entry(other, name).is_some()).collect()
    };
    let (before, after) = (shared(from, to), shared(to, from));
    if before != after {
        changes.push(Change::OrderChanged { from: before, to: after });
    }
}

fn settings(from: &HarnessManifest, to: &HarnessManifest, changes: &mut Vec<Change>) {
    for name in names(from, to) {
        let of = |manifest| entry(manifest, name).map(|entry| entry.settings.clone()).unwrap_or_default();
        let (old, new) = (of(from), of(to));
        let keys: BTreeSet<_> = old.keys().chain(new.keys()).collect();
        for key in keys {
            let (from, to) = (old.get(key).cloned(), new.get(key).cloned());
            if from != to {
                changes.push(Change::SettingChanged { plugin: name.to_owned(), key: key.clone(), from, to });
            }
        }
    }
}

/// The fields of a flat record that differ, whatever fields it has.
fn values<T: Serialize>(from: &T, to: &T, mut differs: impl FnMut(String, Value, Value)) {
    let map = |record: &T| match serde_json::to_value(record) {
        Ok(Value::Object(map)) => map.into_iter().collect::<BTreeMap<_, _>>(),
        _ => BTreeMap::new(),
    };
    let (mut from, mut to) = (map(from), map(to));
    let keys: BTreeSet<String> = from.keys().chain(to.keys()).cloned().collect();
    for key in keys {
        // Some values are left out where they are the default.
        let value =
            |side: &mut BTreeMap<String, Value>| side.remove(&key).unwrap_or_else(|| "default".into());
        let (old, new) = (value(&mut from), value(&mut to));
        if old != new {
            differs(key, old, new);
        }
    }
}

fn entry<'a>(manifest: &'a HarnessManifest, name: &str) -> Option<&'a PluginEntry> {
    manifest.plugins.iter().find(|plugin| plugin.name == name)
}

/// The names of the plugins of both, those of `to` first, in their order.
fn names<'a>(from: &'a HarnessManifest, to: &'a HarnessManifest) -> Vec<&'a str> {
    let gone = from.plugins.iter().filter(|plugin| entry(to, &plugin.name).is_none());
    to.plugins.iter().chain(gone).map(|plugin| plugin.name.as_str()).collect()
}
