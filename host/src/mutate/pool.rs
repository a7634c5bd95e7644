//! How is a pool of verified tasks made from packages, whatever interrupts it?

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use futures_util::StreamExt;
use futures_util::stream;
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::edit::Change;
use super::error::MutateError;
use super::folder::{Draft, put};
use super::mutations::mutations;
use super::observe::{Kit, RUNNER, Suite, suite};
use super::package::Package;
use super::screen::{Candidate, Screened, screen};
use super::split::{Split, assign};
use super::state::{Line, Record, State, Verdict};
use super::{issue, leak};
use crate::store::write_whole;
use crate::task::{Reference, Task};
use crate::workspace::{Snapshot, WorkspaceConfig};

/// Mutations that share one sandbox.
const BATCH: usize = 16;

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

/// What came of a package.
#[derive(Clone, Debug, Serialize)]
pub struct PackageReport {
    pub package: String,
    /// Modules with mutations that a test runs.
    pub modules: usize,
    /// Tests that can be relied on.
    pub tests: usize,
    pub flaky: usize,
    pub candidates: usize,
    /// Mutations by what became of them.
    pub verdicts: BTreeMap<&'static str, usize>,
    /// Tasks by kind of fault.
    pub kinds: BTreeMap<&'static str, usize>,
    /// Tasks by split.
    pub splits: BTreeMap<&'static str, usize>,
    /// Wall-clock seconds of this start.
    pub seconds: f64,
}

impl PackageReport {
    /// Its tasks.
    pub fn kept(&self) -> usize {
        self.verdicts.get(Verdict::Kept.name()).copied().unwrap_or(0)
    }
}

/// What came of a pool. Its `Display` is a table.
#[derive(Clone, Debug, Serialize)]
pub struct PoolReport {
    pub packages: Vec<PackageReport>,
    /// The modules of each split.
    pub modules: BTreeMap<&'static str, Vec<String>>,
}

impl PoolReport {
    /// All tasks.
    pub fn kept(&self) -> usize {
        self.packages.iter().map(PackageReport::kept).sum()
    }
}

/// A package with what is known of it.
struct Source {
    package: Package,
    suite: Suite,
    files: Arc<Snapshot>,
    candidates: Vec<Candidate>,
    seconds: f64,
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
            *counts.entry(module_key(&source.package, &candidate.module)).or_default() += 1;
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
        let done = work.run(share, on_event).await?;
        left = left.saturating_sub(done.kept());
        report.packages.push(done);
    }
    let path = options.out.join("pool.json");
    let text = serde_json::to_vec_pretty(&report).unwrap_or_default();
    write_whole(&path, &text).map_err(MutateError::io("writing", &path))?;
    Ok(report)
}

fn module_key(package: &Package, module: &str) -> String {
    format!("{}/{module}", package.name)
}

/// All that decides what a pool holds. The limit is not in it: a pool may grow.
fn identity(packages: &[Package], archive: &[u8], options: &Options) -> String {
    let mut hash = Sha256::new();
    hash.update(RUNNER);
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

/// Every mutation that a test runs, one of each function before the second of any.
fn candidates(package: &Package, suite: &Suite, seed: u64) -> Result<Vec<Candidate>, MutateError> {
    let draw = |text: &str| Sha256::digest(format!("{seed} {} {text}", package.name));
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
            if tests.is_empty() {
                continue;
            }
            let edit = &mutation.edit;
            let (start, end) = (edit.range.start, edit.range.end);
            let id = Sha256::digest(format!("{} {module} {start} {end} {}", package.name, edit.text));
            let function = draw(&format!("{module} {} {}", place.name, place.first_line)).to_vec();
            functions.entry(function).or_default().push(Candidate {
                id: hex::encode(&id[..5]),
                module: module.clone(),
                mutated: edit.apply(source),
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

/// What was kept so far, to find what is the same.
#[derive(Default)]
struct Kept {
    changes: BTreeSet<String>,
    failing: BTreeSet<(String, String, Vec<String>)>,
    functions: HashMap<(String, String), usize>,
    count: usize,
}

impl Kept {
    fn is_known(&self, candidate: &Candidate, change: &str, failing: &[String]) -> bool {
        let (module, function) = function_of(candidate);
        self.changes.contains(change) || self.failing.contains(&(module, function, failing.to_vec()))
    }

    fn add(&mut self, candidate: &Candidate, change: String, failing: Vec<String>) {
        let (module, function) = function_of(candidate);
        *self.functions.entry((module.clone(), function.clone())).or_default() += 1;
        self.changes.insert(change);
        self.failing.insert((module, function, failing));
        self.count += 1;
    }
}

fn function_of(candidate: &Candidate) -> (String, String) {
    (candidate.module.clone(), candidate.mutation.place.name.clone())
}

/// The work on one package.
struct Work<'a> {
    source: &'a Source,
    splits: &'a BTreeMap<String, Split>,
    state: &'a State,
    kit: &'a Kit,
    archive: &'a Path,
    options: &'a Options,
    config: &'a WorkspaceConfig,
}

impl Work<'_> {
    async fn run(
        &self,
        limit: usize,
        on_event: &mut (dyn FnMut(Event) + Send),
    ) -> Result<PackageReport, MutateError> {
        let start = Instant::now();
        let package = &self.source.package;
        let mut record = self.state.record(&package.name)?;
        let mut kept = self.replay(&record);
        let known: BTreeSet<String> = record.lines.iter().map(|line| line.id.clone()).collect();
        let mut waiting = self.source.candidates.iter().filter(|one| !known.contains(&one.id)).peekable();
        let candidates = self.source.candidates.len();
        on_event(Event::Begin { package: package.name.clone(), candidates, tried: known.len() });
        let names = leak::names(self.source.suite.tests.iter().map(|test| test.name.as_str()));

        while kept.count < limit && waiting.peek().is_some() {
            // Full functions are passed over; they would not be kept either.
            let room = |one: &&Candidate| {
                kept.functions.get(&function_of(one)).copied().unwrap_or(0) < self.options.per_function
            };
            let chunk: Vec<Candidate> =
                waiting.by_ref().filter(room).take(BATCH * self.options.jobs).cloned().collect();
            let screened = self.screen(&chunk).await?;
            let (mut lines, drafts) = self.choose(&chunk, &screened, &kept, &names);
            let verified: Vec<Result<bool, MutateError>> =
                stream::iter(drafts.iter().map(|draft| self.verify(draft)))
                    .buffered(self.options.jobs)
                    .collect()
                    .await;
            for (draft, good) in drafts.into_iter().zip(verified) {
                let candidate = draft.candidate;
                let verdict = if good? { Verdict::Kept } else { Verdict::Unverified };
                let full = kept.count >= limit || !room_in(&kept, candidate, self.options.per_function);
                if verdict == Verdict::Kept && full {
                    continue;
                }
                let failing = if verdict == Verdict::Kept { draft.fail_to_pass.clone() } else { Vec::new() };
                if verdict == Verdict::Kept {
                    self.publish(&draft)?;
                    kept.add(candidate, self.change(candidate), draft.fail_to_pass);
                }
                lines.push(Line { id: candidate.id.clone(), verdict, failing });
            }
            record.append(lines)?;
            on_event(Event::Step {
                package: package.name.clone(),
                tried: record.lines.len(),
                kept: kept.count,
            });
        }
        Ok(self.report(&record, start.elapsed().as_secs_f64() + self.source.seconds))
    }

    /// What earlier starts kept.
    fn replay(&self, record: &Record) -> Kept {
        let by_id: HashMap<&str, &Candidate> =
            self.source.candidates.iter().map(|one| (one.id.as_str(), one)).collect();
        let mut kept = Kept::default();
        for line in record.lines.iter().filter(|line| line.verdict == Verdict::Kept) {
            if let Some(candidate) = by_id.get(line.id.as_str()) {
                kept.add(candidate, self.change(candidate), line.failing.clone());
            }
        }
        kept
    }

    fn change(&self, candidate: &Candidate) -> String {
        Change::between(&self.source.package.modules[&candidate.module], &candidate.mutated).normalised()
    }

    async fn screen(&self, chunk: &[Candidate]) -> Result<BTreeMap<String, Screened>, MutateError> {
        let Source { package, suite, files, .. } = self.source;
        let size = chunk.len().div_ceil(self.options.jobs).max(1);
        let batches =
            chunk.chunks(size).map(|part| screen(part, package, suite, self.kit, files, self.config));
        let found: Vec<_> = stream::iter(batches).buffered(self.options.jobs).collect().await;
        let mut all = BTreeMap::new();
        for part in found {
            all.extend(part?);
        }
        Ok(all)
    }

    /// Judges what was seen, in the order of the candidates.
    fn choose<'a>(
        &'a self,
        chunk: &'a [Candidate],
        screened: &BTreeMap<String, Screened>,
        kept: &Kept,
        names: &BTreeSet<String>,
    ) -> (Vec<Line>, Vec<Draft<'a>>) {
        let (mut lines, mut drafts): (Vec<Line>, Vec<Draft>) = (Vec::new(), Vec::new());
        let mut fresh = Kept::default();
        for candidate in chunk {
            let seen = screened.get(&candidate.id).cloned().unwrap_or_default();
            let passed = |test: &&String| seen.results.get(*test).is_some_and(|result| result == "passed");
            let failing: Vec<String> = candidate.tests.iter().filter(|test| !passed(test)).cloned().collect();
            let change = self.change(candidate);
            let verdict = if seen.timed_out {
                Verdict::Hung
            } else if seen.results.is_empty() {
                Verdict::Broken
            } else if failing.is_empty() {
                Verdict::Survived
            } else if kept.is_known(candidate, &change, &failing)
                || fresh.is_known(candidate, &change, &failing)
            {
                Verdict::Duplicate
            } else if let Some(draft) = self.draft(candidate, &seen, failing.clone(), names) {
                fresh.add(candidate, change, failing);
                drafts.push(draft);
                continue;
            } else {
                Verdict::NoText
            };
            lines.push(Line { id: candidate.id.clone(), verdict, failing: Vec::new() });
        }
        (lines, drafts)
    }

    fn draft<'a>(
        &'a self,
        candidate: &'a Candidate,
        seen: &Screened,
        fail_to_pass: Vec<String>,
        names: &BTreeSet<String>,
    ) -> Option<Draft<'a>> {
        let package = &self.source.package;
        let change = Change::between(&package.modules[&candidate.module], &candidate.mutated);
        let instruction = issue::write(&package.name, &seen.examples, &change, names)?;
        let failing: BTreeSet<&String> = fail_to_pass.iter().collect();
        let touches = self.source.suite.tests.iter().filter(|test| test.ran.contains_key(&candidate.module));
        let (mut pass_to_pass, mut seconds) = (Vec::new(), 0.0);
        for test in touches {
            seconds += test.seconds;
            if !failing.contains(&test.name) {
                pass_to_pass.push(test.name.clone());
            }
        }
        let split = self.splits[&module_key(package, &candidate.module)];
        let seconds = 60 + (10.0 * seconds) as u64;
        Some(Draft { package, candidate, split, instruction, fail_to_pass, pass_to_pass, seconds })
    }

    /// Writes the task aside and judges reference and empty patch as anybody would.
    async fn verify(&self, draft: &Draft<'_>) -> Result<bool, MutateError> {
        let folder = self.state.unfinished(&draft.name());
        draft.write(&folder, self.archive)?;
        let task = Task::load(&folder)?;
        let Some(Reference::Patch(reference)) = task.reference()? else { return Ok(false) };
        let Ok(good) = task.verify(&reference, self.config).await else { return Ok(false) };
        if !good.solved {
            return Ok(false);
        }
        let Ok(bad) = task.verify(b"", self.config).await else { return Ok(false) };
        let expected = format!(
            "missed {0} of {0} FAIL_TO_PASS and 0 of {1} PASS_TO_PASS",
            draft.fail_to_pass.len(),
            draft.pass_to_pass.len()
        );
        Ok(!bad.solved && bad.output.contains(&expected))
    }

    fn publish(&self, draft: &Draft) -> Result<(), MutateError> {
        let parent = self.options.out.join(draft.split.name());
        std::fs::create_dir_all(&parent).map_err(MutateError::io("making", &parent))?;
        let place = parent.join(draft.name());
        if place.exists() {
            // An earlier start ended before it could record this one.
            std::fs::remove_dir_all(&place).map_err(MutateError::io("removing", &place))?;
        }
        std::fs::rename(self.state.unfinished(&draft.name()), &place)
            .map_err(MutateError::io("moving to", &place))
    }

    fn report(&self, record: &Record, seconds: f64) -> PackageReport {
        let package = &self.source.package;
        let by_id: HashMap<&str, &Candidate> =
            self.source.candidates.iter().map(|one| (one.id.as_str(), one)).collect();
        let modules: BTreeSet<&str> = self.source.candidates.iter().map(|one| one.module.as_str()).collect();
        let mut report = PackageReport {
            package: package.name.clone(),
            modules: modules.len(),
            tests: self.source.suite.tests.len(),
            flaky: self.source.suite.flaky.len(),
            candidates: self.source.candidates.len(),
            verdicts: BTreeMap::new(),
            kinds: BTreeMap::new(),
            splits: BTreeMap::new(),
            seconds,
        };
        for line in &record.lines {
            *report.verdicts.entry(line.verdict.name()).or_default() += 1;
            if let Some(one) = by_id.get(line.id.as_str()).filter(|_| line.verdict == Verdict::Kept) {
                *report.kinds.entry(one.mutation.kind.name()).or_default() += 1;
                let split = self.splits[&module_key(package, &one.module)];
                *report.splits.entry(split.name()).or_default() += 1;
            }
        }
        report
    }
}

fn room_in(kept: &Kept, candidate: &Candidate, per_function: usize) -> bool {
    kept.functions.get(&function_of(candidate)).copied().unwrap_or(0) < per_function
}

impl fmt::Display for PoolReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.packages.iter().map(|one| one.package.len()).max().unwrap_or(0).max(8);
        write!(f, "{:width$}  {:>7}  {:>6}  {:>10}", "package", "modules", "tests", "candidates")?;
        for verdict in Verdict::ALL {
            write!(f, "  {:>10}", verdict.name())?;
        }
        writeln!(f, "  {:>7}", "seconds")?;
        for one in &self.packages {
            write!(
                f,
                "{:width$}  {:>7}  {:>6}  {:>10}",
                one.package, one.modules, one.tests, one.candidates
            )?;
            for verdict in Verdict::ALL {
                write!(f, "  {:>10}", one.verdicts.get(verdict.name()).copied().unwrap_or(0))?;
            }
            writeln!(f, "  {:>7.0}", one.seconds)?;
        }
        write!(f, "\n{} tasks:", self.kept())?;
        for split in Split::ALL {
            let tasks: usize = self.packages.iter().filter_map(|one| one.splits.get(split.name())).sum();
            let modules = self.modules.get(split.name()).map_or(0, Vec::len);
            write!(f, " {} {tasks} (of {modules} modules)", split.name())?;
        }
        Ok(())
    }
}
