//! The teacher that needs no network: which plugin source answers which signal?
//!
//! Each entry is the source of a first-party plugin, whose `// parameter` lines
//! are set for the case at hand. What comes out is source text like any other
//! teacher's: the forge compiles it, admission and the gate judge it.

use std::collections::BTreeSet;

use tandem_host::store::Digest;

use super::proposal::{Language, Proposal};
use super::signals::Signal;

struct Entry {
    signal: Signal,
    name: &'static str,
    source: &'static str,
    parameters: &'static [(&'static str, &'static str)],
    grants: &'static [&'static str],
    rationale: &'static str,
}

macro_rules! plugin_source {
    ($name:literal) => {
        include_str!(concat!("../../plugins/", $name, "/src/lib.rs"))
    };
}

/// For each signal the entries to try, in this order.
const ENTRIES: &[Entry] = &[
    Entry {
        signal: Signal::LimitWithEdits,
        name: "rescue-patch",
        source: plugin_source!("rescue-patch"),
        parameters: &[],
        grants: &[],
        rationale: "work that a limit cut off is handed in instead of lost",
    },
    Entry {
        signal: Signal::LimitWithEdits,
        name: "budget-warning",
        source: plugin_source!("budget-warning"),
        parameters: &[("TURNS_LEFT", "1")],
        grants: &[],
        rationale: "the policy learns in time that it must hand in",
    },
    Entry {
        signal: Signal::LimitWithoutEdits,
        name: "budget-warning",
        source: plugin_source!("budget-warning"),
        parameters: &[("TURNS_LEFT", "2")],
        grants: &[],
        rationale: "the policy learns in time that it must change something",
    },
    Entry {
        signal: Signal::EmptyPatch,
        name: "rescue-patch",
        source: plugin_source!("rescue-patch"),
        parameters: &[],
        grants: &[],
        rationale: "changes in the work tree are handed in when the patch is empty",
    },
    Entry {
        signal: Signal::EmptyPatch,
        name: "hold-empty-patch",
        source: plugin_source!("hold-empty-patch"),
        parameters: &[],
        grants: &[],
        rationale: "an empty patch goes back to the policy once",
    },
    Entry {
        signal: Signal::PatchDoesNotApply,
        name: "rescue-patch",
        source: plugin_source!("rescue-patch"),
        parameters: &[],
        grants: &[],
        rationale: "the work tree is handed in when the patch does not apply",
    },
    Entry {
        signal: Signal::NewFileMissing,
        name: "new-file-reminder",
        source: plugin_source!("new-file-reminder"),
        parameters: &[],
        grants: &["workspace-read"],
        rationale: "`git add -N` brings new files into the patch",
    },
    Entry {
        signal: Signal::UnknownName,
        name: "check-names",
        source: plugin_source!("check-names"),
        parameters: &[],
        grants: &["workspace-read"],
        rationale: "names that do not exist are pointed out before the hand-in",
    },
    Entry {
        signal: Signal::FailedEdit,
        name: "edit",
        source: plugin_source!("edit"),
        parameters: &[],
        grants: &["workspace-read", "workspace-write"],
        rationale: "an edit tool whose errors say what to do",
    },
];

/// The built-in teacher.
pub struct Catalog;

impl Catalog {
    /// Proposals for `signals` in their order, without those in `tried` (by source
    /// digest), at most `most`. One proposal per plugin name.
    pub fn propose(
        &self,
        signals: &[(Signal, usize)],
        tried: &BTreeSet<Digest>,
        most: usize,
    ) -> Vec<Proposal> {
        let mut proposals: Vec<Proposal> = Vec::new();
        for (signal, _) in signals {
            for entry in ENTRIES.iter().filter(|entry| entry.signal == *signal) {
                let proposal = Proposal {
                    name: entry.name.into(),
                    signal: *signal,
                    language: Language::Rust,
                    source: with_parameters(entry.source, entry.parameters),
                    grants: entry.grants.iter().map(|grant| (*grant).to_owned()).collect(),
                    rationale: entry.rationale.into(),
                    manifest: None,
                };
                let known = tried.contains(&proposal.source_digest())
                    || proposals.iter().any(|earlier| earlier.name == proposal.name);
                if !known && proposals.len() < most {
                    proposals.push(proposal);
                }
            }
        }
        proposals
    }
}

/// The source with `const NAME: TYPE = value; // parameter` lines set.
fn with_parameters(source: &str, parameters: &[(&str, &str)]) -> String {
    let mut text = String::with_capacity(source.len());
    for line in source.lines() {
        let set = parameters.iter().find_map(|(name, value)| {
            let (head, rest) = line.split_once('=')?;
            let declared = head.trim_start().trim_start_matches("pub ").strip_prefix("const ")?;
            let matches = declared.split(':').next()?.trim() == *name && rest.contains("// parameter");
            matches.then(|| format!("{head}= {value}; // parameter"))
        });
        text.push_str(set.as_deref().unwrap_or(line));
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parameter_line_is_set_and_nothing_else() {
        let source = "const A: u32 = 1; // parameter\nconst B: u32 = 1;\nlet x = A == 1;\n";
        let set = with_parameters(source, &[("A", "7"), ("B", "7")]);
        assert_eq!(set, "const A: u32 = 7; // parameter\nconst B: u32 = 1;\nlet x = A == 1;\n");
    }

    #[test]
    fn every_parameter_of_the_catalog_exists_in_its_source() {
        for entry in ENTRIES {
            for (name, value) in entry.parameters {
                let set = with_parameters(entry.source, &[(name, value)]);
                let line = set.lines().find(|line| line.contains(&format!("const {name}:")));
                assert!(
                    line.is_some_and(|line| line.contains(&format!("= {value}; // parameter"))),
                    "{} has no parameter {name}",
                    entry.name
                );
            }
        }
    }

    #[test]
    fn what_was_tried_is_not_proposed_again() {
        let signals = [(Signal::LimitWithEdits, 3), (Signal::EmptyPatch, 2)];
        let first = Catalog.propose(&signals, &BTreeSet::new(), 8);
        let names: Vec<_> = first.iter().map(|proposal| proposal.name.as_str()).collect();
        assert_eq!(names, ["rescue-patch", "budget-warning", "hold-empty-patch"]);
        let tried = first.iter().map(Proposal::source_digest).collect();
        assert_eq!(Catalog.propose(&signals, &tried, 8), []);
    }

    #[test]
    fn at_most_the_asked_number_is_proposed() {
        let signals: Vec<_> = Signal::ALL.into_iter().map(|signal| (signal, 1)).collect();
        assert_eq!(Catalog.propose(&signals, &BTreeSet::new(), 2).len(), 2);
    }
}
