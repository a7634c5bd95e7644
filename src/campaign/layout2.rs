//! How does a record of layout 2, which had tables and no events, become one of events? Row by row, in
//! one transaction; nothing of it is lost.

use anyhow::{Context, Result};
use rusqlite::{Connection, Row, TransactionBehavior};
use tandem_host::store::Digest;

use super::events::{self, Answered, Asked, Event};
use super::projections::{self, BEGUN, CUT_OFF};
use super::record::{EpisodeRow, LAYOUT, Publication, digest_column, write_layout};

/// Makes the record one of this layout.
pub(super) fn upgrade(connection: &mut Connection) -> Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let rows = read(&transaction).context("the run record of layout 2 cannot be read")?;
    projections::drop_all(&transaction)?;
    transaction.execute_batch(events::SCHEMA)?;
    projections::create(&transaction)?;
    let mut all = Vec::new();
    let mut tries = Vec::new();
    for row in rows {
        match row {
            Old::Plain(event) => all.push(event),
            Old::Try(begun, ended) => tries.push((begun, ended)),
        }
    }
    events::write(&transaction, &all)?;
    for (begun, ended) in tries {
        let exchange = events::write(&transaction, &[Event::Asked(begun)])?;
        let event = match ended {
            Ended::Not => continue,
            Ended::CutOff => Event::CutOff { exchange },
            Ended::So(answered) => Event::Answered(Answered { exchange, ..answered }),
        };
        events::write(&transaction, &[event])?;
    }
    let last = events::head(&transaction)?.map_or(0, |(seq, _)| seq);
    events::write(&transaction, &[Event::Upgraded { from: 2, last }])?;
    write_layout(&transaction, LAYOUT)?;
    Ok(transaction.commit()?)
}

enum Old {
    Plain(Event),
    Try(Asked, Ended),
}

enum Ended {
    Not,
    CutOff,
    So(Answered),
}

/// A query of layout 2 and what its rows are.
type Query = (&'static str, fn(&Row<'_>) -> rusqlite::Result<Old>);

/// What happened first in a run stands first, as far as the tables tell.
const QUERIES: [Query; 6] = [
    ("SELECT round, digest, reason FROM publication ORDER BY seq", |row| {
        let (round, reason) = (row.get(0)?, row.get(2)?);
        Ok(Old::Plain(Event::Published(Publication { round, digest: digest_column(row, 1)?, reason })))
    }),
    ("SELECT plugin, source, language, name FROM source ORDER BY rowid", |row| {
        let (plugin, source) = (digest_column(row, 0)?, digest_column(row, 1)?);
        Ok(Old::Plain(Event::Built { plugin, source, language: row.get(2)?, name: row.get(3)? }))
    }),
    (
        "SELECT id, round, arm, task, group_key, policy_version, harness, outcome, exit, turns,
                sampled_tokens, effects, faults, seconds, record FROM episode ORDER BY rowid",
        |row| Ok(Old::Plain(Event::Episode(episode(row)?))),
    ),
    ("SELECT round, name, report FROM phase ORDER BY rowid", |row| {
        Ok(Old::Plain(Event::Phase { round: row.get(0)?, name: row.get(1)?, report: row.get(2)? }))
    }),
    ("SELECT place, skill FROM skill ORDER BY rowid", |row| {
        let text: String = row.get(1)?;
        let skill = serde_json::from_str(&text).map_err(|error| {
            rusqlite::Error::FromSqlConversionFailure(1, rusqlite::types::Type::Text, Box::new(error))
        })?;
        Ok(Old::Plain(Event::Skill { place: row.get(0)?, skill }))
    }),
    (
        "SELECT place, role, kind, model, request, prompt_tokens, reply_tokens, cost, outcome, reason, reply,
                estimated, seconds FROM exchange ORDER BY seq",
        exchange,
    ),
];

fn read(connection: &Connection) -> Result<Vec<Old>> {
    let mut all = Vec::new();
    for (query, make) in QUERIES {
        let mut statement = connection.prepare(query)?;
        for row in statement.query_map([], make)? {
            all.push(row?);
        }
    }
    Ok(all)
}

fn episode(row: &Row<'_>) -> rusqlite::Result<EpisodeRow> {
    Ok(EpisodeRow {
        id: row.get(0)?,
        round: row.get(1)?,
        arm: row.get(2)?,
        task: row.get(3)?,
        group: row.get(4)?,
        policy_version: row.get(5)?,
        harness: digest_column(row, 6)?,
        // No method of that time trained with skills.
        skill: None,
        outcome: row.get(7)?,
        exit: row.get(8)?,
        turns: row.get(9)?,
        sampled_tokens: row.get(10)?,
        effects: row.get(11)?,
        faults: row.get(12)?,
        seconds: row.get(13)?,
        record: digest_column(row, 14)?,
        thinned: false,
    })
}

fn exchange(row: &Row<'_>) -> rusqlite::Result<Old> {
    let (prompt_tokens, reply_tokens, cost) = (row.get(5)?, row.get(6)?, row.get(7)?);
    let begun = Asked {
        place: row.get(0)?,
        role: row.get(1)?,
        teacher: row.get(2)?,
        model: row.get(3)?,
        request: digest_column(row, 4)?,
        prompt_tokens,
        reply_tokens,
        cost,
    };
    let outcome: String = row.get(8)?;
    let reply: Option<String> = row.get(10)?;
    let reply: Option<Digest> = reply.map(|_| digest_column(row, 10)).transpose()?;
    let ended = match outcome.as_str() {
        BEGUN => Ended::Not,
        CUT_OFF => Ended::CutOff,
        _ => Ended::So(Answered {
            exchange: 0,
            outcome,
            reason: row.get(9)?,
            reply,
            prompt_tokens,
            reply_tokens,
            estimated: row.get(11)?,
            cost,
            seconds: row.get(12)?,
        }),
    };
    Ok(Old::Try(begun, ended))
}
