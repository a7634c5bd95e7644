//! Which tests does a mutation break, and what can be seen of it?

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::error::MutateError;
use super::mutations::Mutation;
use super::observe::{Kit, Suite};
use super::package::Package;
use crate::workspace::{Snapshot, WorkspaceConfig};

/// A mutation with what is needed to try it.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    /// Ten hex digits, made from the package's name, the module and the edit.
    pub(super) id: String,
    pub(super) module: String,
    pub(super) mutation: Mutation,
    /// Tests that run the changed function.
    pub(super) tests: Vec<String>,
    /// Seconds of processor time that those may take.
    pub(super) seconds: u64,
}

impl Candidate {
    /// The module after the edit; made when asked for, as there are thousands of candidates.
    pub(super) fn mutated(&self, package: &Package) -> String {
        self.mutation.edit.apply(&package.modules[&self.module])
    }
}

/// What was seen of a mutation.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct Screened {
    id: String,
    #[serde(default)]
    pub(super) results: BTreeMap<String, String>,
    #[serde(default)]
    pub(super) examples: Vec<Example>,
    #[serde(default)]
    pub(super) timed_out: bool,
}

/// A call that somebody can make, what it gives, and what it should give.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Example {
    /// Lines before the call: imports first.
    pub(super) setup: Vec<String>,
    pub(super) call: String,
    /// `value`, `true`, `false`, `raise` or `no error`.
    pub(super) want: String,
    /// The value or the exception, where there is one.
    #[serde(default)]
    pub(super) value: Option<String>,
    /// The value that came.
    #[serde(default)]
    pub(super) gave: Option<String>,
    /// Its type, where its text is not the same each time.
    #[serde(default)]
    pub(super) gave_type: Option<String>,
    /// The exception that came, with its message.
    #[serde(default)]
    pub(super) raised: Option<String>,
    pub(super) test: String,
}

/// Tries candidates one after the other in one sandbox. One without a result was
/// lost with its process.
pub(super) async fn screen(
    candidates: &[Candidate],
    package: &Package,
    suite: &Suite,
    kit: &Kit,
    files: &Arc<Snapshot>,
    config: &WorkspaceConfig,
) -> Result<BTreeMap<String, Screened>, MutateError> {
    let jobs: Vec<_> = candidates
        .iter()
        .map(|one| json!({"id": one.id, "path": one.module, "tests": one.tests, "seconds": one.seconds}))
        .collect();
    let plan = json!({"roots": [package.root], "standard": suite.standard, "jobs": jobs});
    let sources: Vec<(String, String)> =
        candidates.iter().map(|one| (one.id.clone(), one.mutated(package))).collect();
    let limit = 60 + 10 * candidates.iter().map(|one| one.seconds).sum::<u64>();
    let answer = kit.observe("screen", plan, &sources, files, config, limit).await?;
    let read = answer.text.lines().filter_map(|line| serde_json::from_str::<Screened>(line).ok());
    Ok(read.map(|one| (one.id.clone(), one)).collect())
}
