//! Why can a harness not be read, built or activated?

use std::path::PathBuf;

use super::manifest::CONTRACT;
use crate::plugin::{AdmissionError, Step};
use crate::store::{Digest, StoreError};

/// A harness manifest that cannot be used. Nothing was published; what runs goes on.
#[derive(Debug, thiserror::Error)]
pub enum HarnessError {
    /// Not a manifest. `line` counts from 1; 0 is the whole file.
    #[error("{file}{place}: {what}\nhelp: a harness manifest has `contract`, `[[plugins]]` (name, digest, grants, settings), `[prompts]` and `[limits]`", place = place(*.line))]
    Manifest { file: String, line: usize, what: String },
    #[error("cannot {action} `{path}`: {source}\nhelp: check the path and its permissions", path = .path.display())]
    File { action: &'static str, path: PathBuf, source: std::io::Error },
    #[error(
        "the harness is written for `{found}`, this host speaks `{CONTRACT}`\nhelp: use a host of that version, or build the plugins against `{CONTRACT}` and say so in `contract`"
    )]
    Contract { found: String },
    #[error(
        "a plugin of the harness is named `{name}`\nhelp: name plugins with 1 to 64 of the letters a to z, digits and `-`"
    )]
    Name { name: String },
    #[error("two plugins of the harness are named `{name}`\nhelp: give every plugin a name of its own")]
    DuplicateName { name: String },
    #[error("the plugin `{name}` of the harness has an unknown grant `{grant}`\nhelp: the grants are {all}", all = crate::plugin::Grants::all())]
    UnknownGrant { name: String, grant: String },
    #[error(
        "the plugins `{first}` and `{second}` both have a tool `{tool}`\nhelp: take one of them out, or rename the tool in its source"
    )]
    DuplicateTool { tool: String, first: String, second: String },
    #[error(
        "the plugin `{plugin}` has a tool `{tool}`, which the host has in this harness: `limits.hand_in` is `finish`\nhelp: rename the tool in its source, take the plugin out, or set `limits.hand_in` to `sentinel`"
    )]
    HostTool { tool: String, plugin: String },
    /// One sentence and a help.
    #[error("{0}")]
    Limit(String),
    #[error("the component of the plugin `{name}` is not at hand: {source}")]
    Blob { name: String, source: StoreError },
    #[error("the plugin `{name}` was not admitted: it {} (admission step: {}, {})\nhelp: {}", .source.what, .source.step, .source.plugin, .source.help)]
    Admission { name: String, source: AdmissionError },
    #[error("the harness {digest} cannot be activated: {source}")]
    Unknown { digest: Digest, source: StoreError },
    #[error("the harness {digest} could not be kept: {source}")]
    Keep { digest: Digest, source: StoreError },
}

impl HarnessError {
    /// The step at which a plugin failed, if one did.
    pub fn admission_step(&self) -> Option<Step> {
        match self {
            Self::Admission { source, .. } => Some(source.step),
            _ => None,
        }
    }
}

fn place(line: usize) -> String {
    match line {
        0 => String::new(),
        line => format!(" line {line}"),
    }
}
