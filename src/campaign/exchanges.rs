//! Which exchanges with teachers has a run held, what did they cost, and which
//! skills came of them? A try has its row before it is sent, with the most that it
//! can cost, and the reply is committed before anything depends on it: after
//! `kill -9` nothing that was paid for is lost or asked again, and a try that was
//! cut off counts at its most.

use anyhow::{Context, Result};
use rusqlite::OptionalExtension;
use serde::Serialize;
use tandem_host::store::Digest;

use super::events::{Answered, Asked, Event};
use super::projections::BEGUN;
use super::record::{RunRecord, digest_column};
use crate::evolve::teacher::{
    ExchangeLog, Skill, Spent, TeacherReply, TeacherRole, TryBegun, TryEnded, TryOutcome,
};

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
        self.append(|_| Ok(vec![Event::Skill { place: place.to_owned(), skill: skill.clone() }]))?;
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
        // The run's folder is locked by one program, so what is begun here has no program any more.
        self.append(|tables| {
            let begun = "SELECT seq FROM exchange WHERE place = ?1 AND outcome = ?2 ORDER BY seq";
            let mut statement = tables.prepare_cached(begun)?;
            let cut_off = statement.query_map([place, BEGUN], |row| row.get(0))?;
            Ok(cut_off
                .map(|exchange| Ok(Event::CutOff { exchange: exchange? }))
                .collect::<rusqlite::Result<_>>()?)
        })?;
        let found: Option<String> = self
            .connection()
            .query_row(
                "SELECT reply FROM exchange WHERE place = ?1 AND outcome = ?2",
                [place, TryOutcome::Answered.name()],
                |row| row.get(0),
            )
            .optional()?;
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
        let asked = Asked {
            place: begun.place.to_owned(),
            role: begun.request.role.name().to_owned(),
            teacher: begun.kind.name().to_owned(),
            model: begun.model.to_owned(),
            request,
            prompt_tokens: begun.most.prompt,
            reply_tokens: begun.most.reply,
            cost: begun.most_cost,
        };
        self.append(|_| Ok(vec![Event::Asked(asked)]))
    }

    fn end(&self, number: i64, ended: &TryEnded<'_>) -> Result<()> {
        let reply = ended.reply.map(serde_json::to_vec).transpose()?;
        let reply = reply.map(|bytes| self.blobs().put(&bytes)).transpose()?;
        let answered = Answered {
            exchange: number,
            outcome: ended.outcome.name().to_owned(),
            reason: ended.reason.to_owned(),
            reply,
            prompt_tokens: ended.usage.prompt,
            reply_tokens: ended.usage.reply,
            estimated: ended.usage.estimated,
            cost: ended.cost,
            seconds: ended.seconds,
        };
        self.append(|_| Ok(vec![Event::Answered(answered)]))?;
        Ok(())
    }
}
