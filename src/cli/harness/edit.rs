//! What does a change make of a manifest?

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use tandem_host::harness::{HarnessManifest, PluginEntry};
use tandem_host::plugin::Grants;
use tandem_host::store::Digest;

use super::PluginArguments;

/// A change, read and checked as far as it can be without the harness.
pub enum Edit {
    Add(Add),
    Remove { name: String },
    Plugin { name: String, change: PluginChange },
    Values(Vec<Assignment>),
}

/// A plugin to put in.
pub struct Add {
    name: String,
    pub component: Vec<u8>,
    /// The bytes of its source, if given.
    pub source: Option<Vec<u8>>,
    change: PluginChange,
    replace: bool,
}

/// What to change of a plugin; none leaves it as it is.
pub struct PluginChange {
    grants: Option<Vec<String>>,
    settings: Option<Map<String, Value>>,
    /// From 1.
    place: Option<usize>,
}

/// `limits.turns=40`.
pub struct Assignment {
    section: Section,
    key: String,
    value: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Section {
    Limits,
    Prompts,
}

impl Section {
    fn name(self) -> &'static str {
        match self {
            Self::Limits => "limits",
            Self::Prompts => "prompts",
        }
    }
}

impl Add {
    /// Reads the files and checks the words.
    pub fn read(
        name: String,
        component: &Path,
        plugin: &PluginArguments,
        source: Option<&Path>,
        replace: bool,
    ) -> Result<Self> {
        let component = read(component)?;
        let source = source.map(read).transpose()?;
        Ok(Self { name, component, source, change: PluginChange::read(plugin)?, replace })
    }
}

impl PluginChange {
    fn read(arguments: &PluginArguments) -> Result<Self> {
        Grants::parse(&arguments.grants)?;
        let grants = match (arguments.grants.is_empty(), arguments.no_grants) {
            (true, false) => None,
            _ => Some(arguments.grants.clone()),
        };
        let settings = arguments.settings.as_deref().map(|text| {
            let text = text_or_file(text)?;
            serde_json::from_str(&text).context(
                "`--settings` is not a JSON object\nhelp: write it like `--settings '{\"turns\": 3}'`",
            )
        });
        Ok(Self { grants, settings: settings.transpose()?, place: arguments.at })
    }

    fn is_empty(&self) -> bool {
        self.grants.is_none() && self.settings.is_none() && self.place.is_none()
    }

    fn apply(&self, entry: &mut PluginEntry) {
        if let Some(grants) = &self.grants {
            entry.grants.clone_from(grants);
        }
        if let Some(settings) = &self.settings {
            entry.settings.clone_from(settings);
        }
    }
}

/// The words of `set`: one plugin with options, or assignments without.
pub fn set(what: &[String], plugin: &PluginArguments) -> Result<Edit> {
    let change = PluginChange::read(plugin)?;
    if let [name] = what
        && !name.contains('=')
    {
        if change.is_empty() {
            bail!(
                "nothing is said of what to change of `{name}`\nhelp: `--settings`, `--grant`, `--no-grants`, `--at`; a value is set like `limits.turns=40`"
            );
        }
        return Ok(Edit::Plugin { name: name.clone(), change });
    }
    if !change.is_empty() {
        bail!(
            "`--settings`, `--grant`, `--no-grants` and `--at` are for one plugin\nhelp: `tandem harness set NAME --settings '{{}}'`, and values in a command of their own"
        );
    }
    Ok(Edit::Values(what.iter().map(|word| assignment(word)).collect::<Result<_>>()?))
}

fn assignment(word: &str) -> Result<Assignment> {
    let parts = word.split_once('=').and_then(|(key, value)| Some((key.split_once('.')?, value)));
    let Some(((section, key), value)) = parts else {
        bail!(
            "`{word}` is neither a plugin with options nor a value\nhelp: values are set like `limits.turns=40` or `prompts.system=@system.txt`"
        );
    };
    let section = match section {
        "limits" => Section::Limits,
        "prompts" => Section::Prompts,
        other => {
            bail!(
                "a harness has no values `{other}`\nhelp: `limits.KEY=VALUE` and `prompts.KEY=TEXT` can be set"
            )
        }
    };
    let value = match section {
        Section::Limits => value.to_owned(),
        Section::Prompts => text_or_file(value)?,
    };
    Ok(Assignment { section, key: key.to_owned(), value })
}

impl Edit {
    /// The manifest after the change.
    pub fn apply(&self, mut manifest: HarnessManifest) -> Result<HarnessManifest> {
        match self {
            Self::Add(add) => apply_add(add, &mut manifest)?,
            Self::Remove { name } => {
                let at = position(&manifest, name)?;
                manifest.plugins.remove(at);
            }
            Self::Plugin { name, change } => {
                let at = position(&manifest, name)?;
                change.apply(&mut manifest.plugins[at]);
                if let Some(place) = change.place {
                    let entry = manifest.plugins.remove(at);
                    insert(&mut manifest, entry, place)?;
                }
            }
            Self::Values(assignments) => {
                for assignment in assignments {
                    match assignment.section {
                        Section::Limits => manifest.limits = assign(&manifest.limits, assignment)?,
                        Section::Prompts => manifest.prompts = assign(&manifest.prompts, assignment)?,
                    }
                }
            }
        }
        Ok(manifest)
    }

    /// The plugin whose source is given, and the source.
    pub fn source(&self) -> Option<(&str, &[u8])> {
        match self {
            Self::Add(add) => add.source.as_deref().map(|source| (add.name.as_str(), source)),
            _ => None,
        }
    }
}

fn apply_add(add: &Add, manifest: &mut HarnessManifest) -> Result<()> {
    let digest = Digest::of(&add.component);
    let mut entry = PluginEntry { name: add.name.clone(), digest, grants: Vec::new(), settings: Map::new() };
    let there = manifest.plugins.iter().position(|plugin| plugin.name == add.name);
    match (there, add.replace) {
        (Some(_), false) => bail!(
            "the harness has a plugin `{name}` already\nhelp: `--replace` puts the new component in its place; another name adds a second plugin",
            name = add.name
        ),
        (None, true) => return Err(unknown(manifest, &add.name)),
        (Some(at), true) => {
            let mut old = manifest.plugins.remove(at);
            old.digest = digest;
            add.change.apply(&mut old);
            insert(manifest, old, add.change.place.unwrap_or(at + 1))
        }
        (None, false) => {
            add.change.apply(&mut entry);
            let place = add.change.place.unwrap_or(manifest.plugins.len() + 1);
            insert(manifest, entry, place)
        }
    }
}

/// Puts a plugin into its place, which counts from 1.
fn insert(manifest: &mut HarnessManifest, entry: PluginEntry, place: usize) -> Result<()> {
    let last = manifest.plugins.len() + 1;
    if !(1..=last).contains(&place) {
        bail!("the harness has no place {place} for `{}`\nhelp: its places are 1 to {last}", entry.name);
    }
    manifest.plugins.insert(place - 1, entry);
    Ok(())
}

fn position(manifest: &HarnessManifest, name: &str) -> Result<usize> {
    let found = manifest.plugins.iter().position(|plugin| plugin.name == name);
    found.ok_or_else(|| unknown(manifest, name))
}

fn unknown(manifest: &HarnessManifest, name: &str) -> anyhow::Error {
    let names: Vec<_> = manifest.plugins.iter().map(|plugin| format!("`{}`", plugin.name)).collect();
    match names.is_empty() {
        true => anyhow::anyhow!(
            "the harness has no plugins, so none named `{name}`\nhelp: `tandem harness add {name} FILE.wasm` adds one"
        ),
        false => {
            anyhow::anyhow!("the harness has no plugin `{name}`\nhelp: its plugins are {}", names.join(", "))
        }
    }
}

/// A flat record with one value changed.
fn assign<T: Serialize + DeserializeOwned>(record: &T, assignment: &Assignment) -> Result<T> {
    let Assignment { section, key, value } = assignment;
    let Value::Object(mut map) = serde_json::to_value(record)? else {
        bail!("`{}` has no values", section.name());
    };
    let keys: Vec<_> = map.keys().map(|key| format!("`{key}`")).collect();
    let parsed = match section {
        Section::Limits => serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.clone())),
        Section::Prompts => Value::String(value.clone()),
    };
    map.insert(key.clone(), parsed);
    serde_json::from_value(Value::Object(map)).map_err(|error| {
        // A value may be left out where it is the default, so only the reader knows them all.
        let told = error.to_string();
        if told.starts_with("unknown field") {
            let all = told.split_once("expected one of ").map(|(_, all)| all.to_owned());
            let (section, keys) = (section.name(), all.unwrap_or_else(|| keys.join(", ")));
            return anyhow::anyhow!("`{section}` has no value `{key}`\nhelp: its values are {keys}");
        }
        anyhow::anyhow!(
            "`{}.{key}` cannot be `{value}`: {error}\nhelp: `tandem harness show` shows the value that it has",
            section.name()
        )
    })
}

/// The text itself, or that of the file after `@`.
fn text_or_file(text: &str) -> Result<String> {
    match text.strip_prefix('@') {
        None => Ok(text.to_owned()),
        Some(path) => {
            let bytes = read(path.as_ref())?;
            String::from_utf8(bytes)
                .with_context(|| format!("{path} is not a text in UTF-8\nhelp: convert it"))
        }
    }
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("{} cannot be read\nhelp: check the path", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    fn arguments() -> PluginArguments {
        PluginArguments { grants: Vec::new(), no_grants: false, settings: None, at: None }
    }

    fn entry(name: &str) -> PluginEntry {
        PluginEntry {
            name: name.into(),
            digest: Digest::of(name.as_bytes()),
            grants: vec![],
            settings: Map::new(),
        }
    }

    fn three() -> HarnessManifest {
        HarnessManifest { plugins: ["a", "b", "c"].map(entry).to_vec(), ..HarnessManifest::bare() }
    }

    fn add(name: &str, at: Option<usize>, replace: bool) -> Edit {
        let change = PluginChange { grants: None, settings: None, place: at };
        Edit::Add(Add { name: name.into(), component: b"new".to_vec(), source: None, change, replace })
    }

    fn names(edit: &Edit) -> String {
        match edit.apply(three()) {
            Ok(manifest) => manifest.plugins.iter().map(|plugin| plugin.name.as_str()).collect(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn a_plugin_goes_to_the_place_that_was_asked_for() {
        let check = |edit: Edit, expected: &str| assert_eq!(names(&edit), expected);
        check(add("d", None, false), "abcd");
        check(add("d", Some(1), false), "dabc");
        check(add("d", Some(4), false), "abcd");
        check(add("b", None, true), "abc");
        check(add("b", Some(1), true), "bac");
        check(Edit::Remove { name: "b".into() }, "ac");
        let moved = |name: &str, at| {
            let plugin = PluginArguments { at: Some(at), ..arguments() };
            set(&[name.to_owned()], &plugin).unwrap()
        };
        check(moved("a", 3), "bca");
        check(moved("c", 1), "cab");
        check(moved("b", 2), "abc");
        check(moved("b", 4), "the harness has no place 4 for `b`\nhelp: its places are 1 to 3");
        check(add("d", Some(0), false), "the harness has no place 0 for `d`\nhelp: its places are 1 to 4");
    }

    #[test]
    fn a_replaced_component_keeps_grants_and_settings() {
        let mut manifest = three();
        manifest.plugins[1].grants = vec!["log".into()];
        manifest.plugins[1].settings.insert("turns".into(), 3.into());
        let after = add("b", None, true).apply(manifest.clone()).unwrap();
        assert_eq!(after.plugins[1].digest, Digest::of(b"new"));
        assert_eq!(after.plugins[1].grants, manifest.plugins[1].grants);
        assert_eq!(after.plugins[1].settings, manifest.plugins[1].settings);
    }

    #[test]
    fn a_change_that_cannot_be_says_why_and_what_can() {
        let check = |words: &[&str], plugin: PluginArguments, expected: Expect| {
            let words: Vec<_> = words.iter().map(|word| (*word).to_owned()).collect();
            let error = set(&words, &plugin).and_then(|edit| edit.apply(three())).err().unwrap();
            expected.assert_eq(&error.to_string());
        };
        check(
            &["z"],
            PluginArguments { no_grants: true, ..arguments() },
            expect![[r#"
            the harness has no plugin `z`
            help: its plugins are `a`, `b`, `c`"#]],
        );
        check(
            &["a"],
            arguments(),
            expect![[r#"
            nothing is said of what to change of `a`
            help: `--settings`, `--grant`, `--no-grants`, `--at`; a value is set like `limits.turns=40`"#]],
        );
        check(
            &["a", "b"],
            arguments(),
            expect![[r#"
            `a` is neither a plugin with options nor a value
            help: values are set like `limits.turns=40` or `prompts.system=@system.txt`"#]],
        );
        check(
            &["limits.turns=1"],
            PluginArguments { at: Some(1), ..arguments() },
            expect![[r#"
            `--settings`, `--grant`, `--no-grants` and `--at` are for one plugin
            help: `tandem harness set NAME --settings '{}'`, and values in a command of their own"#]],
        );
        check(
            &["plugins.a=1"],
            arguments(),
            expect![[r#"
            a harness has no values `plugins`
            help: `limits.KEY=VALUE` and `prompts.KEY=TEXT` can be set"#]],
        );
        check(
            &["limits.turnz=1"],
            arguments(),
            expect![[r#"
                `limits` has no value `turnz`
                help: its values are `protocol`, `shell`, `hand_in`, `condense`, `turns`, `tokens`, `seconds`, `money`, `command_seconds`, `observation_chars`, `format_errors`, `deferrals`"#]],
        );
        check(
            &["limits.turns=many"],
            arguments(),
            expect![[r#"
            `limits.turns` cannot be `many`: invalid type: string "many", expected u64
            help: `tandem harness show` shows the value that it has"#]],
        );
        check(
            &["limits.turns=-1"],
            arguments(),
            expect![[r#"
            `limits.turns` cannot be `-1`: invalid value: integer `-1`, expected u64
            help: `tandem harness show` shows the value that it has"#]],
        );
        check(
            &["prompts.system=@no/such/file"],
            arguments(),
            expect![[r#"
            no/such/file cannot be read
            help: check the path"#]],
        );
        check(
            &["a"],
            PluginArguments { settings: Some("[1]".into()), ..arguments() },
            expect![[r#"
            `--settings` is not a JSON object
            help: write it like `--settings '{"turns": 3}'`"#]],
        );
        check(
            &["a"],
            PluginArguments { grants: vec!["net".into()], ..arguments() },
            expect![[r#"
            `net` is not a grant
            help: the grants are `log`, `clock`, `random`, `state`, `settings`, `workspace-read`, `workspace-write`, `exec`"#]],
        );
    }

    #[test]
    fn values_are_set_and_texts_that_look_like_numbers_stay_texts() {
        let words: Vec<String> =
            ["limits.turns=40", "limits.protocol=tools", "limits.shell=kept", "prompts.system=12=x"]
                .map(Into::into)
                .to_vec();
        let after = set(&words, &arguments()).unwrap().apply(three()).unwrap();
        assert_eq!(after.limits.turns, 40);
        assert_eq!(after.limits.protocol, tandem_host::harness::Protocol::Tools);
        assert_eq!(after.limits.shell, tandem_host::harness::Shell::Kept);
        assert_eq!(after.prompts.system, "12=x");
    }
}
