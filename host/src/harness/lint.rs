//! What in a harness works and is still likely a mistake?

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use super::effects::HookPoint;
use super::facts::PluginFacts;
use super::manifest::HarnessManifest;
use crate::plugin::Capability;
use crate::store::Digest;

/// A likely mistake. The harness runs with it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "warning")]
pub enum Warning {
    /// It may use what it never imports: more trust than it needs.
    UnusedGrant { plugin: String, grant: Capability, used: Vec<Capability> },
    /// At this point an answer of `first` keeps `second` from being asked.
    Shadowed { point: HookPoint, first: String, second: String },
    /// Settings that nothing reads.
    SettingsUnread { plugin: String, keys: Vec<String> },
    /// Settings that the plugin's schema lets pass and does not name.
    UnknownSettings { plugin: String, keys: Vec<String>, known: Vec<String> },
    /// One component serves twice.
    SameComponent { first: String, second: String, component: Digest },
    /// Tools that a policy mixes up.
    SimilarTools { first: String, second: String, plugins: [String; 2] },
}

/// All warnings on a harness that was built, in the order of its plugins.
pub fn lint(manifest: &HarnessManifest, facts: &[PluginFacts]) -> Vec<Warning> {
    let mut warnings = Vec::new();
    for plugin in facts {
        let unused = plugin.grants.difference(&plugin.capabilities);
        warnings.extend(unused.map(|grant| Warning::UnusedGrant {
            plugin: plugin.name.clone(),
            grant: *grant,
            used: plugin.capabilities.iter().copied().collect(),
        }));
    }
    for plugin in facts {
        let entry = manifest.plugins.iter().find(|entry| entry.name == plugin.name);
        let keys = entry.into_iter().flat_map(|entry| entry.settings.keys().cloned());
        warnings.extend(settings(plugin, keys.collect()));
    }
    for point in HookPoint::ALL.into_iter().filter(|point| one_answer(*point)) {
        let there: Vec<_> = facts.iter().filter(|plugin| plugin.points.contains(&point)).collect();
        warnings.extend(there.windows(2).map(|pair| Warning::Shadowed {
            point,
            first: pair[0].name.clone(),
            second: pair[1].name.clone(),
        }));
    }
    let mut components: BTreeMap<Digest, &str> = BTreeMap::new();
    for plugin in facts {
        match components.get(&plugin.digest) {
            Some(first) => warnings.push(Warning::SameComponent {
                first: (*first).to_owned(),
                second: plugin.name.clone(),
                component: plugin.digest,
            }),
            None => {
                components.insert(plugin.digest, &plugin.name);
            }
        }
    }
    let mut tools: BTreeMap<String, (&str, &str)> = BTreeMap::new();
    for (plugin, tool) in facts.iter().flat_map(|plugin| plugin.tools.iter().map(move |tool| (plugin, tool)))
    {
        match tools.get(&folded(&tool.name)) {
            Some((first, owner)) => warnings.push(Warning::SimilarTools {
                first: (*first).to_owned(),
                second: tool.name.clone(),
                plugins: [(*owner).to_owned(), plugin.name.clone()],
            }),
            None => {
                tools.insert(folded(&tool.name), (&tool.name, &plugin.name));
            }
        }
    }
    warnings
}

/// What is wrong with the settings of these names.
fn settings(facts: &PluginFacts, mut keys: Vec<String>) -> Option<Warning> {
    let plugin = facts.name.clone();
    if !keys.is_empty() && !facts.capabilities.contains(&Capability::Settings) {
        return Some(Warning::SettingsUnread { plugin, keys });
    }
    let known = facts.settings_schema.as_ref()?.get("properties")?.as_object()?;
    keys.retain(|key| !known.contains_key(key));
    let known = known.keys().cloned().collect();
    (!keys.is_empty()).then_some(Warning::UnknownSettings { plugin, keys, known })
}

/// Points where the first plugin with an answer is the last that is asked (contract rule 1).
/// Where notes add up (`on-model-call`, `on-loop`) a stop ends the episode itself, and at
/// `on-choose-patch` the later choice stands: nobody is passed over.
fn one_answer(point: HookPoint) -> bool {
    matches!(
        point,
        HookPoint::OnToolCall | HookPoint::OnFormatError | HookPoint::OnSubmit | HookPoint::OnLimit
    )
}

/// A tool's name as a policy half remembers it: one case, `_` and `-` left out.
fn folded(name: &str) -> String {
    name.chars().filter(|c| !matches!(c, '_' | '-')).flat_map(char::to_lowercase).collect()
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnusedGrant { plugin, grant, used } => {
                write!(f, "the plugin `{plugin}` is granted `{grant}` and never imports it\nhelp: ")?;
                let words: String = used.iter().map(|grant| format!(" --grant {grant}")).collect();
                match words.is_empty() {
                    true => write!(f, "`tandem harness set {plugin} --no-grants` takes it away"),
                    false => write!(f, "`tandem harness set {plugin}{words}` takes it away"),
                }
            }
            Self::Shadowed { point, first, second } => write!(
                f,
                "`{first}` and `{second}` both decide at `{point}`; when `{first}` answers, `{second}` is not asked\nhelp: put the stricter one first with `tandem harness set {second} --at INDEX`, or keep one of them",
                point = point.name()
            ),
            Self::SettingsUnread { plugin, keys } => write!(
                f,
                "the plugin `{plugin}` has settings ({}) and never reads any\nhelp: `tandem harness set {plugin} --settings '{{}}'` takes them out",
                quoted(keys)
            ),
            Self::UnknownSettings { plugin, keys, known } => write!(
                f,
                "the plugin `{plugin}` has settings that it does not know: {}\nhelp: it knows {}; `tandem harness set {plugin} --settings JSON` sets them anew",
                quoted(keys),
                quoted(known)
            ),
            Self::SameComponent { first, second, component } => write!(
                f,
                "`{first}` and `{second}` are the same component {}\nhelp: `tandem harness remove {second}`, unless it is meant to act twice",
                component.short()
            ),
            Self::SimilarTools { first, second, plugins: [one, two] } => write!(
                f,
                "the tools `{first}` of `{one}` and `{second}` of `{two}` have names that a policy mixes up\nhelp: rename one of them in its source"
            ),
        }
    }
}

fn quoted(words: &[String]) -> String {
    words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}
