//! The teacher that needs no network: which change of the harness answers which signal?
//!
//! Most answers are the source of a first-party plugin, whose `// parameter` lines
//! are set for the case at hand; the tables are in `catalog_entries`. Behind them come edits of prompts,
//! settings and limits, in `catalog_edits`. What comes out is like any other teacher's: the forge compiles source, admission
//! and the gate judge all.

use std::collections::{BTreeSet, VecDeque};

use tandem_host::forge::Language;
use tandem_host::harness::HarnessManifest;
use tandem_host::store::Digest;

use super::catalog_edits::{ADJUSTMENTS, Adjustment};
use super::catalog_entries::{ANSWERS, Answer, MECHANISMS, Mechanism};
use super::edit::Edit;
use super::proposal::Proposal;
use super::signals::Signal;

/// The built-in teacher.
pub struct Catalog;

impl Catalog {
    /// Proposals for `signals` over the harness `incumbent`, without those in `tried` (by the digest of the
    /// edit), at most `most`: the first answer to each signal in their order, then the second ones, so that
    /// one signal with many answers does not take all the places. One proposal per name.
    pub fn propose(
        &self,
        signals: &[(Signal, usize)],
        incumbent: &HarnessManifest,
        tried: &BTreeSet<Digest>,
        most: usize,
    ) -> Vec<Proposal> {
        let mut left: Vec<VecDeque<Proposal>> = signals
            .iter()
            .map(|(signal, _)| {
                let plugins = answers_to(*signal).map(|(answer, mechanism)| proposal(answer, mechanism));
                let edits = ADJUSTMENTS.iter().filter(|adjustment| adjustment.signal == *signal);
                let edits = edits.filter_map(|adjustment| adjusted(adjustment, incumbent));
                plugins.chain(edits).filter(|proposal| !tried.contains(&proposal.digest())).collect()
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
        edit: Edit::Plugin {
            language: Language::Rust,
            source: with_parameters(mechanism.source, answer.parameters),
            grants: mechanism.grants.iter().map(|grant| (*grant).to_owned()).collect(),
        },
        rationale: answer.rationale.into(),
        manifest: None,
    }
}

fn adjusted(adjustment: &Adjustment, incumbent: &HarnessManifest) -> Option<Proposal> {
    Some(Proposal {
        name: adjustment.name.into(),
        signal: adjustment.signal,
        edit: adjustment.edit(incumbent)?,
        rationale: adjustment.rationale.into(),
        manifest: None,
    })
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

    use super::super::catalog_edits::Change;
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
    async fn every_setting_is_one_that_the_plugin_takes() {
        let folder = tempfile::tempdir().unwrap();
        let cache = crate::model::home().unwrap().join("forge");
        let builder = crate::campaign::Builder {
            engine: Engine::new(PluginLimits::default()).unwrap(),
            forge: std::sync::Arc::new(Forge::new(ForgeConfig::new(cache)).unwrap()),
            admission: AdmissionOptions::default(),
            blobs: tandem_host::store::BlobStore::open(folder.path()).unwrap(),
        };
        let mut checked = 0;
        for adjustment in ADJUSTMENTS {
            let Change::Set { plugin, .. } = adjustment.change else { continue };
            assert_eq!(adjustment.edit(&HarnessManifest::bare()), None, "{plugin} is not there");
            let answer = ANSWERS.iter().find(|answer| answer.mechanism == plugin).unwrap();
            let first = proposal(answer, mechanism(answer));
            let built = builder.build(plugin, &first.edit, &HarnessManifest::bare()).await.unwrap();
            let built = built.unwrap_or_else(|refused| panic!("{}", refused.reason));
            let harness = built.generation.manifest().clone();
            let edit = adjustment.edit(&harness).unwrap();
            let set = builder.build(adjustment.name, &edit, &harness).await.unwrap();
            let set = set.unwrap_or_else(|refused| panic!("{}", refused.reason));
            assert_eq!(adjustment.edit(set.generation.manifest()), None, "it is set already");
            checked += 1;
        }
        assert!(checked > 0);
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

    /// The names of what is proposed over the harness without plugins.
    fn check(signals: &[(Signal, usize)], tried: &BTreeSet<Digest>, most: usize, expected: &[&str]) {
        let found = Catalog.propose(signals, &HarnessManifest::bare(), tried, most);
        let names: Vec<_> = found.iter().map(|proposal| proposal.name.as_str()).collect();
        assert_eq!(names, expected);
    }

    #[test]
    fn what_was_tried_is_not_proposed_again() {
        let signals = [(Signal::LimitWithEdits, 3), (Signal::EmptyPatch, 2)];
        check(&signals, &BTreeSet::new(), 8, &["rescue-patch", "budget-warning", "hold-empty-patch"]);
        let first = Catalog.propose(&signals, &HarnessManifest::bare(), &BTreeSet::new(), 8);
        check(&signals, &first.iter().map(Proposal::digest).collect(), 8, &[]);
    }

    #[test]
    fn a_signal_with_many_answers_leaves_room_for_the_next_signal() {
        let signals = [(Signal::LimitWithoutEdits, 9), (Signal::LimitWithEdits, 8)];
        check(&signals, &BTreeSet::new(), 2, &["budget-warning", "rescue-patch"]);
    }

    #[test]
    fn at_most_the_asked_number_is_proposed() {
        let signals: Vec<_> = Signal::ALL.into_iter().map(|signal| (signal, 1)).collect();
        assert_eq!(Catalog.propose(&signals, &HarnessManifest::bare(), &BTreeSet::new(), 2).len(), 2);
    }

    #[test]
    fn edits_come_after_the_plugins_that_answer_the_same_signal() {
        let all = ["format-help", "say-what-ran", "forgive-format-errors"];
        check(&[(Signal::FormatError, 1)], &BTreeSet::new(), 8, &all);
        check(&[(Signal::FormatError, 1)], &BTreeSet::new(), 2, &all[..2]);
        let names = ["fold-output", "shorter-observations"];
        check(&[(Signal::LongOutput, 1)], &BTreeSet::new(), 8, &names);
    }

    #[test]
    fn every_edit_fits_the_harnesses_at_hand_once_and_names_no_task() {
        let hands = include_str!("../../examples/harnesses/hands/harness.toml");
        let hands = HarnessManifest::from_toml("hands", hands).unwrap();
        for (mut harness, name) in [(HarnessManifest::bare(), "bare"), (hands, "hands")] {
            harness.limits.seconds = 900;
            // A setting is for a plugin that is there; the test below has one.
            let fits = |adjustment: &&Adjustment| !matches!(adjustment.change, Change::Set { .. });
            for adjustment in ADJUSTMENTS.iter().filter(fits) {
                let edit = adjustment.edit(&harness);
                let edit = edit.unwrap_or_else(|| panic!("{} does not fit {name}", adjustment.name));
                let edited = edit.apply(adjustment.name, None, &harness).unwrap();
                assert!(edit.holds(adjustment.name, &edited), "{}", adjustment.name);
                tandem_host::agent::check_prompts(&edited.prompts, &edited.limits).unwrap();
                // A sentence that is there is not said twice.
                let again = adjustment.edit(&edited);
                assert!(again.is_none() || matches!(edit, Edit::Limits { .. }), "{}", adjustment.name);
            }
        }
    }

    #[test]
    fn limits_are_not_moved_beyond_what_a_candidate_may_set() {
        let mut harness = HarnessManifest::bare();
        harness.limits.format_errors = 10;
        let signals = [(Signal::FormatError, 1)];
        let found = Catalog.propose(&signals, &harness, &BTreeSet::new(), 8);
        assert!(found.iter().all(|proposal| proposal.name != "forgive-format-errors"));
        // No limit is never lowered to one, and longer commands need a budget of seconds.
        harness.limits.format_errors = 0;
        let signals = [(Signal::FormatError, 1), (Signal::CommandTimeout, 1)];
        let found = Catalog.propose(&signals, &harness, &BTreeSet::new(), 8);
        let names = ["forgive-format-errors", "longer-commands"];
        assert!(found.iter().all(|proposal| !names.contains(&&*proposal.name)));
    }
}
