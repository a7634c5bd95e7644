//! Which change of the harness does a reply propose? A manifest that names its kind, and what the kind asks
//! for: the source of a plugin, the text of a prompt, or nothing more.

use serde::Deserialize;
use serde_json::{Map, Value};
use tandem_host::forge::Language;
use tandem_host::plugin::{Capability, HookPoint};

use super::super::edit::{Beside, Edit, EditKind, LimitsEdit, PromptName};
use super::super::proposal::Manifest;
use super::super::signals::Signal;
use super::reply::{Block, ReplyFault, brief, is_manifest, manifest, only, sentence, usable_blocks};
use super::request::TeacherReply;

/// Longest name and source.
const MAX_NAME: usize = 40;
const MAX_SOURCE: usize = 64 << 10;
const MAX_LIST: usize = 8;
/// What the block with a prompt's text may be called.
const TEXTS: [&str; 7] = ["text", "txt", "plain", "jinja", "jinja2", "markdown", "md"];

const MANIFEST_HELP: &str = "its keys are `name`, `mechanism`, `points`, `grants`, `fixes` and `risks`; another `kind` than `plugin` has keys of its own in the place of `points` and `grants`";

/// A change as a model handed it in.
#[derive(Clone, Debug, PartialEq)]
pub struct Draft {
    pub manifest: Manifest,
    /// The first of `manifest.fixes`.
    pub signal: Signal,
    pub edit: Edit,
}

/// A manifest as it is written: the keys of all kinds.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    #[serde(default)]
    kind: EditKind,
    name: String,
    mechanism: String,
    points: Option<Vec<String>>,
    grants: Option<Vec<String>>,
    fixes: Vec<String>,
    #[serde(default)]
    risks: Vec<String>,
    plugin: Option<String>,
    settings: Option<Map<String, Value>>,
    limits: Option<LimitsEdit>,
    before: Option<String>,
    after: Option<String>,
    prompt: Option<PromptName>,
}

impl Written {
    /// The keys that not every kind has, and whether each says something.
    fn own_keys(&self) -> [(&'static str, bool); 8] {
        let some = |list: &Option<Vec<String>>| list.as_ref().is_some_and(|list| !list.is_empty());
        [
            ("points", some(&self.points)),
            ("grants", some(&self.grants)),
            ("plugin", self.plugin.is_some()),
            ("settings", self.settings.is_some()),
            ("limits", self.limits.is_some()),
            ("before", self.before.is_some()),
            ("after", self.after.is_some()),
            ("prompt", self.prompt.is_some()),
        ]
    }
}

/// The keys that a kind has beside those of all kinds.
fn keys_of(kind: EditKind) -> &'static [&'static str] {
    match kind {
        EditKind::Plugin => &["points", "grants"],
        EditKind::Settings => &["plugin", "settings"],
        EditKind::Limits => &["limits"],
        EditKind::Order => &["plugin", "before", "after"],
        EditKind::Prompt => &["prompt"],
        EditKind::Remove => &["plugin"],
    }
}

fn wrong(reason: impl Into<String>, help: impl Into<String>) -> ReplyFault {
    ReplyFault::Manifest { reason: reason.into(), help: help.into() }
}

/// Reads a reply of the harness teacher, which writes plugins in `language`. `signals` are those that it was
/// shown.
pub fn harness(reply: &TeacherReply, language: Language, signals: &[Signal]) -> Result<Draft, ReplyFault> {
    let blocks = usable_blocks(reply)?;
    let help = format!("write the manifest as ```toml: {MANIFEST_HELP}");
    let written: Written = manifest(only(&blocks, "manifest", &help, is_manifest)?, MANIFEST_HELP)?;
    let kind = written.kind;
    if let Some((key, _)) =
        written.own_keys().iter().find(|(key, is_there)| *is_there && !keys_of(kind).contains(key))
    {
        let own: Vec<_> = keys_of(kind).iter().map(|key| format!("`{key}`")).collect();
        let help = format!("its own keys are {}; propose one change", own.join(", "));
        return Err(wrong(format!("`{key}` does not belong to the kind `{kind}`"), help));
    }
    let second = second_block(kind, &blocks, language)?;
    let edit = edit(&written, second, language)?;
    let manifest = Manifest {
        name: written.name,
        mechanism: written.mechanism,
        points: written.points.unwrap_or_default(),
        grants: written.grants.unwrap_or_default(),
        fixes: written.fixes,
        risks: written.risks,
    };
    let signal = check(kind, &manifest, signals)?;
    Ok(Draft { manifest, signal, edit })
}

/// The text of the block beside the manifest, where the kind has one.
fn second_block(kind: EditKind, blocks: &[Block], language: Language) -> Result<&str, ReplyFault> {
    let known = match kind {
        EditKind::Plugin => language.name(),
        EditKind::Prompt => "text",
        _ => {
            return match blocks.iter().find(|block| !is_manifest(block)) {
                None => Ok(""),
                Some(block) => Err(ReplyFault::Needless { kind: kind.name(), found: brief(&block.language) }),
            };
        }
    };
    for block in blocks.iter().filter(|block| !is_manifest(block)) {
        let fits = match kind {
            EditKind::Plugin => Language::named(&block.language) == Some(language),
            _ => TEXTS.contains(&block.language.as_str()),
        };
        if block.language.is_empty() {
            return Err(ReplyFault::Unnamed { known: known.to_owned() });
        }
        if !fits {
            return Err(ReplyFault::Language { language: block.language.clone(), known: known.to_owned() });
        }
    }
    let (wanted, help) = match kind {
        EditKind::Plugin => ("source", format!("write the whole source of the plugin as ```{known}")),
        _ => ("text", format!("write the whole text of the prompt as ````{known}")),
    };
    let block = only(blocks, wanted, &help, |block| !is_manifest(block))?;
    if block.text.len() > MAX_SOURCE {
        let size = block.text.len();
        return Err(ReplyFault::TooLong { what: wanted, size, unit: "bytes", limit: MAX_SOURCE });
    }
    if block.text.trim().is_empty() {
        return Err(ReplyFault::Missing { wanted, help });
    }
    Ok(&block.text)
}

/// The edit that a manifest of its kind and the block beside it stand for.
fn edit(written: &Written, second: &str, language: Language) -> Result<Edit, ReplyFault> {
    let kind = written.kind;
    let missing = |key: &str| wrong(format!("the kind `{kind}` needs `{key}`"), example(kind));
    let plugin = || written.plugin.clone().ok_or_else(|| missing("plugin"));
    Ok(match kind {
        EditKind::Plugin => {
            let grants = written.grants.clone().unwrap_or_default();
            Edit::Plugin { language, source: second.to_owned(), grants }
        }
        EditKind::Settings => {
            let settings = written.settings.clone().ok_or_else(|| missing("settings"))?;
            Edit::Settings { plugin: plugin()?, settings }
        }
        EditKind::Limits => Edit::Limits { limits: written.limits.clone().ok_or_else(|| missing("limits"))? },
        EditKind::Order => {
            let place = match (&written.before, &written.after) {
                (Some(other), None) => Beside::Before(other.clone()),
                (None, Some(other)) => Beside::After(other.clone()),
                (Some(_), Some(_)) => {
                    return Err(wrong("it has both `before` and `after`", "name one of them"));
                }
                (None, None) => return Err(missing("before")),
            };
            Edit::Order { plugin: plugin()?, place }
        }
        EditKind::Prompt => {
            let prompt = written.prompt.ok_or_else(|| missing("prompt"))?;
            // The line that closes the block is not the prompt's.
            Edit::Prompt { prompt, text: second.trim_end_matches('\n').to_owned() }
        }
        EditKind::Remove => Edit::Remove { plugin: plugin()? },
    })
}

/// How the own keys of a kind are written.
fn example(kind: EditKind) -> &'static str {
    match kind {
        EditKind::Plugin => "write `points = [\"on-submit\"]`",
        EditKind::Settings => {
            "write `plugin = \"its-name\"` and `settings = { key = 3 }` with all of its settings"
        }
        EditKind::Limits => "write `limits = { observation_chars = 6000 }`",
        EditKind::Order => {
            "write `plugin = \"its-name\"`, and `before` or `after` with the name of another one"
        }
        EditKind::Prompt => {
            "write `prompt` as one of \"system\", \"instance\", \"observation\", \"format-error\""
        }
        EditKind::Remove => "write `plugin = \"its-name\"`",
    }
}

fn check(kind: EditKind, manifest: &Manifest, signals: &[Signal]) -> Result<Signal, ReplyFault> {
    let name = &manifest.name;
    let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if name.is_empty() || !name.chars().all(is_name) || name.starts_with('-') || name.ends_with('-') {
        let help = "a name has lower-case letters, digits and `-`, such as `hold-empty-patch`";
        return Err(wrong(format!("`name` is `{}`", brief(name)), help));
    }
    let too_long = |what, size, limit| ReplyFault::TooLong { what, size, unit: "characters", limit };
    if name.len() > MAX_NAME {
        return Err(too_long("name", name.len(), MAX_NAME));
    }
    sentence("mechanism", &manifest.mechanism)?;
    for risk in &manifest.risks {
        sentence("risks", risk)?;
    }
    let lists = [
        ("points", manifest.points.len(), usize::from(kind.is_plugin())),
        ("grants", manifest.grants.len(), 0),
        ("fixes", manifest.fixes.len(), 1),
        ("risks", manifest.risks.len(), 0),
    ];
    for (key, count, least) in lists {
        if count < least || count > MAX_LIST {
            let help = format!("give {least} to {MAX_LIST}");
            return Err(wrong(format!("`{key}` has {count} entries"), help));
        }
    }
    if let Some(point) = manifest.points.iter().find(|point| HookPoint::named(point).is_none()) {
        let known = HookPoint::ALL.map(HookPoint::name).join(", ");
        return Err(wrong(
            format!("`{}` is not a hook point", brief(point)),
            format!("the hook points are {known}"),
        ));
    }
    if let Some(grant) = manifest.grants.iter().find(|grant| grant.parse::<Capability>().is_err()) {
        let known = Capability::ALL.map(Capability::name).join(", ");
        return Err(wrong(format!("`{}` is not a grant", brief(grant)), format!("the grants are {known}")));
    }
    let mut fixes = Vec::new();
    for fix in &manifest.fixes {
        let Some(signal) = signals.iter().find(|signal| signal.name() == fix) else {
            let known: Vec<_> = signals.iter().map(|signal| signal.name()).collect();
            let help = format!("`fixes` names signals that should become rarer: {}", known.join(", "));
            return Err(wrong(format!("`{}` in `fixes` is not a signal of this request", brief(fix)), help));
        };
        fixes.push(*signal);
    }
    fixes.first().copied().ok_or_else(|| wrong("`fixes` is empty", "name a signal"))
}
