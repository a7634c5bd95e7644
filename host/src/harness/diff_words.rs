//! How is a comparison of two harnesses said in words?

use std::fmt;

use super::diff::{Change, HarnessDiff};
use super::lines::LineChange;
use crate::plugin::Capability;

/// Under which words a change is shown, in this order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Heading {
    Unknown,
    AsksFor,
    Hooks,
    NoLonger,
    Plugins,
    Order,
    Settings,
    Limits,
    Prompts,
    Contract,
}

impl Heading {
    fn words(self) -> &'static str {
        match self {
            Self::Unknown => "What plugins import and hook is left out",
            Self::AsksFor => "It newly asks for",
            Self::Hooks => "It newly hooks",
            Self::NoLonger => "No longer",
            Self::Plugins => "Plugins",
            Self::Order => "Order",
            Self::Settings => "Settings",
            Self::Limits => "Limits",
            Self::Prompts => "Prompts",
            Self::Contract => "Contract",
        }
    }
}

impl Change {
    /// Under which words it is shown.
    pub(super) fn heading(&self) -> Heading {
        match self {
            Self::PluginsUnknown { .. } => Heading::Unknown,
            Self::GrantAdded { .. } | Self::ImportsAdded { .. } => Heading::AsksFor,
            Self::PointAdded { .. } | Self::ToolAdded { .. } => Heading::Hooks,
            Self::GrantRemoved { .. }
            | Self::ImportsRemoved { .. }
            | Self::PointRemoved { .. }
            | Self::ToolRemoved { .. } => Heading::NoLonger,
            Self::ToolChanged { .. }
            | Self::PluginAdded { .. }
            | Self::PluginRemoved { .. }
            | Self::ComponentChanged { .. } => Heading::Plugins,
            Self::OrderChanged { .. } => Heading::Order,
            Self::SettingChanged { .. } => Heading::Settings,
            Self::LimitChanged { .. } => Heading::Limits,
            Self::PromptChanged { .. } => Heading::Prompts,
            Self::ContractChanged { .. } => Heading::Contract,
        }
    }
}

impl fmt::Display for HarnessDiff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "from {} to {}", self.from.short(), self.to.short())?;
        if self.changes.is_empty() {
            return writeln!(f, "Nothing differs.");
        }
        let mut shown = None;
        for change in &self.changes {
            if shown != Some(change.heading()) {
                shown = Some(change.heading());
                writeln!(f, "{}:", change.heading().words())?;
            }
            writeln!(f, "  {change}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PluginsUnknown { harness, reason } => {
                write!(f, "harness {}: {}", harness.short(), reason.replace('\n', "\n    "))
            }
            Self::GrantAdded { plugin, grant } => {
                write!(f, "`{plugin}` may use `{grant}`: {}", meaning(grant))
            }
            Self::ImportsAdded { plugin, imports } | Self::ImportsRemoved { plugin, imports } => {
                write!(f, "`{plugin}` imports {}", interfaces(imports))
            }
            Self::PointAdded { plugin, point } => write!(f, "`{plugin}` is called at `{}`", point.name()),
            Self::ToolAdded { plugin, tool, description } => {
                let first = description.lines().next().unwrap_or_default();
                write!(f, "`{plugin}` offers the tool `{tool}`: {first}")
            }
            Self::GrantRemoved { plugin, grant } => write!(f, "`{plugin}` may use `{grant}`"),
            Self::PointRemoved { plugin, point } => write!(f, "`{plugin}` is called at `{}`", point.name()),
            Self::ToolRemoved { plugin, tool } => write!(f, "`{plugin}` offers the tool `{tool}`"),
            Self::ToolChanged { plugin, tool } => {
                write!(f, "`{plugin}` describes its tool `{tool}` in another way")
            }
            Self::PluginAdded { plugin, component, place, of } => {
                write!(f, "`{plugin}` is new, in place {place} of {of} (component {})", component.short())
            }
            Self::PluginRemoved { plugin, component } => {
                write!(f, "`{plugin}` is gone (component {})", component.short())
            }
            Self::ComponentChanged { plugin, from, to } => {
                write!(f, "`{plugin}` has another component: {} before, {} now", from.short(), to.short())
            }
            Self::OrderChanged { from, to } => write!(f, "{} before; {} now", quoted(from), quoted(to)),
            Self::SettingChanged { plugin, key, from, to } => match (from, to) {
                (Some(from), Some(to)) => write!(f, "`{plugin}`: `{key}` was {from}, is {to}"),
                (None, Some(to)) => write!(f, "`{plugin}`: `{key}` was not set, is {to}"),
                (Some(from), None) => write!(f, "`{plugin}`: `{key}` was {from}, is not set"),
                (None, None) => write!(f, "`{plugin}`: `{key}`"),
            },
            Self::LimitChanged { limit, from, to } => write!(f, "`{limit}`: {from} before, {to} now"),
            Self::PromptChanged { prompt, lines } => {
                write!(f, "`{prompt}`:")?;
                if lines.is_empty() {
                    return write!(f, " only line ends differ");
                }
                for line in lines {
                    match line {
                        LineChange::Removed(line) => write!(f, "\n    - {line}")?,
                        LineChange::Added(line) => write!(f, "\n    + {line}")?,
                    }
                }
                Ok(())
            }
            Self::ContractChanged { from, to } => write!(f, "`{from}` before, `{to}` now"),
        }
    }
}

fn quoted(words: &[String]) -> String {
    words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}

/// Imports by name; those of WASI, which need no grant, as a number.
fn interfaces(imports: &[String]) -> String {
    let (wasi, own): (Vec<_>, Vec<_>) =
        imports.iter().cloned().partition(|import| import.starts_with("wasi:"));
    let count = match wasi.len() {
        0 => return quoted(&own),
        1 => "one interface of WASI, which any plugin gets".to_owned(),
        count => format!("{count} interfaces of WASI, which any plugin gets"),
    };
    if own.is_empty() { count } else { format!("{} and {count}", quoted(&own)) }
}

/// What a grant lets a plugin do.
fn meaning(grant: &str) -> &'static str {
    let unknown = "a grant that this program does not know";
    grant.parse::<Capability>().map_or(unknown, Capability::allows)
}
