//! The teacher that needs no network: which plugin source answers which signal?
//!
//! Each answer is the source of a first-party plugin, whose `// parameter` lines
//! are set for the case at hand; the tables are in `catalog_entries`. What comes out is source text like any other
//! teacher's: the forge compiles it, admission and the gate judge it.

use std::collections::{BTreeSet, VecDeque};

use tandem_host::forge::Language;
use tandem_host::store::Digest;

use super::catalog_entries::{ANSWERS, Answer, MECHANISMS, Mechanism};
use super::proposal::Proposal;
use super::signals::Signal;

/// The built-in teacher.
pub struct Catalog;

impl Catalog {
    /// Proposals for `signals`, without those in `tried` (by source digest), at most `most`: the
    /// first answer to each signal in their order, then the second ones, so that one signal with
    /// many answers does not take all the places. One proposal per plugin name.
    pub fn propose(
        &self,
        signals: &[(Signal, usize)],
        tried: &BTreeSet<Digest>,
        most: usize,
    ) -> Vec<Proposal> {
        let mut left: Vec<VecDeque<Proposal>> = signals
            .iter()
            .map(|(signal, _)| {
                let answers = answers_to(*signal).map(|(answer, mechanism)| proposal(answer, mechanism));
                answers.filter(|proposal| !tried.contains(&proposal.source_digest())).collect()
            })
            .collect();
        let mut proposals: Vec<Proposal> = Vec::new();
        while left.iter().any(|answers| !answers.is_empty()) {
            for answer in left.iter_mut().filter_map(VecDeque::pop_front) {
                let named = proposals.iter().any(|earlier| earlier.name == answer.name);
                if !named && proposals.len() < most {
                    proposals.push(answer);
                }
            }
        }
        proposals
    }
}

fn proposal(answer: &Answer, mechanism: &Mechanism) -> Proposal {
    Proposal {
        name: mechanism.name.into(),
        signal: answer.signal,
        language: Language::Rust,
        source: with_parameters(mechanism.source, answer.parameters),
        grants: mechanism.grants.iter().map(|grant| (*grant).to_owned()).collect(),
        rationale: answer.rationale.into(),
        manifest: None,
    }
}

/// The answers to a signal, in their order.
fn answers_to(signal: Signal) -> impl Iterator<Item = (&'static Answer, &'static Mechanism)> {
    ANSWERS.iter().filter(move |answer| answer.signal == signal).filter_map(|answer| {
        let mechanism = MECHANISMS.iter().find(|mechanism| mechanism.name == answer.mechanism)?;
        Some((answer, mechanism))
    })
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
    use tandem_host::forge::{Forge, ForgeConfig, Source};
    use tandem_host::plugin::{AdmissionOptions, Engine, Grants, PluginLimits, admit};

    use super::*;

    #[test]
    fn a_parameter_line_is_set_and_nothing_else() {
        let source = "const A: u32 = 1; // parameter\nconst B: u32 = 1;\nlet x = A == 1;\n";
        let set = with_parameters(source, &[("A", "7"), ("B", "7")]);
        assert_eq!(set, "const A: u32 = 7; // parameter\nconst B: u32 = 1;\nlet x = A == 1;\n");
    }

    #[test]
    fn every_parameter_of_the_catalog_exists_in_its_source_and_changes_it() {
        for answer in ANSWERS {
            let source = mechanism(answer).source;
            for (name, value) in answer.parameters {
                let set = with_parameters(source, &[(name, value)]);
                let line = set.lines().find(|line| line.contains(&format!("const {name}:")));
                assert!(
                    line.is_some_and(|line| line.contains(&format!("= {value}; // parameter"))),
                    "{} has no parameter {name}",
                    answer.mechanism
                );
                assert!(
                    !source.contains(line.unwrap_or_default()),
                    "{}: {name} is {value}",
                    answer.mechanism
                );
            }
        }
    }

    fn mechanism(answer: &Answer) -> &'static Mechanism {
        let found = MECHANISMS.iter().find(|mechanism| mechanism.name == answer.mechanism);
        found.unwrap_or_else(|| panic!("there is no mechanism {}", answer.mechanism))
    }

    #[test]
    fn every_signal_has_an_answer_and_every_mechanism_answers_one() {
        for signal in Signal::ALL {
            assert!(answers_to(signal).next().is_some(), "{}", signal.name());
        }
        for mechanism in MECHANISMS {
            assert!(ANSWERS.iter().any(|answer| answer.mechanism == mechanism.name), "{}", mechanism.name);
        }
        assert!(MECHANISMS.len() >= 16);
    }

    #[test]
    fn every_mechanism_can_be_tuned_and_says_what_it_does() {
        for Mechanism { name, source, .. } in MECHANISMS {
            assert!(source.contains("; // parameter"), "{name} has no parameter");
            assert!(source.starts_with("//! ") && source.contains("Grants: "), "{name}");
        }
    }

    #[tokio::test]
    async fn every_answer_is_built_and_admitted_with_exactly_its_grants() {
        let cache = tempfile::tempdir().unwrap();
        let forge = Forge::new(ForgeConfig::new(cache.path())).unwrap_or_else(|error| panic!("{error}"));
        let engine = Engine::new(PluginLimits::default()).unwrap();
        let mut built = BTreeSet::new();
        for answer in ANSWERS {
            let Mechanism { name, source, grants } = mechanism(answer);
            let text = with_parameters(source, answer.parameters);
            if !built.insert(Digest::of(text.as_bytes())) {
                continue;
            }
            let component = forge.build(&Source::File { name: format!("{name}.rs"), text });
            let component = component.unwrap_or_else(|error| panic!("{name}: {error}")).component;
            let granted = Grants::parse(grants).unwrap();
            let admitted = admit(&engine, &component, &granted, &AdmissionOptions::default()).await;
            let admitted = admitted.unwrap_or_else(|error| panic!("{name}: {error}"));
            let asked: Grants = admitted.capabilities().iter().copied().collect();
            assert_eq!(asked, granted, "{name}");
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
    fn a_signal_with_many_answers_leaves_room_for_the_next_signal() {
        let signals = [(Signal::LimitWithoutEdits, 9), (Signal::LimitWithEdits, 8)];
        let names: Vec<_> = Catalog
            .propose(&signals, &BTreeSet::new(), 2)
            .into_iter()
            .map(|proposal| proposal.name)
            .collect();
        assert_eq!(names, ["budget-warning", "rescue-patch"]);
    }

    #[test]
    fn at_most_the_asked_number_is_proposed() {
        let signals: Vec<_> = Signal::ALL.into_iter().map(|signal| (signal, 1)).collect();
        assert_eq!(Catalog.propose(&signals, &BTreeSet::new(), 2).len(), 2);
    }
}
