//! What is the status of each test that a log names?

use std::collections::HashMap;
use std::fmt;

/// The status of one test, as the log words it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    Passed,
    Failed,
    Skipped,
    Error,
    Xfail,
    /// A word that only begins like a status, such as `ERROR:`. It counts neither
    /// as passed nor as failed.
    Other(String),
}

impl Status {
    /// The five words a line may begin with.
    pub(super) const WORDS: [&str; 5] = ["FAILED", "PASSED", "SKIPPED", "ERROR", "XFAIL"];

    /// The status of a word.
    pub fn of(word: &str) -> Self {
        match word {
            "PASSED" => Self::Passed,
            "FAILED" => Self::Failed,
            "SKIPPED" => Self::Skipped,
            "ERROR" => Self::Error,
            "XFAIL" => Self::Xfail,
            other => Self::Other(other.to_owned()),
        }
    }

    /// The word.
    pub fn word(&self) -> &str {
        match self {
            Self::Passed => "PASSED",
            Self::Failed => "FAILED",
            Self::Skipped => "SKIPPED",
            Self::Error => "ERROR",
            Self::Xfail => "XFAIL",
            Self::Other(word) => word,
        }
    }

    /// Passed, or failed as the suite expects.
    pub fn is_pass(&self) -> bool {
        matches!(self, Self::Passed | Self::Xfail)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// Statuses by test name, in the order in which the names were first seen.
///
/// The order matters: a truncated name is answered by the first test it begins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatusMap {
    entries: Vec<(String, Status)>,
    places: HashMap<String, usize>,
}

impl StatusMap {
    /// Sets the status of a test; a name that was seen before keeps its place.
    pub fn set(&mut self, name: impl Into<String>, status: Status) {
        let name = name.into();
        match self.places.get(&name) {
            Some(place) => self.entries[*place].1 = status,
            None => {
                self.places.insert(name.clone(), self.entries.len());
                self.entries.push((name, status));
            }
        }
    }

    /// The status of a test.
    pub fn get(&self, name: &str) -> Option<&Status> {
        self.places.get(name).map(|place| &self.entries[*place].1)
    }

    /// Names with their statuses, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Status)> {
        self.entries.iter().map(|(name, status)| (name.as_str(), status))
    }

    /// How many tests there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}
