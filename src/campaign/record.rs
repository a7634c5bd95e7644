//! What has a run done so far? The run record: SQLite, one writer, many readers.
//!
//! Invariants: what happened is an event, and all tables are made from the events; an episode's id is
//! decided before it runs and is the primary key, so nothing is counted twice; an event is committed
//! before anything depends on it, so nothing recorded is lost to `kill -9`; a phase that has its row is
//! never run again; who only reads never holds the writer up.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rusqlite::{Connection, OpenFlags, OptionalExtension, params};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tandem_host::agent::{EpisodeRecord, Exit, Outcome, skill_of};
use tandem_host::forge::Language;
use tandem_host::harness::HarnessManifest;
use tandem_host::store::{BlobStore, Digest};

use super::events::{self, Event};
use super::lock::RunLock;
use super::{layout2, projections};

/// The layout that this program reads and writes; it upgrades the one before.
pub(super) const LAYOUT: i64 = 3;

/// Which use an episode was collected for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Arm {
    /// Training groups without a skill: the first episodes, which rates are counted from.
    Collect,
    /// Training groups with a skill.
    Skill,
    /// Further episodes of training groups that taught nothing.
    TopUp,
    /// First look for tasks that are never solved.
    Probe,
    /// A cheap look at candidates before a gate, or the variants of a harness step.
    Screen,
    /// Tasks that are asked rarely.
    Holdout,
    GateIncumbent,
    GateCandidate,
    /// A cell of the final table.
    Evaluate,
}

impl Arm {
    pub fn name(self) -> &'static str {
        match self {
            Self::Collect => "collect",
            Self::Skill => "skill",
            Self::TopUp => "top-up",
            Self::Probe => "probe",
            Self::Screen => "screen",
            Self::Holdout => "holdout",
            Self::GateIncumbent => "gate-incumbent",
            Self::GateCandidate => "gate-candidate",
            Self::Evaluate => "evaluate",
        }
    }
}

/// Where an episode belongs.
#[derive(Clone, Debug)]
pub struct Place {
    pub round: u32,
    pub arm: Arm,
    /// Episodes with one key are a group.
    pub group: String,
}

/// What a run keeps of an episode at hand; the record itself is a blob.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EpisodeRow {
    pub id: String,
    pub round: u32,
    pub arm: String,
    pub task: String,
    pub group: String,
    pub policy_version: u64,
    pub harness: Digest,
    /// Of the text of the skill that the policy was shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skill: Option<Digest>,
    pub outcome: String,
    pub exit: String,
    pub turns: u64,
    pub sampled_tokens: u64,
    pub effects: u64,
    pub faults: u64,
    pub seconds: f64,
    pub record: Digest,
    /// Whether turns and tokens of the record were given up for room.
    #[serde(skip)]
    pub thinned: bool,
}

impl EpisodeRow {
    pub fn solved(&self) -> bool {
        self.outcome == "solved"
    }

    pub fn valid(&self) -> bool {
        !self.outcome.starts_with("invalid")
    }

    /// Whether it ended without a verdict by something else than its harness.
    pub fn lost(&self) -> bool {
        !self.valid() && self.outcome != "invalid:harness"
    }
}

/// The source that a plugin was built from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceRow {
    pub digest: Digest,
    pub language: Language,
}

/// An accepted harness, in the order of publication.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Publication {
    pub round: u32,
    pub digest: Digest,
    pub reason: String,
}

/// The record of one run.
pub struct RunRecord {
    connection: Mutex<Connection>,
    blobs: BlobStore,
    folder: PathBuf,
}

impl RunRecord {
    /// Opens the record in the run folder, making it if it is not there: for who works on the run. A record
    /// of the layout before is upgraded.
    pub fn open(run: &Path) -> Result<Self> {
        let flags = OpenFlags::default();
        let mut connection = connect(run, flags)?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        // FULL: a committed episode survives a power cut, not only a kill.
        connection.pragma_update(None, "synchronous", "FULL")?;
        prepare(&mut connection, run)?;
        sweep(&[run, &run.join("blobs"), &run.join("verdicts")]);
        Self::over(connection, run)
    }

    /// Opens the record of a run to read it, whoever works on it at the moment.
    ///
    /// # Errors
    /// A folder without a record; one that another program version works on.
    pub fn read(run: &Path) -> Result<Self> {
        let mut connection = connect(run, OpenFlags::default() & !OpenFlags::SQLITE_OPEN_CREATE)?;
        let current = layout(&connection)? == Some(LAYOUT) && projections::are_current(&connection)?;
        if !current {
            let _lock = RunLock::take(run, Duration::ZERO).context(
                "the run record is that of another program version, and is upgraded when nothing works on the run",
            )?;
            prepare(&mut connection, run)?;
        }
        connection.pragma_update(None, "query_only", true)?;
        Self::over(connection, run)
    }

    fn over(connection: Connection, run: &Path) -> Result<Self> {
        let blobs = BlobStore::open(run.join("blobs"))?;
        Ok(Self { connection: Mutex::new(connection), blobs, folder: run.to_owned() })
    }

    /// The run folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The blobs of the run: components, sources, episode records.
    pub fn blobs(&self) -> &BlobStore {
        &self.blobs
    }

    pub(super) fn connection(&self) -> std::sync::MutexGuard<'_, Connection> {
        // A panic while the lock is held leaves SQLite itself consistent.
        self.connection.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Records an episode. An id that is there already is left as it is.
    pub fn add_episode(&self, place: &Place, episode: &EpisodeRecord) -> Result<()> {
        let record = self.blobs.put(&serde_json::to_vec(episode)?)?;
        self.append(|tables| {
            let known = "SELECT 1 FROM episode WHERE id = ?1";
            if tables.prepare_cached(known)?.exists([&episode.id])? {
                return Ok(Vec::new());
            }
            Ok(vec![Event::Episode(row_of(place, episode, record))])
        })?;
        Ok(())
    }

    /// All episodes in the order in which they were recorded.
    pub fn episodes(&self) -> Result<Vec<EpisodeRow>> {
        let connection = self.connection();
        let mut statement = connection.prepare(
            "SELECT id, round, arm, task, group_key, policy_version, harness, outcome, exit, turns,
                    sampled_tokens, effects, faults, record, seconds, skill, thinned FROM episode ORDER BY rowid",
        )?;
        let rows = statement.query_map([], |row| {
            Ok(EpisodeRow {
                id: row.get(0)?,
                round: row.get(1)?,
                arm: row.get(2)?,
                task: row.get(3)?,
                group: row.get(4)?,
                policy_version: row.get(5)?,
                harness: digest_column(row, 6)?,
                outcome: row.get(7)?,
                exit: row.get(8)?,
                turns: row.get(9)?,
                sampled_tokens: row.get(10)?,
                effects: row.get(11)?,
                faults: row.get(12)?,
                record: digest_column(row, 13)?,
                seconds: row.get(14)?,
                skill: row.get::<_, Option<String>>(15)?.map(|_| digest_column(row, 15)).transpose()?,
                thinned: row.get(16)?,
            })
        })?;
        rows.collect::<Result<_, _>>().context("the run record holds an episode that cannot be read")
    }

    /// Ids that need not be run again.
    pub fn episode_ids(&self) -> Result<BTreeSet<String>> {
        let connection = self.connection();
        let mut statement = connection.prepare("SELECT id FROM episode")?;
        let ids = statement.query_map([], |row| row.get(0))?;
        Ok(ids.collect::<Result<_, _>>()?)
    }

    /// The whole record of an episode.
    ///
    /// # Errors
    /// When its turns were given up, or the blob cannot be read.
    pub fn episode(&self, row: &EpisodeRow) -> Result<EpisodeRecord> {
        if row.thinned {
            bail!(
                "the turns of episode {} were given up for room\nhelp: take a newer one; `retention.transcripts` says how many rounds keep theirs",
                row.id
            );
        }
        self.episode_facts(row)
    }

    /// Whether an episode's record is this blob.
    pub(super) fn names_record(&self, digest: &Digest) -> Result<bool> {
        let named = "SELECT 1 FROM episode WHERE record = ?1";
        Ok(self.connection().prepare_cached(named)?.exists([digest.to_string()])?)
    }

    /// The record of an episode, which lacks messages, calls and tokens where its turns were given up.
    pub fn episode_facts(&self, row: &EpisodeRow) -> Result<EpisodeRecord> {
        let bytes = self.blobs.get(&row.record)?;
        serde_json::from_slice(&bytes)
            .with_context(|| format!("the record of episode {} cannot be read", row.id))
    }

    /// Harness digest by group, for groups that have begun: a group keeps its harness (contract rule 7).
    pub fn group_harnesses(&self) -> Result<BTreeMap<String, Digest>> {
        Ok(self.episodes()?.into_iter().map(|row| (row.group, row.harness)).collect())
    }

    /// Keeps a harness manifest as a blob: its canonical JSON has the harness digest.
    pub fn add_harness(&self, manifest: &HarnessManifest) -> Result<Digest> {
        Ok(self.blobs.put(manifest.canonical_json().as_bytes())?)
    }

    /// A kept harness.
    pub fn harness(&self, digest: &Digest) -> Result<HarnessManifest> {
        let json = self.blobs.get(digest).with_context(|| format!("the run has no harness {digest}"))?;
        Ok(HarnessManifest::from_json(&format!("harness {digest}"), &json)?)
    }

    /// Records a publication.
    pub fn publish(&self, publication: &Publication) -> Result<()> {
        self.append(|_| Ok(vec![Event::Published(publication.clone())]))?;
        Ok(())
    }

    pub fn publications(&self) -> Result<Vec<Publication>> {
        let connection = self.connection();
        let mut statement =
            connection.prepare("SELECT round, digest, reason FROM publication ORDER BY seq")?;
        let rows = statement.query_map([], |row| {
            Ok(Publication { round: row.get(0)?, digest: digest_column(row, 1)?, reason: row.get(2)? })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// The harnesses that the newest one was made from, oldest first, and itself. What was published and
    /// taken back by a later publication of an earlier harness is not among them.
    pub fn ancestry(&self) -> Result<Vec<Digest>> {
        let mut line: Vec<Digest> = Vec::new();
        for publication in self.publications()? {
            match line.iter().position(|digest| *digest == publication.digest) {
                Some(at) => line.truncate(at + 1),
                None => line.push(publication.digest),
            }
        }
        Ok(line)
    }

    /// Keeps where a plugin came from.
    pub fn add_source(&self, plugin: &Digest, source: &SourceRow, name: &str) -> Result<()> {
        self.append(|tables| {
            if tables
                .prepare_cached("SELECT 1 FROM source WHERE plugin = ?1")?
                .exists([plugin.to_string()])?
            {
                return Ok(Vec::new());
            }
            Ok(vec![Event::Built {
                plugin: *plugin,
                source: source.digest,
                language: source.language.name().to_owned(),
                name: name.to_owned(),
            }])
        })?;
        Ok(())
    }

    /// The source of a plugin that this run built.
    pub fn source_of(&self, plugin: &Digest) -> Result<Option<SourceRow>> {
        let found: Option<(String, String)> = self
            .connection()
            .query_row("SELECT source, language FROM source WHERE plugin = ?1", [plugin.to_string()], |row| {
                Ok((row.get(0)?, row.get(1)?))
            })
            .optional()?;
        let Some((digest, language)) = found else { return Ok(None) };
        let language = Language::named(&language).with_context(|| {
            format!("the source of {plugin} is in `{language}`, which this program does not know")
        })?;
        Ok(Some(SourceRow { digest: digest.parse()?, language }))
    }

    /// Ends a phase: its report is there from now on, and it is not run again.
    pub fn end_phase<T: Serialize>(&self, round: u32, name: &str, report: &T) -> Result<()> {
        let event = phase_event(round, name, report)?;
        self.append(|_| Ok(vec![event]))?;
        Ok(())
    }

    /// Ends a gate and publishes what it accepted, both or neither.
    pub fn end_gate<T: Serialize>(
        &self,
        round: u32,
        name: &str,
        report: &T,
        publication: Option<&Publication>,
    ) -> Result<()> {
        let published = publication.cloned().map(Event::Published);
        let events = [phase_event(round, name, report)?].into_iter().chain(published).collect();
        self.append(|_| Ok(events))?;
        Ok(())
    }

    /// The report of a phase that has ended.
    pub fn phase<T: DeserializeOwned>(&self, round: u32, name: &str) -> Result<Option<T>> {
        let found: Option<String> = self
            .connection()
            .query_row(
                "SELECT report FROM phase WHERE round = ?1 AND name = ?2",
                params![round, name],
                |row| row.get(0),
            )
            .optional()?;
        found
            .map(|text| {
                serde_json::from_str(&text)
                    .with_context(|| format!("phase {name} of round {round} cannot be read"))
            })
            .transpose()
    }

    /// Reports of all phases whose name starts with `prefix`, by round and name.
    pub fn phases<T: DeserializeOwned>(&self, prefix: &str) -> Result<Vec<(u32, String, T)>> {
        let connection = self.connection();
        let mut statement =
            connection.prepare("SELECT round, name, report FROM phase ORDER BY round, name")?;
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        let mut found = Vec::new();
        for row in rows {
            let (round, name, report): (u32, String, String) = row?;
            if name.starts_with(prefix) {
                let report = serde_json::from_str(&report)
                    .with_context(|| format!("phase {name} of round {round} cannot be read"))?;
                found.push((round, name, report));
            }
        }
        Ok(found)
    }
}

/// Removes what a program that was killed had half written, an hour later at the earliest: until then it
/// may be another program's that is writing.
fn sweep(folders: &[&Path]) {
    for entry in folders.iter().filter_map(|folder| std::fs::read_dir(folder).ok()).flatten().flatten() {
        let half = entry.file_name().to_string_lossy().starts_with(".new-");
        let age = entry.metadata().ok().and_then(|meta| meta.modified().ok()?.elapsed().ok());
        if half && age.is_some_and(|age| age > Duration::from_secs(3600)) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

fn connect(run: &Path, flags: OpenFlags) -> Result<Connection> {
    let path = run.join("run.sqlite");
    let connection = Connection::open_with_flags(&path, flags)
        .with_context(|| format!("the run record {} cannot be opened", path.display()))?;
    connection.busy_timeout(Duration::from_secs(30))?;
    Ok(connection)
}

/// The layout of a record; none in an empty file.
fn layout(connection: &Connection) -> Result<Option<i64>> {
    let there = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'meta'";
    if !connection.prepare(there)?.exists([])? {
        return Ok(None);
    }
    let text: Option<String> = connection
        .query_row("SELECT value FROM meta WHERE key = 'schema'", [], |row| row.get(0))
        .optional()?;
    Ok(text.map(|text| text.parse().unwrap_or(-1)))
}

/// Notes the layout where every program version looks for it.
pub(super) fn write_layout(connection: &Connection, layout: i64) -> Result<()> {
    connection
        .execute_batch("CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL)")?;
    connection
        .execute("INSERT OR REPLACE INTO meta (key, value) VALUES ('schema', ?1)", [layout.to_string()])?;
    Ok(())
}

/// Brings a record to this layout and its tables to this program.
fn prepare(connection: &mut Connection, run: &Path) -> Result<()> {
    let path = run.join("run.sqlite");
    let found =
        layout(connection).with_context(|| format!("the run record {} is not one", path.display()))?;
    match found {
        None => {
            let transaction = connection.transaction()?;
            transaction.execute_batch(events::SCHEMA)?;
            projections::create(&transaction)?;
            write_layout(&transaction, LAYOUT)?;
            transaction.commit()?;
        }
        Some(2) => layout2::upgrade(connection).with_context(|| {
            format!("the run record {} was not upgraded and is as it was", path.display())
        })?,
        Some(LAYOUT) => {
            if !projections::are_current(connection)? {
                projections::rebuild(connection)?;
            }
        }
        Some(other) => bail!(
            "the run record {} has layout {other}, and this program reads the layouts 2 and {LAYOUT}\nhelp: use the program version that wrote it",
            path.display()
        ),
    }
    Ok(())
}

fn phase_event<T: Serialize>(round: u32, name: &str, report: &T) -> Result<Event> {
    Ok(Event::Phase { round, name: name.to_owned(), report: serde_json::to_string(report)? })
}

fn row_of(place: &Place, episode: &EpisodeRecord, record: Digest) -> EpisodeRow {
    EpisodeRow {
        id: episode.id.clone(),
        round: place.round,
        arm: place.arm.name().to_owned(),
        task: episode.task.clone(),
        group: place.group.clone(),
        policy_version: episode.policy_version,
        harness: episode.harness,
        skill: skill_of(episode).map(|text| Digest::of(text.as_bytes())),
        outcome: outcome_name(&episode.outcome),
        exit: exit_name(&episode.exit),
        turns: episode.turns.len() as u64,
        sampled_tokens: episode.turns.iter().map(|turn| turn.sampled_tokens).sum(),
        effects: episode.effects.len() as u64,
        faults: episode.faults.len() as u64,
        seconds: episode.seconds,
        record,
        thinned: false,
    }
}

pub(super) fn digest_column(row: &rusqlite::Row<'_>, index: usize) -> rusqlite::Result<Digest> {
    let text: String = row.get(index)?;
    text.parse().map_err(|error| {
        rusqlite::Error::FromSqlConversionFailure(index, rusqlite::types::Type::Text, Box::new(error))
    })
}

fn outcome_name(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Solved => "solved".into(),
        Outcome::Unsolved => "unsolved".into(),
        Outcome::Invalid(cause) => format!("invalid:{}", kebab(cause)),
    }
}

fn exit_name(exit: &Exit) -> String {
    match exit {
        Exit::Submitted => "submitted".into(),
        Exit::Limit { limit, salvaged: true } => format!("limit:{}:salvaged", kebab(limit)),
        Exit::Limit { limit, salvaged: false } => format!("limit:{}", kebab(limit)),
        Exit::Stopped { .. } => "stopped".into(),
        Exit::Failed { cause, .. } => format!("failed:{}", kebab(cause)),
    }
}

/// The name of a unit variant as serde writes it.
fn kebab<T: Serialize>(value: &T) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(name)) => name,
        _ => "other".into(),
    }
}
