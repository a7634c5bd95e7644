//! How is a pool of verified tasks made from packages, whatever interrupts it?

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use sha2::{Digest, Sha256};

use super::candidates::candidates;
use super::error::MutateError;
use super::folder::put;
use super::observe::{Kit, PYTHON, Suite, suite};
use super::package::Package;
use super::report::{PackageReport, PoolReport};
use super::screen::Candidate;
use super::split::assign;
use super::state::State;
use super::work::Work;
use crate::store::write_whole;
use crate::workspace::{Snapshot, WorkspaceConfig};

/// What pool to make.
#[derive(Clone, Debug)]
pub struct Options {
    /// The folder of the pool. One that was begun is gone on with.
    pub out: PathBuf,
    /// A zip archive with pytest and all else that the tests import.
    pub archive: PathBuf,
    /// Tasks at most, over all packages.
    pub limit: usize,
    /// Tasks at most with a fault in one function.
    pub per_function: usize,
    /// Sandboxes at once.
    pub jobs: usize,
    /// Another seed tries the mutations in another order.
    pub seed: u64,
    /// Wall-clock seconds that all tests of a package may take together.
    pub suite_seconds: u64,
}

/// What happened just now.
#[derive(Clone, Debug)]
pub enum Event {
    /// The tests of a package ran as it is.
    Suite { package: String, tests: usize, flaky: usize, left_out: usize, seconds: f64 },
    /// The mutations of a package will be tried; some were by an earlier start.
    Begin { package: String, candidates: usize, tried: usize },
    /// Some more were tried.
    Step { package: String, tried: usize, kept: usize },
}

/// A package with what is known of it.
pub(super) struct Source {
    pub(super) package: Package,
    pub(super) suite: Suite,
    pub(super) files: Arc<Snapshot>,
    pub(super) candidates: Vec<Candidate>,
    /// Wall-clock seconds that this took.
    pub(super) seconds: f64,
}

impl Source {
    /// The name of a module among those of all packages.
    pub(super) fn key(&self, module: &str) -> String {
        format!("{}/{module}", self.package.name)
    }
}

/// Makes a pool, or goes on with one: the same packages and options give the same
/// tasks, in one start or in many.
///
/// # Errors
/// A package without modules or tests that pass, a folder that holds something else,
/// and trouble of the machine. What was recorded until then stays.
pub async fn build(
    packages: &[PathBuf],
    options: &Options,
    config: &WorkspaceConfig,
    on_event: &mut (dyn FnMut(Event) + Send),
) -> Result<PoolReport, MutateError> {
    let packages = packages.iter().map(|folder| Package::read(folder)).collect::<Result<Vec<_>, _>>()?;
    let mut names: BTreeMap<&str, &Path> = BTreeMap::new();
    for package in &packages {
        if let Some(first) = names.insert(&package.name, &package.folder) {
            let (first, second) = (first.to_owned(), package.folder.clone());
            return Err(MutateError::SameName { name: package.name.clone(), first, second });
        }
    }
    let archive_bytes =
        std::fs::read(&options.archive).map_err(MutateError::io("reading", &options.archive))?;
    let state = State::open(&options.out, &identity(&packages, &archive_bytes, options))?;
    let archive = state.archive(&options.archive)?;
    let kit = Kit::new(&archive, config)?;

    let mut sources = Vec::new();
    for package in packages {
        let source = observe(package, &state, &kit, options, config).await?;
        on_event(Event::Suite {
            package: source.package.name.clone(),
            tests: source.suite.tests.len(),
            flaky: source.suite.flaky.len(),
            left_out: source.suite.left_out,
            seconds: source.seconds,
        });
        sources.push(source);
    }
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for source in &sources {
        for candidate in &source.candidates {
            *counts.entry(source.key(&candidate.module)).or_default() += 1;
        }
    }
    let splits = assign(&counts);

    let mut report = PoolReport { packages: Vec::new(), modules: BTreeMap::new() };
    for (module, split) in &splits {
        report.modules.entry(split.name()).or_default().push(module.clone());
    }
    // What a small package cannot give, the larger ones after it may.
    sources.sort_by_key(|source| source.candidates.len());
    let mut left = options.limit;
    for (at, source) in sources.iter().enumerate() {
        let share = left.div_ceil(sources.len() - at);
        let work =
            Work { source, splits: &splits, state: &state, kit: &kit, archive: &archive, options, config };
        let done: PackageReport = work.run(share, on_event).await?;
        left = left.saturating_sub(done.kept());
        report.packages.push(done);
    }
    let path = options.out.join("pool.json");
    let text = serde_json::to_vec_pretty(&report).unwrap_or_default();
    write_whole(&path, &text).map_err(MutateError::io("writing", &path))?;
    Ok(report)
}

/// All that decides what a pool holds. The limit is not in it: a pool may grow.
fn identity(packages: &[Package], archive: &[u8], options: &Options) -> String {
    let mut hash = Sha256::new();
    hash.update(env!("CARGO_PKG_VERSION"));
    for (_, text) in PYTHON {
        hash.update(text);
    }
    hash.update(archive);
    hash.update(format!("{} {}", options.per_function, options.seed));
    for package in packages {
        hash.update(format!("\n{} {}\n", package.name, package.files.len()));
        for (path, bytes) in &package.files {
            hash.update(format!("{path} {}\n", bytes.len()));
            hash.update(bytes);
        }
    }
    hex::encode(hash.finalize())
}

/// Runs the package's own tests, unless an earlier start did, and lists what to try.
async fn observe(
    package: Package,
    state: &State,
    kit: &Kit,
    options: &Options,
    config: &WorkspaceConfig,
) -> Result<Source, MutateError> {
    let start = Instant::now();
    let stage = tempfile::tempdir().map_err(MutateError::io("making", Path::new("a temporary folder")))?;
    for (path, bytes) in &package.files {
        put(stage.path(), path, bytes)?;
    }
    let files = Arc::new(Snapshot::take(stage.path(), config).await?);
    let suite = match state.suite(&package.name) {
        Some(suite) => suite,
        None => {
            let found = suite(&package, kit, &files, config, options.suite_seconds).await?;
            state.keep_suite(&package.name, &found)?;
            found
        }
    };
    let candidates = candidates(&package, &suite, options.seed)?;
    Ok(Source { package, suite, files, candidates, seconds: start.elapsed().as_secs_f64() })
}
