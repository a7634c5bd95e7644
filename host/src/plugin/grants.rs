//! Which capabilities may a plugin import?

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A capability interface of the contract. Each is a grant of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Capability {
    Log,
    Clock,
    Random,
    State,
    Settings,
    WorkspaceRead,
    WorkspaceWrite,
    Exec,
}

impl Capability {
    /// All of them, in the order of the contract.
    pub const ALL: [Self; 8] = [
        Self::Log,
        Self::Clock,
        Self::Random,
        Self::State,
        Self::Settings,
        Self::WorkspaceRead,
        Self::WorkspaceWrite,
        Self::Exec,
    ];

    /// The interface's name in `wit/`, and the word in `grants`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Log => "log",
            Self::Clock => "clock",
            Self::Random => "random",
            Self::State => "state",
            Self::Settings => "settings",
            Self::WorkspaceRead => "workspace-read",
            Self::WorkspaceWrite => "workspace-write",
            Self::Exec => "exec",
        }
    }

    /// What it lets a plugin do, as it goes on after "may".
    pub fn allows(self) -> &'static str {
        match self {
            Self::Log => "write messages into the record of the episode",
            Self::Clock => "read the virtual time of the episode",
            Self::Random => "draw seeded random numbers",
            Self::State => "keep data of its own during the episode",
            Self::Settings => "read its settings of the manifest",
            Self::WorkspaceRead => "read every file of the workspace",
            Self::WorkspaceWrite => "change files of the workspace",
            Self::Exec => "run programs in the sandbox of the workspace",
        }
    }
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A word that names no capability.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a grant\nhelp: the grants are {all}", all = Grants::all())]
pub struct UnknownGrant(pub String);

impl FromStr for Capability {
    type Err = UnknownGrant;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|capability| capability.name() == word);
        found.ok_or_else(|| UnknownGrant(word.to_owned()))
    }
}

/// The capabilities that a harness gives a plugin.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Grants(BTreeSet<Capability>);

impl Grants {
    /// No capability at all.
    pub fn none() -> Self {
        Self::default()
    }

    /// Every capability of the contract.
    pub fn all() -> Self {
        Capability::ALL.into_iter().collect()
    }

    /// Reads the words of a manifest.
    pub fn parse<S: AsRef<str>>(words: &[S]) -> Result<Self, UnknownGrant> {
        words.iter().map(|word| word.as_ref().parse()).collect()
    }

    /// Whether `capability` is among them.
    pub fn has(&self, capability: Capability) -> bool {
        self.0.contains(&capability)
    }

    /// In the order of the contract.
    pub fn iter(&self) -> impl Iterator<Item = Capability> + '_ {
        self.0.iter().copied()
    }

    /// The same with one more.
    pub fn with(&self, capability: Capability) -> Self {
        self.iter().chain([capability]).collect()
    }

    /// As a manifest has them: `["log", "state"]`.
    pub fn to_toml(&self) -> String {
        let words: Vec<_> = self.iter().map(|capability| format!("\"{capability}\"")).collect();
        format!("[{}]", words.join(", "))
    }
}

impl FromIterator<Capability> for Grants {
    fn from_iter<I: IntoIterator<Item = Capability>>(capabilities: I) -> Self {
        Self(capabilities.into_iter().collect())
    }
}

impl fmt::Display for Grants {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<_> = self.iter().map(|capability| format!("`{capability}`")).collect();
        f.write_str(&words.join(", "))
    }
}
