//! What happened in a run, in order? An append-only log: each event seals all before it, and every
//! other table of the record is made from it.
//!
//! Invariants: an event and what follows from it in the tables are one transaction; no statement
//! changes or removes an event; the digest of an event is that of its predecessor's digest, its
//! number, time, kind and body, so that a change by other means is found.

use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tandem_host::store::{Digest, moment};

use super::projections;
use super::record::{EpisodeRow, Publication, RunRecord, digest_column};
use crate::evolve::teacher::Skill;

pub(super) const SCHEMA: &str = "
CREATE TABLE event (
    seq INTEGER PRIMARY KEY,
    at INTEGER NOT NULL,
    kind TEXT NOT NULL,
    body TEXT NOT NULL,
    digest TEXT NOT NULL
);
CREATE TRIGGER event_is_never_changed BEFORE UPDATE ON event
BEGIN SELECT RAISE(ABORT, 'an event of a run is never changed'); END;
CREATE TRIGGER event_is_never_removed BEFORE DELETE ON event
BEGIN SELECT RAISE(ABORT, 'an event of a run is never removed'); END;
";

/// One thing that happened. What is large is a blob, named by its digest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", content = "body", rename_all = "kebab-case")]
pub enum Event {
    /// The record was of an older layout; the events up to the number `last` were made from its tables.
    Upgraded { from: i64, last: i64 },
    /// An episode ended.
    Episode(EpisodeRow),
    /// A harness was published.
    Published(Publication),
    /// A plugin was built.
    Built { plugin: Digest, source: Digest, language: String, name: String },
    /// A phase of a round ended, or a plan was made that it keeps to. The report is JSON.
    Phase { round: u32, name: String, report: String },
    /// A teacher was asked, with the most that it may cost. Its number is the event's.
    Asked(Asked),
    /// It answered, or not.
    Answered(Answered),
    /// The program ended before the answer was there; it counts at its most.
    CutOff { exchange: i64 },
    /// A skill was kept.
    Skill { place: String, skill: Skill },
    /// Turns and tokens of an episode's record were given up for room; the rest is the record `record`.
    Thinned { episode: String, was: Digest, record: Digest, freed: u64 },
    /// A checkpoint of the policy was given up for room.
    CheckpointDropped { version: u64, freed: u64 },
}

/// A try of a teacher that begins.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Asked {
    pub place: String,
    pub role: String,
    pub teacher: String,
    pub model: String,
    pub request: Digest,
    pub prompt_tokens: u64,
    pub reply_tokens: u64,
    pub cost: f64,
}

/// How a try of a teacher ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Answered {
    pub exchange: i64,
    pub outcome: String,
    pub reason: String,
    pub reply: Option<Digest>,
    pub prompt_tokens: u64,
    pub reply_tokens: u64,
    pub estimated: bool,
    pub cost: f64,
    pub seconds: f64,
}

impl Event {
    /// Its kind, and its body as JSON. A report stands in the body as the text that it is.
    fn encode(&self) -> Result<(String, String)> {
        if let Self::Phase { round, name, report } = self {
            return Ok(("phase".into(), format!("{}{report}}}", phase_head(*round, name))));
        }
        let whole = serde_json::to_value(self)?;
        Ok((whole["kind"].as_str().unwrap_or_default().to_owned(), whole["body"].to_string()))
    }

    fn decode(kind: &str, body: &str) -> serde_json::Result<Self> {
        let value: Value = serde_json::from_str(body)?;
        if kind != "phase" {
            return serde_json::from_value(json!({ "kind": kind, "body": value }));
        }
        #[derive(Deserialize)]
        struct Head {
            round: u32,
            name: String,
        }
        let Head { round, name } = Head::deserialize(&value)?;
        // The text as it was written: numbers that were read and written again may differ in a digit.
        let text = body.strip_prefix(&phase_head(round, &name)).and_then(|rest| rest.strip_suffix('}'));
        let report = text.map_or_else(|| value["report"].to_string(), str::to_owned);
        Ok(Self::Phase { round, name, report })
    }
}

fn phase_head(round: u32, name: &str) -> String {
    format!(r#"{{"round":{round},"name":{},"report":"#, Value::from(name))
}

/// An event as it is kept.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StoredEvent {
    pub seq: i64,
    /// Milliseconds since 1970, by the clock of the machine that wrote it.
    pub at: i64,
    pub kind: String,
    /// JSON.
    #[serde(serialize_with = "as_json")]
    pub body: String,
    pub digest: Digest,
}

fn as_json<S: serde::Serializer>(text: &str, serializer: S) -> Result<S::Ok, S::Error> {
    let value: Value = serde_json::from_str(text).map_err(serde::ser::Error::custom)?;
    value.serialize(serializer)
}

impl StoredEvent {
    /// What happened.
    ///
    /// # Errors
    /// A kind that this program does not know, or a body that is none of its kind.
    pub fn event(&self) -> Result<Event> {
        Event::decode(&self.kind, &self.body).with_context(|| {
            format!(
                "event {} of the run, of kind `{}`, cannot be read\nhelp: use the program version that wrote it",
                self.seq, self.kind
            )
        })
    }
}

fn digest(before: Option<&Digest>, seq: i64, at: i64, kind: &str, body: &str) -> Digest {
    let before = before.map(Digest::to_string).unwrap_or_default();
    Digest::of(format!("{before}\n{seq}\n{at}\n{kind}\n{body}").as_bytes())
}

fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// The number and digest of the newest event.
pub(super) fn head(connection: &Connection) -> Result<Option<(i64, Digest)>> {
    let newest = "SELECT seq, digest FROM event ORDER BY seq DESC LIMIT 1";
    Ok(connection.query_row(newest, [], |row| Ok((row.get(0)?, digest_column(row, 1)?))).optional()?)
}

/// Adds events and what follows from them; gives the number of the last one.
pub(super) fn write(transaction: &Transaction<'_>, events: &[Event]) -> Result<i64> {
    let newest = head(transaction)?;
    let (mut seq, mut before) = newest.map_or((0, None), |(seq, digest)| (seq, Some(digest)));
    let mut statement = transaction
        .prepare_cached("INSERT INTO event (seq, at, kind, body, digest) VALUES (?1, ?2, ?3, ?4, ?5)")?;
    for event in events {
        seq += 1;
        let at = now();
        let (kind, body) = event.encode()?;
        let own = digest(before.as_ref(), seq, at, &kind, &body);
        statement.execute(params![seq, at, kind, body, own.to_string()])?;
        // From the text, as whoever makes the tables again.
        projections::apply(transaction, seq, &Event::decode(&kind, &body)?)?;
        before = Some(own);
    }
    Ok(seq)
}

/// Gives every event after number `after` to `each`, in order.
pub(super) fn each_after(
    connection: &Connection,
    after: i64,
    mut each: impl FnMut(StoredEvent) -> Result<()>,
) -> Result<()> {
    let mut statement =
        connection.prepare("SELECT seq, at, kind, body, digest FROM event WHERE seq > ?1 ORDER BY seq")?;
    let mut rows = statement.query([after])?;
    while let Some(row) = rows.next()? {
        each(stored(row)?)?;
    }
    Ok(())
}

fn stored(row: &rusqlite::Row<'_>) -> rusqlite::Result<StoredEvent> {
    Ok(StoredEvent {
        seq: row.get(0)?,
        at: row.get(1)?,
        kind: row.get(2)?,
        body: row.get(3)?,
        digest: digest_column(row, 4)?,
    })
}

/// One moment of a run; see [`RunRecord::moment`].
pub struct Moment<'a>(&'a RunRecord);

impl Drop for Moment<'_> {
    fn drop(&mut self) {
        // Nothing was written, so nothing is lost if this fails.
        let _ = self.0.connection().execute_batch("COMMIT");
    }
}

/// What an audit of a record found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Audit {
    pub events: i64,
    /// The digest of the newest event, which seals all of them.
    pub head: Option<Digest>,
    /// Blobs that were read.
    pub blobs: usize,
    pub faults: Vec<String>,
}

impl RunRecord {
    /// Adds the events that `make` gives, in one transaction with whatever `make` looks up.
    /// Gives the number of the last event.
    pub(super) fn append(&self, make: impl FnOnce(&Transaction<'_>) -> Result<Vec<Event>>) -> Result<i64> {
        let mut connection = self.connection();
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let events = make(&transaction)?;
        if events.is_empty() {
            return Ok(0);
        }
        let seq = write(&transaction, &events)?;
        moment();
        transaction.commit()?;
        moment();
        Ok(seq)
    }

    /// The events after number `after`, at most `most`.
    pub fn events(&self, after: i64, most: usize) -> Result<Vec<StoredEvent>> {
        let connection = self.connection();
        let mut statement = connection
            .prepare("SELECT seq, at, kind, body, digest FROM event WHERE seq > ?1 ORDER BY seq LIMIT ?2")?;
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let rows = statement.query_map(params![after, most], stored)?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// The number, digest and time of the newest event.
    pub fn head(&self) -> Result<Option<StoredEvent>> {
        let Some((seq, _)) = head(&self.connection())? else { return Ok(None) };
        Ok(self.events(seq - 1, 1)?.pop())
    }

    /// The number of the newest event before `at`, in milliseconds since 1970; 0 if there is none.
    pub fn last_before(&self, at: i64) -> Result<i64> {
        let newest = "SELECT COALESCE(MAX(seq), 0) FROM event WHERE at < ?1";
        Ok(self.connection().query_row(newest, [at], |row| row.get(0))?)
    }

    /// Holds one moment of the run: until the answer is dropped, what is read is as of now, whoever
    /// writes meanwhile.
    pub fn moment(&self) -> Result<Moment<'_>> {
        self.connection().execute_batch("BEGIN; SELECT COUNT(*) FROM event;")?;
        Ok(Moment(self))
    }

    /// The events that gave something up.
    pub(super) fn given_up(&self) -> Result<Vec<Event>> {
        let connection = self.connection();
        let mut statement = connection.prepare(
            "SELECT seq, at, kind, body, digest FROM event WHERE kind IN ('thinned', 'checkpoint-dropped')",
        )?;
        let rows = statement.query_map([], stored)?.collect::<rusqlite::Result<Vec<_>>>()?;
        rows.iter().map(StoredEvent::event).collect()
    }

    /// Makes all tables again from the events.
    pub fn rebuild(&self) -> Result<i64> {
        let mut connection = self.connection();
        projections::rebuild(&mut connection)
    }

    /// Checks the chain of events, the tables against them, and, if asked, the bytes of every blob that
    /// an event names.
    pub fn audit(&self, blobs: bool) -> Result<Audit> {
        let connection = self.connection();
        // Events and tables of one moment, also where a campaign adds to them meanwhile.
        let moment = connection.unchecked_transaction()?;
        let mut audit = Audit { events: 0, head: None, blobs: 0, faults: Vec::new() };
        let mut named: Vec<(i64, Digest)> = Vec::new();
        let mut thinned = std::collections::BTreeMap::new();
        let mut again = Connection::open_in_memory()?;
        projections::create(&again)?;
        let transaction = again.transaction()?;
        each_after(&connection, 0, |stored| {
            if stored.seq != audit.events + 1 {
                audit.faults.push(format!("events {} to {} are missing", audit.events + 1, stored.seq - 1));
            }
            let StoredEvent { seq, at, kind, body, .. } = &stored;
            if digest(audit.head.as_ref(), *seq, *at, kind, body) != stored.digest {
                audit
                    .faults
                    .push(format!("event {}, `{}`, is not what it was sealed as", stored.seq, stored.kind));
            }
            (audit.events, audit.head) = (stored.seq, Some(stored.digest));
            match stored.event() {
                Ok(event) => {
                    if let Event::Episode(row) = &event {
                        named.push((stored.seq, row.record));
                        thinned.insert(row.id.clone(), named.len() - 1);
                    }
                    if let Event::Thinned { episode, record, .. } = &event
                        && let Some(at) = thinned.get(episode)
                    {
                        named[*at] = (stored.seq, *record);
                    }
                    projections::apply(&transaction, stored.seq, &event)?;
                }
                Err(error) => audit.faults.push(error.to_string().replace('\n', "; ")),
            }
            Ok(())
        })?;
        transaction.commit()?;
        for table in projections::TABLES {
            if projections::rows(&connection, table)? != projections::rows(&again, table)? {
                audit.faults.push(format!("the table `{table}` does not follow from the events"));
            }
        }
        drop(moment);
        drop(connection);
        for (seq, digest) in named.into_iter().filter(|_| blobs) {
            audit.blobs += 1;
            if let Err(error) = self.blobs().get(&digest) {
                let said = error.to_string();
                let said = said.lines().next().unwrap_or_default();
                audit.faults.push(format!("the record of event {seq}: {said}"));
            }
        }
        Ok(audit)
    }
}
