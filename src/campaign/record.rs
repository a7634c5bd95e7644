//! What has a run done so far? The run record: SQLite, one writer, one reader.
//!
//! Invariants: an episode's id is decided before it runs and is the primary key,
//! so nothing is counted twice; a row is committed before anything depends on it,
//! so nothing recorded is lost to `kill -9`; a phase that has its row is never
//! run again.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use anyhow::{Context, Result, bail};
use rusqlite::{Connection, OptionalExtension, params};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tandem_host::agent::{EpisodeRecord, Exit, Outcome};
use tandem_host::forge::Language;
use tandem_host::harness::HarnessManifest;
use tandem_host::store::{BlobStore, Digest};

/// The layout that this program reads and writes.
const SCHEMA_VERSION: i64 = 2;

const SCHEMA: &str = "
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS episode (
    id TEXT PRIMARY KEY,
    round INTEGER NOT NULL,
    arm TEXT NOT NULL,
    task TEXT NOT NULL,
    group_key TEXT NOT NULL,
    policy_version INTEGER NOT NULL,
    harness TEXT NOT NULL,
    outcome TEXT NOT NULL,
    exit TEXT NOT NULL,
    turns INTEGER NOT NULL,
    sampled_tokens INTEGER NOT NULL,
    effects INTEGER NOT NULL,
    faults INTEGER NOT NULL,
    seconds REAL NOT NULL,
    record TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS episode_by_arm ON episode (round, arm);
CREATE TABLE IF NOT EXISTS publication (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    round INTEGER NOT NULL,
    digest TEXT NOT NULL,
    reason TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS source (
    plugin TEXT PRIMARY KEY,
    source TEXT NOT NULL,
    language TEXT NOT NULL,
    name TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS phase (
    round INTEGER NOT NULL,
    name TEXT NOT NULL,
    report TEXT NOT NULL,
    PRIMARY KEY (round, name)
);
";

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

/// One row of the episode table, without the record itself.
#[derive(Clone, Debug, PartialEq)]
pub struct EpisodeRow {
    pub id: String,
    pub round: u32,
    pub arm: String,
    pub task: String,
    pub group: String,
    pub policy_version: u64,
    pub harness: Digest,
    pub outcome: String,
    pub exit: String,
    pub turns: u64,
    pub sampled_tokens: u64,
    pub effects: u64,
    pub faults: u64,
    pub record: Digest,
}

impl EpisodeRow {
    pub fn solved(&self) -> bool {
        self.outcome == "solved"
    }

    pub fn valid(&self) -> bool {
        !self.outcome.starts_with("invalid")
    }
}

/// The source that a plugin was built from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceRow {
    pub digest: Digest,
    pub language: Language,
}

/// An accepted harness, in the order of publication.
#[derive(Clone, Debug, PartialEq, Eq)]
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
    /// Opens the record in the run folder, making it if it is not there.
    pub fn open(run: &Path) -> Result<Self> {
        let path = run.join("run.sqlite");
        let connection = Connection::open(&path)
            .with_context(|| format!("the run record {} cannot be opened", path.display()))?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        // FULL: a committed episode survives a power cut, not only a kill.
        connection.pragma_update(None, "synchronous", "FULL")?;
        connection.busy_timeout(std::time::Duration::from_secs(10))?;
        connection
            .execute_batch(&[SCHEMA, super::exchanges::SCHEMA].concat())
            .with_context(|| format!("the run record {} is not one", path.display()))?;
        let record = Self {
            connection: Mutex::new(connection),
            blobs: BlobStore::open(run.join("blobs"))?,
            folder: run.to_owned(),
        };
        match record.meta("schema")? {
            None => record.set_meta("schema", &SCHEMA_VERSION.to_string())?,
            Some(version) if version == SCHEMA_VERSION.to_string() => {}
            Some(version) => bail!(
                "the run record {} has layout {version}, and this program reads layout {SCHEMA_VERSION}\nhelp: use the program version that wrote it",
                path.display()
            ),
        }
        Ok(record)
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

    pub fn meta(&self, key: &str) -> Result<Option<String>> {
        let connection = self.connection();
        Ok(connection
            .query_row("SELECT value FROM meta WHERE key = ?1", [key], |row| row.get(0))
            .optional()?)
    }

    pub fn set_meta(&self, key: &str, value: &str) -> Result<()> {
        self.connection().execute(
            "INSERT INTO meta (key, value) VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE SET value = ?2",
            [key, value],
        )?;
        Ok(())
    }

    /// Records an episode. An id that is there already is left as it is.
    pub fn add_episode(&self, place: &Place, episode: &EpisodeRecord) -> Result<()> {
        let digest = self.blobs.put(&serde_json::to_vec(episode)?)?;
        let tokens: u64 = episode.turns.iter().map(|turn| turn.sampled_tokens).sum();
        self.connection().execute(
            "INSERT OR IGNORE INTO episode VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)",
            params![
                episode.id,
                place.round,
                place.arm.name(),
                episode.task,
                place.group,
                episode.policy_version,
                episode.harness.to_string(),
                outcome_name(&episode.outcome),
                exit_name(&episode.exit),
                episode.turns.len() as u64,
                tokens,
                episode.effects.len() as u64,
                episode.faults.len() as u64,
                episode.seconds,
                digest.to_string(),
            ],
        )?;
        Ok(())
    }

    /// All episodes in the order in which they were recorded.
    pub fn episodes(&self) -> Result<Vec<EpisodeRow>> {
        let connection = self.connection();
        let mut statement = connection.prepare(
            "SELECT id, round, arm, task, group_key, policy_version, harness, outcome, exit, turns,
                    sampled_tokens, effects, faults, record FROM episode ORDER BY rowid",
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
    pub fn episode(&self, row: &EpisodeRow) -> Result<EpisodeRecord> {
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
        self.connection().execute(
            "INSERT INTO publication (round, digest, reason) VALUES (?1, ?2, ?3)",
            params![publication.round, publication.digest.to_string(), publication.reason],
        )?;
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

    /// Keeps where a plugin came from.
    pub fn add_source(&self, plugin: &Digest, source: &SourceRow, name: &str) -> Result<()> {
        self.connection().execute(
            "INSERT OR IGNORE INTO source (plugin, source, language, name) VALUES (?1, ?2, ?3, ?4)",
            [&plugin.to_string(), &source.digest.to_string(), source.language.name(), name],
        )?;
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
        self.connection().execute(
            "INSERT OR REPLACE INTO phase (round, name, report) VALUES (?1, ?2, ?3)",
            params![round, name, serde_json::to_string(report)?],
        )?;
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
        let mut connection = self.connection();
        let transaction = connection.transaction()?;
        transaction.execute(
            "INSERT OR REPLACE INTO phase (round, name, report) VALUES (?1, ?2, ?3)",
            params![round, name, serde_json::to_string(report)?],
        )?;
        if let Some(publication) = publication {
            transaction.execute(
                "INSERT INTO publication (round, digest, reason) VALUES (?1, ?2, ?3)",
                params![publication.round, publication.digest.to_string(), publication.reason],
            )?;
        }
        transaction.commit()?;
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
