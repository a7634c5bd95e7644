//! Which tables are made from the events of a run, and how?
//!
//! They hold nothing that the events do not: whoever drops them loses nothing.

use anyhow::{Context, Result};
use rusqlite::types::Value;
use rusqlite::{Connection, Transaction, TransactionBehavior, params};

use super::events::{self, Event};

/// Changes with what is below; tables of another version are made again. In `PRAGMA user_version`.
const VERSION: i64 = 1;

pub(super) const TABLES: [&str; 6] = ["episode", "publication", "source", "phase", "exchange", "skill"];

const SCHEMA: &str = "
CREATE TABLE episode (
    id TEXT PRIMARY KEY,
    round INTEGER NOT NULL,
    arm TEXT NOT NULL,
    task TEXT NOT NULL,
    group_key TEXT NOT NULL,
    policy_version INTEGER NOT NULL,
    harness TEXT NOT NULL,
    skill TEXT,
    outcome TEXT NOT NULL,
    exit TEXT NOT NULL,
    turns INTEGER NOT NULL,
    sampled_tokens INTEGER NOT NULL,
    effects INTEGER NOT NULL,
    faults INTEGER NOT NULL,
    seconds REAL NOT NULL,
    record TEXT NOT NULL,
    thinned INTEGER NOT NULL
);
CREATE INDEX episode_by_arm ON episode (round, arm);
CREATE TABLE publication (
    seq INTEGER PRIMARY KEY,
    round INTEGER NOT NULL,
    digest TEXT NOT NULL,
    reason TEXT NOT NULL
);
CREATE TABLE source (
    plugin TEXT PRIMARY KEY,
    source TEXT NOT NULL,
    language TEXT NOT NULL,
    name TEXT NOT NULL
);
CREATE TABLE phase (
    round INTEGER NOT NULL,
    name TEXT NOT NULL,
    report TEXT NOT NULL,
    PRIMARY KEY (round, name)
);
CREATE TABLE exchange (
    seq INTEGER PRIMARY KEY,
    place TEXT NOT NULL,
    role TEXT NOT NULL,
    kind TEXT NOT NULL,
    model TEXT NOT NULL,
    request TEXT NOT NULL,
    outcome TEXT NOT NULL,
    reason TEXT NOT NULL,
    reply TEXT,
    prompt_tokens INTEGER NOT NULL,
    reply_tokens INTEGER NOT NULL,
    estimated INTEGER NOT NULL,
    cost REAL NOT NULL,
    seconds REAL NOT NULL
);
CREATE INDEX exchange_by_place ON exchange (place);
CREATE TABLE skill (
    digest TEXT NOT NULL,
    task TEXT NOT NULL,
    place TEXT NOT NULL,
    skill TEXT NOT NULL,
    PRIMARY KEY (digest, task)
);
";

/// How a try of a teacher stands whose end is not recorded.
pub(super) const BEGUN: &str = "begun";
pub(super) const CUT_OFF: &str = "cut-off";

/// Makes the tables, which are not there.
pub(super) fn create(connection: &Connection) -> Result<()> {
    connection.execute_batch(SCHEMA)?;
    Ok(connection.pragma_update(None, "user_version", VERSION)?)
}

/// Whether the tables are there, as this program makes them.
pub(super) fn are_current(connection: &Connection) -> Result<bool> {
    let version: i64 = connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    let mut there = connection.prepare("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?1")?;
    let mut whole = version == VERSION;
    for table in TABLES {
        whole &= there.exists([table])?;
    }
    Ok(whole)
}

/// Drops the tables; those of an older layout have the same names.
pub(super) fn drop_all(connection: &Connection) -> Result<()> {
    for table in TABLES {
        connection.execute_batch(&format!("DROP TABLE IF EXISTS {table}"))?;
    }
    Ok(())
}

/// Makes all tables again from the events, or none; gives the number of events.
pub(super) fn rebuild(connection: &mut Connection) -> Result<i64> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    drop_all(&transaction)?;
    create(&transaction)?;
    let mut last = 0;
    events::each_after(&transaction, 0, |stored| {
        last = stored.seq;
        apply(&transaction, stored.seq, &stored.event()?)
    })?;
    transaction.commit()?;
    Ok(last)
}

/// What follows from event `seq` in the tables.
pub(super) fn apply(tables: &Transaction<'_>, seq: i64, event: &Event) -> Result<()> {
    match event {
        Event::Upgraded { .. } | Event::CheckpointDropped { .. } => {}
        Event::Episode(row) => {
            tables.execute(
                "INSERT OR IGNORE INTO episode
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, 0)",
                params![
                    row.id,
                    row.round,
                    row.arm,
                    row.task,
                    row.group,
                    row.policy_version,
                    row.harness.to_string(),
                    row.skill.map(|skill| skill.to_string()),
                    row.outcome,
                    row.exit,
                    row.turns,
                    row.sampled_tokens,
                    row.effects,
                    row.faults,
                    row.seconds,
                    row.record.to_string(),
                ],
            )?;
        }
        Event::Thinned { episode, record, .. } => {
            tables.execute(
                "UPDATE episode SET record = ?2, thinned = 1 WHERE id = ?1",
                params![episode, record.to_string()],
            )?;
        }
        Event::Published(publication) => {
            tables.execute(
                "INSERT INTO publication (seq, round, digest, reason) VALUES (?1, ?2, ?3, ?4)",
                params![seq, publication.round, publication.digest.to_string(), publication.reason],
            )?;
        }
        Event::Built { plugin, source, language, name } => {
            tables.execute(
                "INSERT OR IGNORE INTO source (plugin, source, language, name) VALUES (?1, ?2, ?3, ?4)",
                [&plugin.to_string(), &source.to_string(), language, name],
            )?;
        }
        Event::Phase { round, name, report } => {
            tables.execute(
                "INSERT OR REPLACE INTO phase (round, name, report) VALUES (?1, ?2, ?3)",
                params![round, name, report],
            )?;
        }
        Event::Asked(asked) => {
            tables.execute(
                "INSERT INTO exchange VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, '', NULL, ?8, ?9, 1, ?10, 0)",
                params![
                    seq,
                    asked.place,
                    asked.role,
                    asked.teacher,
                    asked.model,
                    asked.request.to_string(),
                    BEGUN,
                    asked.prompt_tokens,
                    asked.reply_tokens,
                    asked.cost,
                ],
            )?;
        }
        Event::Answered(answered) => {
            tables.execute(
                "UPDATE exchange SET outcome = ?2, reason = ?3, reply = ?4, prompt_tokens = ?5,
                        reply_tokens = ?6, estimated = ?7, cost = ?8, seconds = ?9 WHERE seq = ?1",
                params![
                    answered.exchange,
                    answered.outcome,
                    answered.reason,
                    answered.reply.map(|digest| digest.to_string()),
                    answered.prompt_tokens,
                    answered.reply_tokens,
                    answered.estimated,
                    answered.cost,
                    answered.seconds,
                ],
            )?;
        }
        Event::CutOff { exchange } => {
            tables.execute(
                "UPDATE exchange SET outcome = ?2, reason = 'the program ended before the reply was there'
                 WHERE seq = ?1",
                params![exchange, CUT_OFF],
            )?;
        }
        Event::Skill { place, skill } => {
            tables.execute(
                "INSERT OR REPLACE INTO skill (digest, task, place, skill) VALUES (?1, ?2, ?3, ?4)",
                params![skill.digest().to_string(), skill.task, place, serde_json::to_string(skill)?],
            )?;
        }
    }
    Ok(())
}

/// All rows of a table as text, sorted: for comparisons.
pub(super) fn rows(connection: &Connection, table: &str) -> Result<Vec<String>> {
    let mut statement = connection.prepare(&format!("SELECT * FROM {table}"))?;
    let columns = statement.column_count();
    let rows = statement.query_map([], |row| {
        let cells = (0..columns).map(|column| row.get::<_, Value>(column));
        Ok(cells.collect::<rusqlite::Result<Vec<_>>>()?.iter().map(|cell| format!("{cell:?}|")).collect())
    })?;
    let mut rows: Vec<String> =
        rows.collect::<Result<_, _>>().with_context(|| format!("the table `{table}` cannot be read"))?;
    rows.sort();
    Ok(rows)
}
