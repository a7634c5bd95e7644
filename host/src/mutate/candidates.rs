//! Which mutations of a package are tried, and in which order?

use std::collections::{BTreeMap, BTreeSet};

use sha2::{Digest, Sha256};

use super::copies::Copies;
use super::error::MutateError;
use super::mutations::mutations;
use super::observe::Suite;
use super::package::Package;
use super::screen::Candidate;

/// Every mutation that a test runs and no copy of the lines gives away; one of each function
/// before the second of any.
pub(super) fn candidates(package: &Package, suite: &Suite, seed: u64) -> Result<Vec<Candidate>, MutateError> {
    let draw = |text: &str| Sha256::digest(format!("{seed} {} {text}", package.name));
    let copies = Copies::of(package);
    let mut functions: BTreeMap<Vec<u8>, Vec<Candidate>> = BTreeMap::new();
    for (module, source) in &package.modules {
        for mutation in mutations(source)? {
            let place = &mutation.place;
            let runs = suite.tests.iter().filter(|test| test.runs(module, place));
            let (mut tests, mut seconds) = (Vec::new(), 0.0);
            for test in runs {
                tests.push(test.name.clone());
                seconds += test.seconds;
            }
            let edit = &mutation.edit;
            if tests.is_empty() || copies.hold(source, edit) {
                continue;
            }
            let (start, end) = (edit.range.start, edit.range.end);
            let id = Sha256::digest(format!("{} {module} {start} {end} {}", package.name, edit.text));
            let function = draw(&format!("{module} {} {}", place.name, place.first_line)).to_vec();
            functions.entry(function).or_default().push(Candidate {
                id: hex::encode(&id[..5]),
                module: module.clone(),
                mutation,
                tests,
                seconds: 3 + (4.0 * seconds) as u64,
            });
        }
    }
    let mut ranked = Vec::new();
    for (function, mut inside) in functions {
        inside.sort_by_key(|one| draw(&one.id).to_vec());
        ranked.extend(inside.into_iter().enumerate().map(|(rank, one)| ((rank, function.clone()), one)));
    }
    ranked.sort_by(|left, right| left.0.cmp(&right.0));
    let mut seen = BTreeSet::new();
    Ok(ranked.into_iter().map(|(_, one)| one).filter(|one| seen.insert(one.id.clone())).collect())
}
