//! The harness manifest: TOML to write, canonical JSON to hash.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::error::HarnessError;

use crate::store::Digest;

/// The contract version of `wit/` that this host speaks.
pub const CONTRACT: &str = "tandem:harness@0.1.0";
/// The host's own tool that hands in, where [`HandIn::Finish`] asks for it.
pub const FINISH: &str = "finish";

/// Everything that decides how an episode goes, except policy and task: ordered
/// plugins with grants and settings, base prompts, limits, contract version.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HarnessManifest {
    /// [`CONTRACT`]; another version is refused.
    pub contract: String,
    /// In hook order (contract rule 1).
    #[serde(default)]
    pub plugins: Vec<PluginEntry>,
    #[serde(default)]
    pub prompts: Prompts,
    #[serde(default)]
    pub limits: Limits,
}

/// One plugin of a harness.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PluginEntry {
    /// For people; unique in the manifest. Letters a to z, digits and `-`, at most 64.
    pub name: String,
    pub digest: Digest,
    /// Capability interfaces that it may import, such as `workspace-read`.
    #[serde(default)]
    pub grants: Vec<String>,
    /// What the plugin reads through `settings`.
    #[serde(default)]
    pub settings: serde_json::Map<String, serde_json::Value>,
}

/// How the policy is asked to act.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Protocol {
    /// One fenced `bash` block in each reply.
    #[default]
    Text,
    /// Native tool calls.
    Tools,
}

/// The shell that a command of the policy runs in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Shell {
    /// A new one in the repository's folder.
    #[default]
    New,
    /// A new one with the folder, variables, functions, aliases and options that the command before
    /// left. Processes are not kept: none outlives its command.
    Kept,
}

/// How the policy hands in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HandIn {
    /// A command whose output begins with the sentinel; what follows is the patch.
    #[default]
    Sentinel,
    /// The tool `finish`; the patch is the difference of the work tree.
    Finish,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Base prompts: minijinja templates. `instance` sees `instruction`, all see `limits`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Prompts {
    pub system: String,
    pub instance: String,
    /// Sees `text` (already cut), `exit_code`, `status`.
    pub observation: String,
    /// Sees `error`, `actions` (how many were found).
    pub format_error: String,
}

impl Default for Prompts {
    fn default() -> Self {
        Self {
            system: include_str!("prompts/system.txt").into(),
            instance: include_str!("prompts/instance.txt").into(),
            observation: include_str!("prompts/observation.txt").into(),
            format_error: include_str!("prompts/format_error.txt").into(),
        }
    }
}

/// When the middle of a history gives way to a summary, and what stays. Counts turns: a reply with
/// the results that follow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Condense {
    /// Turns that a history may have; one more, and it is shortened. 0 is never.
    pub after: usize,
    /// Turns at the start that stay, behind the first prompt.
    pub first: usize,
    /// Turns at the end that stay; at least 1.
    pub last: usize,
}

/// Limits of an episode. Those that the policy causes make a valid episode.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    pub protocol: Protocol,
    // Left out of the canonical form where they are as in every earlier harness, whose digests stay.
    #[serde(skip_serializing_if = "is_default")]
    pub shell: Shell,
    #[serde(skip_serializing_if = "is_default")]
    pub hand_in: HandIn,
    #[serde(skip_serializing_if = "is_default")]
    pub condense: Condense,
    /// Model calls.
    pub turns: u64,
    /// Sampled tokens over all turns; 0 is no limit.
    pub tokens: u64,
    /// Virtual seconds of commands; 0 is no limit.
    pub seconds: u64,
    /// Money for tokens at the policy's price, in its currency; 0 is no limit.
    #[serde(skip_serializing_if = "is_default")]
    pub money: f64,
    /// Time limit of one command, seconds.
    pub command_seconds: u64,
    /// Characters of one observation that the policy sees; cut head and tail past it.
    pub observation_chars: usize,
    /// Format errors in a row that end the episode.
    pub format_errors: u32,
    /// Deferrals of a submission in one episode.
    pub deferrals: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            protocol: Protocol::Text,
            shell: Shell::New,
            hand_in: HandIn::Sentinel,
            condense: Condense::default(),
            turns: 250,
            tokens: 0,
            seconds: 0,
            money: 0.0,
            command_seconds: 60,
            observation_chars: 10_000,
            format_errors: 3,
            deferrals: 2,
        }
    }
}

impl Limits {
    /// Says in one sentence what cannot work, with the next step.
    pub(super) fn check(&self) -> Result<(), String> {
        if !(self.money.is_finite() && self.money >= 0.0) {
            let money = self.money;
            return Err(format!("`limits.money` is {money}\nhelp: give a number from 0 on; 0 is no limit"));
        }
        let Condense { after, first, last } = self.condense;
        if after > 0 && (last == 0 || first.saturating_add(last) >= after) {
            return Err(format!(
                "`limits.condense` keeps the first {first} and the last {last} turns of more than {after}\nhelp: keep at least the last turn, and fewer in all than `after`"
            ));
        }
        Ok(())
    }
}

impl HarnessManifest {
    /// A harness with no plugins and the default prompts and limits.
    pub fn bare() -> Self {
        Self {
            contract: CONTRACT.into(),
            plugins: Vec::new(),
            prompts: Prompts::default(),
            limits: Limits::default(),
        }
    }

    /// Reads a manifest from a TOML file.
    pub fn read(path: &Path) -> Result<Self, HarnessError> {
        let text = std::fs::read_to_string(path).map_err(|source| HarnessError::File {
            action: "read",
            path: path.to_owned(),
            source,
        })?;
        Self::from_toml(&format!("`{}`", path.display()), &text)
    }

    /// Parses a manifest in TOML. `file` names it in errors.
    pub fn from_toml(file: &str, text: &str) -> Result<Self, HarnessError> {
        toml::from_str(text).map_err(|error| {
            let line = error.span().map_or(0, |span| text[..span.start].matches('\n').count() + 1);
            // A value that parses itself brings its own help; one is enough.
            let what = error.message().lines().next().unwrap_or_default().to_owned();
            HarnessError::Manifest { file: file.to_owned(), line, what }
        })
    }

    /// Reads the canonical JSON, as [`super::Generation::build`] keeps it in the blob store.
    pub fn from_json(file: &str, json: &[u8]) -> Result<Self, HarnessError> {
        serde_json::from_slice(json).map_err(|error| HarnessError::Manifest {
            file: file.to_owned(),
            line: error.line(),
            what: error.to_string(),
        })
    }

    /// The manifest as TOML, for people to read and edit.
    pub fn to_toml(&self) -> Result<String, HarnessError> {
        toml::to_string_pretty(self).map_err(|error| HarnessError::Manifest {
            file: "the harness".to_owned(),
            line: 0,
            what: format!("cannot be written as TOML: {error}"),
        })
    }

    /// Writes the manifest as TOML.
    pub fn write(&self, path: &Path) -> Result<(), HarnessError> {
        std::fs::write(path, self.to_toml()?).map_err(|source| HarnessError::File {
            action: "write",
            path: path.to_owned(),
            source,
        })
    }

    /// The canonical JSON: keys sorted at every level, no white space, UTF-8.
    pub fn canonical_json(&self) -> String {
        canonical_json(self)
    }

    /// The harness digest: SHA-256 of the canonical JSON.
    pub fn digest(&self) -> Digest {
        Digest::of(self.canonical_json().as_bytes())
    }
}

/// JSON with the keys of every object sorted, no white space: equal values give equal bytes. For
/// values of strings, numbers, lists and maps with string keys, which always have a JSON form.
pub fn canonical_json(value: &impl Serialize) -> String {
    sorted(&serde_json::to_value(value).unwrap_or_default()).to_string()
}

/// The same value with the keys of every object sorted, whatever map type serde_json was built with.
fn sorted(value: &serde_json::Value) -> serde_json::Value {
    match value {
        serde_json::Value::Object(map) => {
            let ordered: BTreeMap<_, _> = map.iter().collect();
            ordered.into_iter().map(|(key, value)| (key.clone(), sorted(value))).collect()
        }
        serde_json::Value::Array(items) => items.iter().map(sorted).collect(),
        other => other.clone(),
    }
}
