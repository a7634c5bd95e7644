//! Which mutations of one package become tasks?

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::time::Instant;

use futures_util::StreamExt;
use futures_util::stream;

use super::edit::Change;
use super::error::MutateError;
use super::folder::Draft;
use super::observe::Kit;
use super::pool::{Event, Options, Source};
use super::report::PackageReport;
use super::screen::{Candidate, Screened, screen};
use super::split::Split;
use super::state::{Line, Record, State, Verdict};
use super::{issue, leak};
use crate::task::{Reference, Task};
use crate::workspace::WorkspaceConfig;

/// Mutations that are tried before a line of the record is written.
const CHUNK: usize = 32;

/// What was kept so far, to find what is the same.
#[derive(Default)]
struct Kept {
    changes: BTreeSet<String>,
    failing: BTreeSet<(String, String, Vec<String>)>,
    functions: HashMap<(String, String), usize>,
    count: usize,
}

impl Kept {
    /// What is recorded of a package's candidates.
    fn replay(source: &Source, record: &Record) -> Self {
        let by_id: HashMap<&str, &Candidate> =
            source.candidates.iter().map(|one| (one.id.as_str(), one)).collect();
        let mut kept = Self::default();
        for line in record.lines.iter().filter(|line| line.verdict == Verdict::Kept) {
            if let Some(candidate) = by_id.get(line.id.as_str()) {
                kept.add(candidate, change(source, candidate), line.failing.clone());
            }
        }
        kept
    }

    fn has_room(&self, candidate: &Candidate, per_function: usize) -> bool {
        self.functions.get(&function_of(candidate)).copied().unwrap_or(0) < per_function
    }

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

fn change(source: &Source, candidate: &Candidate) -> String {
    let package = &source.package;
    Change::between(&package.modules[&candidate.module], &candidate.mutated(package)).normalised()
}

fn function_of(candidate: &Candidate) -> (String, String) {
    (candidate.module.clone(), candidate.mutation.place.name.clone())
}

/// What running the tests says of a candidate.
enum Judged<'a> {
    Settled(Verdict),
    /// A task, if it is no duplicate and can be verified.
    Draft(Draft<'a>),
}

/// The work on one package.
pub(super) struct Work<'a> {
    pub(super) source: &'a Source,
    /// The split of each module of the pool.
    pub(super) splits: &'a BTreeMap<String, Split>,
    pub(super) state: &'a State,
    pub(super) kit: &'a Kit,
    pub(super) archive: &'a Path,
    pub(super) options: &'a Options,
    pub(super) config: &'a WorkspaceConfig,
}

impl Work<'_> {
    /// Tries mutations until `limit` of them are tasks. What becomes of each one depends on
    /// those before it alone, whatever runs at once and wherever an earlier start ended.
    pub(super) async fn run(
        &self,
        limit: usize,
        on_event: &mut (dyn FnMut(Event) + Send),
    ) -> Result<PackageReport, MutateError> {
        let start = Instant::now();
        let package = &self.source.package;
        let mut record = self.state.record(&package.name)?;
        let mut kept = Kept::replay(self.source, &record);
        self.remove_unrecorded(&record)?;
        let known: BTreeSet<String> = record.lines.iter().map(|line| line.id.clone()).collect();
        let mut waiting = self.source.candidates.iter().filter(|one| !known.contains(&one.id)).peekable();
        let candidates = self.source.candidates.len();
        on_event(Event::Begin { package: package.name.clone(), candidates, tried: known.len() });
        let names = leak::names(self.source.suite.tests.iter().map(|test| test.name.as_str()));

        while kept.count < limit && waiting.peek().is_some() {
            // Full functions are passed over; they would not be kept either.
            let room = |one: &&Candidate| kept.has_room(one, self.options.per_function);
            let chunk: Vec<Candidate> = waiting.by_ref().filter(room).take(CHUNK).cloned().collect();
            let screened = self.screen(&chunk).await?;
            let judged: Vec<Judged> = chunk.iter().map(|one| self.judge(one, &screened, &names)).collect();
            let verified = self.verify_ahead(&judged, &kept).await?;
            let mut lines = Vec::new();
            for ((candidate, judged), verified) in chunk.iter().zip(judged).zip(verified) {
                let mut failing = Vec::new();
                let verdict = match judged {
                    Judged::Settled(verdict) => verdict,
                    Judged::Draft(draft) => {
                        let change = change(self.source, candidate);
                        if kept.count >= limit || !kept.has_room(candidate, self.options.per_function) {
                            continue;
                        }
                        if kept.is_known(candidate, &change, &draft.fail_to_pass) {
                            Verdict::Duplicate
                        } else if match verified {
                            Some(good) => good,
                            None => self.verify(&draft).await?,
                        } {
                            self.publish(&draft)?;
                            kept.add(candidate, change, draft.fail_to_pass.clone());
                            failing = draft.fail_to_pass;
                            Verdict::Kept
                        } else {
                            Verdict::Unverified
                        }
                    }
                };
                lines.push(Line { id: candidate.id.clone(), verdict, failing });
            }
            record.append(lines)?;
            self.state.clear()?;
            on_event(Event::Step {
                package: package.name.clone(),
                tried: record.lines.len(),
                kept: kept.count,
            });
        }
        Ok(self.report(&record, start.elapsed().as_secs_f64() + self.source.seconds))
    }

    /// Tasks of a start that ended before it could record them are made again.
    fn remove_unrecorded(&self, record: &Record) -> Result<(), MutateError> {
        let recorded: BTreeSet<&str> = record
            .lines
            .iter()
            .filter(|line| line.verdict == Verdict::Kept)
            .map(|line| line.id.as_str())
            .collect();
        let of_package = format!("{}-", self.source.package.name);
        for split in Split::ALL {
            let Ok(entries) = std::fs::read_dir(self.options.out.join(split.name())) else { continue };
            for entry in entries.flatten() {
                let name = entry.file_name();
                let id = name.to_str().and_then(|name| name.strip_prefix(&of_package));
                // Another package may be named like this one with more after it.
                let ours = self.source.candidates.iter().any(|one| Some(one.id.as_str()) == id);
                if ours && id.is_some_and(|id| !recorded.contains(id)) {
                    let path = entry.path();
                    std::fs::remove_dir_all(&path).map_err(MutateError::io("removing", &path))?;
                }
            }
        }
        Ok(())
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

    fn judge<'a>(
        &'a self,
        candidate: &'a Candidate,
        screened: &BTreeMap<String, Screened>,
        names: &BTreeSet<String>,
    ) -> Judged<'a> {
        let seen = screened.get(&candidate.id).cloned().unwrap_or_default();
        if seen.timed_out {
            return Judged::Settled(Verdict::Hung);
        }
        if seen.results.is_empty() {
            return Judged::Settled(Verdict::Broken);
        }
        let passed = |test: &&String| seen.results.get(*test).is_some_and(|result| result == "passed");
        let failing: Vec<String> = candidate.tests.iter().filter(|test| !passed(test)).cloned().collect();
        if failing.is_empty() {
            return Judged::Settled(Verdict::Survived);
        }
        match self.draft(candidate, &seen, failing, names) {
            Some(draft) => Judged::Draft(draft),
            None => Judged::Settled(Verdict::NoText),
        }
    }

    fn draft<'a>(
        &'a self,
        candidate: &'a Candidate,
        seen: &Screened,
        fail_to_pass: Vec<String>,
        names: &BTreeSet<String>,
    ) -> Option<Draft<'a>> {
        let package = &self.source.package;
        let mutated = candidate.mutated(package);
        let change = Change::between(&package.modules[&candidate.module], &mutated);
        let instruction = issue::write(&package.name, package.root, &seen.examples, &change, names)?;
        let failing: BTreeSet<&String> = fail_to_pass.iter().collect();
        let touches = self.source.suite.tests.iter().filter(|test| test.ran.contains_key(&candidate.module));
        let pass_to_pass =
            touches.map(|test| &test.name).filter(|name| !failing.contains(name)).cloned().collect();
        let split = self.splits[&self.source.key(&candidate.module)];
        Some(Draft { package, candidate, split, instruction, fail_to_pass, pass_to_pass })
    }

    /// Verifies at once what will most likely be asked for: drafts that are like nothing
    /// before them.
    async fn verify_ahead(
        &self,
        judged: &[Judged<'_>],
        kept: &Kept,
    ) -> Result<Vec<Option<bool>>, MutateError> {
        let mut before = Kept::default();
        let mut fresh: Vec<Option<&Draft>> = Vec::new();
        for one in judged {
            let Judged::Draft(draft) = one else {
                fresh.push(None);
                continue;
            };
            let change = change(self.source, draft.candidate);
            let (candidate, failing) = (draft.candidate, &draft.fail_to_pass);
            let known = |kept: &Kept| kept.is_known(candidate, &change, failing);
            if known(kept) || known(&before) {
                fresh.push(None);
            } else {
                before.add(candidate, change, failing.clone());
                fresh.push(Some(draft));
            }
        }
        let mut verdicts = vec![None; fresh.len()];
        let runs = fresh.into_iter().enumerate().filter_map(|(at, draft)| Some((at, draft?)));
        let runs = runs.map(|(at, draft)| async move { (at, self.verify(draft).await) });
        let done: Vec<_> = stream::iter(runs).buffer_unordered(self.options.jobs).collect().await;
        for (at, verdict) in done {
            verdicts[at] = Some(verdict?);
        }
        Ok(verdicts)
    }

    /// Writes the task aside and judges reference and empty patch as anybody would.
    async fn verify(&self, draft: &Draft<'_>) -> Result<bool, MutateError> {
        let folder = self.state.unfinished(&draft.name());
        draft.write(&folder, self.archive)?;
        let task = Task::load(&folder)?;
        let Some(Reference::Patch(reference)) = task.reference()? else { return Ok(false) };
        // Trouble of the machine says nothing of a task: it is asked once more.
        let ask = async |patch: &[u8]| match task.verify(patch, self.config).await {
            Ok(verdict) => Some(verdict),
            Err(_) => task.verify(patch, self.config).await.ok(),
        };
        if !ask(&reference).await.is_some_and(|good| good.solved) {
            return Ok(false);
        }
        let Some(bad) = ask(b"").await else { return Ok(false) };
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
                let split = self.splits[&self.source.key(&one.module)];
                *report.splits.entry(split.name()).or_default() += 1;
            }
        }
        report
    }
}
