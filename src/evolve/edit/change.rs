//! Which kinds of edits are there, and what does each make of a harness?

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tandem_host::forge::Language;
use tandem_host::harness::{HarnessManifest, PluginEntry, PluginFacts, canonical_json};
use tandem_host::plugin::Capability;
use tandem_host::store::Digest;

use super::limits::LimitsEdit;
use super::listed;
use super::prompt::{self, PromptName};

/// What kind of change a candidate is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EditKind {
    /// A plugin is added, or takes the place of the one of its name.
    #[default]
    Plugin,
    Settings,
    Limits,
    Order,
    Prompt,
    /// A plugin is taken out because the harness should be better without it.
    Remove,
}

impl EditKind {
    /// The name in replies and records.
    pub fn name(self) -> &'static str {
        match self {
            Self::Plugin => "plugin",
            Self::Settings => "settings",
            Self::Limits => "limits",
            Self::Order => "order",
            Self::Prompt => "prompt",
            Self::Remove => "remove",
        }
    }

    /// For records: what an older program wrote was always a plugin.
    pub fn is_plugin(&self) -> bool {
        *self == Self::Plugin
    }
}

impl fmt::Display for EditKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One change of a harness.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Edit {
    /// The source of a plugin, one file. Its name is the proposal's.
    Plugin {
        language: Language,
        source: String,
        grants: Vec<String>,
    },
    /// All settings of a plugin that is there.
    Settings {
        plugin: String,
        settings: Map<String, Value>,
    },
    Limits {
        limits: LimitsEdit,
    },
    /// A plugin comes right before or right behind another in the order of hooks.
    Order {
        plugin: String,
        place: Beside,
    },
    /// The whole text of a base prompt.
    Prompt {
        prompt: PromptName,
        text: String,
    },
    Remove {
        plugin: String,
    },
}

/// Where a plugin goes in the order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Beside {
    Before(String),
    After(String),
}

/// Most bytes of the settings of a plugin.
const MOST_SETTINGS: usize = 8 << 10;

/// Settings that a person gives to a plugin that runs a command of its owner's (`tandem plugin wrap`).
const OF_PEOPLE: [&str; 2] = ["trusted", "runs"];

impl Edit {
    pub fn kind(&self) -> EditKind {
        match self {
            Self::Plugin { .. } => EditKind::Plugin,
            Self::Settings { .. } => EditKind::Settings,
            Self::Limits { .. } => EditKind::Limits,
            Self::Order { .. } => EditKind::Order,
            Self::Prompt { .. } => EditKind::Prompt,
            Self::Remove { .. } => EditKind::Remove,
        }
    }

    /// What a record keeps of it as a blob: the source of a plugin, the canonical JSON of any other edit.
    pub fn kept(&self) -> String {
        match self {
            Self::Plugin { source, .. } => source.clone(),
            other => canonical_json(other),
        }
    }

    /// The digest of what is kept: its identity, whatever harness it is for.
    pub fn digest(&self) -> Digest {
        Digest::of(self.kept().as_bytes())
    }

    /// What a model wrote of it, for whoever looks for words that it must not know. Of a prompt its text, in
    /// which no tag parts a word; of settings the texts without escapes.
    pub fn written(&self) -> String {
        match self {
            Self::Plugin { source, .. } => source.clone(),
            Self::Prompt { text, .. } => text.clone(),
            Self::Settings { settings, .. } => {
                let mut texts = Vec::new();
                texts_of(&Value::from(settings.clone()), &mut texts);
                texts.join("\n")
            }
            Self::Limits { .. } | Self::Order { .. } | Self::Remove { .. } => String::new(),
        }
    }

    /// What it changes, for people: goes on after a name or a verb.
    pub fn what(&self) -> String {
        match self {
            Self::Plugin { language, .. } => format!("a plugin in {language}"),
            Self::Settings { plugin, .. } => format!("the settings of `{plugin}`"),
            Self::Limits { limits } => format!("limits: {limits}"),
            Self::Order { plugin, place: Beside::Before(other) } => format!("`{plugin}` before `{other}`"),
            Self::Order { plugin, place: Beside::After(other) } => format!("`{plugin}` behind `{other}`"),
            Self::Prompt { prompt, .. } => format!("the prompt `{prompt}`"),
            Self::Remove { plugin } => format!("without `{plugin}`"),
        }
    }

    /// The manifest of `harness` with this edit. `name` is the proposal's, `component` what the forge
    /// built of a plugin's source.
    ///
    /// # Errors
    /// What is wrong with the edit, with a help that a model can act on.
    pub fn apply(
        &self,
        name: &str,
        component: Option<Digest>,
        harness: &HarnessManifest,
    ) -> Result<HarnessManifest, String> {
        let mut edited = harness.clone();
        match self {
            Self::Plugin { grants, .. } => {
                let digest = component.ok_or("the plugin was not built\nhelp: build its source first")?;
                let (name, grants) = (name.to_owned(), grants.clone());
                let mut entry = PluginEntry { name, digest, grants, settings: Map::new() };
                match edited.plugins.iter_mut().find(|existing| existing.name == entry.name) {
                    Some(existing) => {
                        // One change at a time: settings stay where the new one reads any, but for the
                        // command that a person trusted the old one with.
                        if entry.grants.iter().any(|grant| grant == "settings") {
                            entry.settings = std::mem::take(&mut existing.settings);
                            entry.settings.retain(|key, _| !OF_PEOPLE.contains(&key.as_str()));
                        }
                        *existing = entry;
                    }
                    None => edited.plugins.push(entry),
                }
            }
            Self::Settings { plugin, settings } => {
                let size = Value::from(settings.clone()).to_string().len();
                if size > MOST_SETTINGS {
                    return Err(format!(
                        "the settings have {size} bytes, and the limit is {MOST_SETTINGS}\nhelp: set less"
                    ));
                }
                let at = place_of(harness, plugin)?;
                let now = &harness.plugins[at].settings;
                if let Some(key) = OF_PEOPLE.iter().find(|key| now.get(**key) != settings.get(**key)) {
                    return Err(format!(
                        "the setting `{key}` of `{plugin}` says which command a person trusts it with\nhelp: leave it as it is"
                    ));
                }
                edited.plugins[at].settings = settings.clone();
            }
            Self::Limits { limits } => limits.apply(&mut edited.limits)?,
            Self::Order { plugin, place } => {
                let (Beside::Before(other) | Beside::After(other)) = place;
                let at = place_of(harness, plugin)?;
                let beside = place_of(harness, other)?;
                if plugin == other {
                    return Err(format!("`{plugin}` cannot stand beside itself\nhelp: name two plugins"));
                }
                // Who stands on the right side already stays: only who comes first matters to hooks.
                let stands = if matches!(place, Beside::Before(_)) { at < beside } else { at > beside };
                if !stands {
                    let entry = edited.plugins.remove(at);
                    // Without the entry, what came behind it has moved up by one.
                    let beside = beside - usize::from(beside > at);
                    edited.plugins.insert(beside + usize::from(matches!(place, Beside::After(_))), entry);
                }
            }
            Self::Prompt { prompt, text } => {
                prompt::check(*prompt, text, harness)?;
                text.clone_into(prompt.of_mut(&mut edited.prompts));
            }
            Self::Remove { plugin } => {
                let at = place_of(harness, plugin)?;
                edited.plugins.remove(at);
            }
        }
        Ok(edited)
    }

    /// Whether what the edit changes is in `now` as it was in `before`, for which the edit was made: else
    /// it would take back what was changed in between. A plugin may replace another of its name.
    pub fn finds_its_part(&self, before: &HarnessManifest, now: &HarnessManifest) -> bool {
        let entry = |harness: &HarnessManifest, plugin: &str| {
            harness.plugins.iter().find(|entry| entry.name == plugin).cloned()
        };
        match self {
            Self::Plugin { .. } | Self::Order { .. } => true,
            Self::Settings { plugin, .. } | Self::Remove { plugin } => {
                entry(before, plugin) == entry(now, plugin)
            }
            Self::Limits { .. } => before.limits == now.limits,
            Self::Prompt { prompt, .. } => prompt.of(&before.prompts) == prompt.of(&now.prompts),
        }
    }

    /// `now` without the edit, which was made for `before`, where being there is what it costs: a plugin that
    /// runs, a prompt that became longer. None of any other edit, and of a prompt that was written anew or
    /// written on since.
    pub fn taken_back(
        &self,
        name: &str,
        before: &HarnessManifest,
        now: &HarnessManifest,
    ) -> Option<HarnessManifest> {
        let mut without = now.clone();
        match self {
            Self::Plugin { .. } => without.plugins.retain(|plugin| plugin.name != name),
            Self::Prompt { prompt, text } => {
                let old = prompt.of(&before.prompts);
                if prompt.of(&now.prompts) != text || old.len() >= text.len() {
                    return None;
                }
                prompt.of_mut(&mut without.prompts).clone_from(old);
            }
            Self::Settings { .. } | Self::Limits { .. } | Self::Order { .. } | Self::Remove { .. } => {
                return None;
            }
        }
        (without != *now).then_some(without)
    }

    /// What is wrong with the edit now that the plugins of the edited harness were admitted.
    pub fn check_admitted(&self, facts: &[PluginFacts]) -> Result<(), String> {
        let Self::Settings { plugin, settings } = self else { return Ok(()) };
        let Some(facts) = facts.iter().find(|facts| facts.name == *plugin) else { return Ok(()) };
        if !facts.capabilities.contains(&Capability::Settings) {
            return Err(format!("`{plugin}` reads no settings\nhelp: replace the plugin, or leave it"));
        }
        let known = facts.settings_schema.as_ref().and_then(|schema| schema.get("properties"));
        let Some(known) = known.and_then(Value::as_object) else { return Ok(()) };
        match settings.keys().find(|key| !known.contains_key(*key)) {
            None => Ok(()),
            Some(key) => Err(format!(
                "`{plugin}` has no setting `{key}`\nhelp: its settings are {}",
                listed(known.keys().map(String::as_str))
            )),
        }
    }

    /// Whether `harness` is as the edit would have it, whatever else was changed since. Of a plugin,
    /// whether one of the name is there.
    pub fn holds(&self, name: &str, harness: &HarnessManifest) -> bool {
        let at = |name: &str| harness.plugins.iter().position(|plugin| plugin.name == name);
        match self {
            Self::Plugin { .. } => at(name).is_some(),
            Self::Settings { plugin, settings } => {
                at(plugin).is_some_and(|at| harness.plugins[at].settings == *settings)
            }
            Self::Limits { limits } => limits.holds(&harness.limits),
            Self::Order { plugin, place: Beside::Before(other) } => {
                at(plugin).zip(at(other)).is_some_and(|(plugin, other)| plugin < other)
            }
            Self::Order { plugin, place: Beside::After(other) } => {
                at(plugin).zip(at(other)).is_some_and(|(plugin, other)| plugin > other)
            }
            // A later edit may have written on behind it.
            Self::Prompt { prompt, text } => prompt.of(&harness.prompts).contains(text.trim_end()),
            Self::Remove { plugin } => at(plugin).is_none(),
        }
    }
}

/// The keys and texts of a value, and its numbers as they are written.
fn texts_of(value: &Value, texts: &mut Vec<String>) {
    match value {
        Value::Object(entries) => {
            for (key, value) in entries {
                texts.push(key.clone());
                texts_of(value, texts);
            }
        }
        Value::Array(values) => values.iter().for_each(|value| texts_of(value, texts)),
        Value::String(text) => texts.push(text.clone()),
        Value::Number(number) => texts.push(number.to_string()),
        Value::Bool(_) | Value::Null => {}
    }
}

fn place_of(harness: &HarnessManifest, plugin: &str) -> Result<usize, String> {
    harness.plugins.iter().position(|entry| entry.name == plugin).ok_or_else(|| {
        let shown: String = plugin.chars().take(60).collect();
        match harness.plugins.is_empty() {
            true => format!("the harness has no plugin `{shown}`\nhelp: it has none at all; propose one"),
            false => format!(
                "the harness has no plugin `{shown}`\nhelp: its plugins are {}",
                listed(harness.plugins.iter().map(|entry| entry.name.as_str()))
            ),
        }
    })
}
