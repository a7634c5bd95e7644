//! Which exchanges with teachers has a run held, what did they cost, and which
//! skills came of them? A try has its row before it is sent, with the most that it
//! can cost, and the reply is committed before anything depends on it: after
//! `kill -9` nothing that was paid for is lost or asked again, and a try that was
//! cut off counts at its most.

use anyhow::{Context, Result};
use rusqlite::{OptionalExtension, params};
use serde::Serialize;
use tandem_host::store::Digest;

use super::record::{RunRecord, digest_column};
use crate::evolve::teacher::{
    ExchangeLog, Skill, Spent, TeacherReply, TeacherRole, TryBegun, TryEnded, TryOutcome,
};

pub(super) const SCHEMA: &str = "
CREATE TABLE IF NOT EXISTS exchange (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
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
CREATE INDEX IF NOT EXISTS exchange_by_place ON exchange (place);
CREATE TABLE IF NOT EXISTS skill (
    digest TEXT NOT NULL,
    task TEXT NOT NULL,
    place TEXT NOT NULL,
    skill TEXT NOT NULL,
    PRIMARY KEY (digest, task)
);
";

/// A try that was begun and has no end yet, or whose program died.
const BEGUN: &str = "begun";
const CUT_OFF: &str = "cut-off";

/// One row of the table of exchanges: one try.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ExchangeRow {
    pub place: String,
    pub role: String,
    pub kind: String,
    pub model: String,
    pub outcome: String,
    pub reason: String,
    /// A blob: the request as JSON; its digest is that of the request.
    pub request: Digest,
    /// A blob: the reply as JSON.
    pub reply: Option<Digest>,
    pub prompt_tokens: u64,
    pub reply_tokens: u64,
    /// Whether the tokens are upper estimates.
    pub estimated: bool,
    pub cost: f64,
    pub seconds: f64,
}

impl RunRecord {
    /// All tries, in the order in which they were begun.
    pub fn exchanges(&self) -> Result<Vec<ExchangeRow>> {
        let connection = self.connection();
        let mut statement = connection.prepare(
            "SELECT place, role, kind, model, outcome, reason, request, reply, prompt_tokens, reply_tokens,
                    estimated, cost, seconds FROM exchange ORDER BY seq",
        )?;
        let rows = statement.query_map([], |row| {
            let reply: Option<String> = row.get(7)?;
            Ok(ExchangeRow {
                place: row.get(0)?,
                role: row.get(1)?,
                kind: row.get(2)?,
                model: row.get(3)?,
                outcome: row.get(4)?,
                reason: row.get(5)?,
                request: digest_column(row, 6)?,
                reply: reply.map(|_| digest_column(row, 7)).transpose()?,
                prompt_tokens: row.get(8)?,
                reply_tokens: row.get(9)?,
                estimated: row.get(10)?,
                cost: row.get(11)?,
                seconds: row.get(12)?,
            })
        })?;
        rows.collect::<Result<_, _>>().context("the run record holds an exchange that cannot be read")
    }

    /// Keeps a skill. `place` names the exchange that it came from.
    pub fn add_skill(&self, place: &str, skill: &Skill) -> Result<()> {
        self.connection().execute(
            "INSERT OR REPLACE INTO skill (digest, task, place, skill) VALUES (?1, ?2, ?3, ?4)",
            params![skill.digest().to_string(), skill.task, place, serde_json::to_string(skill)?],
        )?;
        Ok(())
    }

    /// The skills of a task, oldest first.
    pub fn skills(&self, task: &str) -> Result<Vec<Skill>> {
        let connection = self.connection();
        let mut statement = connection.prepare("SELECT skill FROM skill WHERE task = ?1 ORDER BY rowid")?;
        let rows = statement.query_map([task], |row| row.get::<_, String>(0))?;
        let mut skills = Vec::new();
        for row in rows {
            skills.push(
                serde_json::from_str(&row?).context("the run record holds a skill that cannot be read")?,
            );
        }
        Ok(skills)
    }
}

impl ExchangeLog for RunRecord {
    fn answered(&self, place: &str) -> Result<Option<TeacherReply>> {
        let found: Option<String> = {
            let connection = self.connection();
            // The run's folder is locked by one program, so what is begun here has no program any more.
            connection.execute(
                "UPDATE exchange SET outcome = ?1, reason = 'the program ended before the reply was there'
                 WHERE place = ?2 AND outcome = ?3",
                [CUT_OFF, place, BEGUN],
            )?;
            connection
                .query_row(
                    "SELECT reply FROM exchange WHERE place = ?1 AND outcome = ?2",
                    [place, TryOutcome::Answered.name()],
                    |row| row.get(0),
                )
                .optional()?
        };
        let Some(digest) = found else { return Ok(None) };
        let bytes = self.blobs().get(&digest.parse()?)?;
        let reply = serde_json::from_slice(&bytes)
            .with_context(|| format!("the reply of exchange {place} cannot be read"))?;
        Ok(Some(reply))
    }

    fn spent(&self, role: TeacherRole) -> Result<Spent> {
        Ok(self.connection().query_row(
            "SELECT COALESCE(SUM(prompt_tokens + reply_tokens), 0), COALESCE(SUM(cost), 0.0) FROM exchange WHERE role = ?1",
            [role.name()],
            |row| Ok(Spent { tokens: row.get(0)?, money: row.get(1)? }),
        )?)
    }

    fn begin(&self, begun: &TryBegun<'_>) -> Result<i64> {
        let request = self.blobs().put(begun.request.to_json().as_bytes())?;
        let connection = self.connection();
        connection.execute(
            "INSERT INTO exchange (place, role, kind, model, request, outcome, reason, reply,
                                   prompt_tokens, reply_tokens, estimated, cost, seconds)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, '', NULL, ?7, ?8, 1, ?9, 0)",
            params![
                begun.place,
                begun.request.role.name(),
                begun.kind.name(),
                begun.model,
                request.to_string(),
                BEGUN,
                begun.most.prompt,
                begun.most.reply,
                begun.most_cost,
            ],
        )?;
        Ok(connection.last_insert_rowid())
    }

    fn end(&self, number: i64, ended: &TryEnded<'_>) -> Result<()> {
        let reply = ended.reply.map(serde_json::to_vec).transpose()?;
        let reply = reply.map(|bytes| self.blobs().put(&bytes)).transpose()?;
        self.connection().execute(
            "UPDATE exchange SET outcome = ?2, reason = ?3, reply = ?4, prompt_tokens = ?5, reply_tokens = ?6,
                                 estimated = ?7, cost = ?8, seconds = ?9 WHERE seq = ?1",
            params![
                number,
                ended.outcome.name(),
                ended.reason,
                reply.map(|digest| digest.to_string()),
                ended.usage.prompt,
                ended.usage.reply,
                ended.usage.estimated,
                ended.cost,
                ended.seconds,
            ],
        )?;
        Ok(())
    }
}
