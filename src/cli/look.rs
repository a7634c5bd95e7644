//! `tandem run status|events|lineage|bisect|export|verify|rebuild`: what does the run of a campaign say of
//! itself? Beside them, without a word, the agent of a pair on a repository (`run`).
//!
//! All of it works while the campaign does, and never holds it up.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use tandem_host::harness::rfc3339;

use super::{Exit, bisect, run, setup};
use crate::campaign::{RunLock, RunRecord, StoredEvent};
use crate::view;

#[derive(Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct RunCommand {
    #[command(subcommand)]
    look: Option<Look>,
    #[command(flatten)]
    work: run::RunArguments,
}

/// The kinds of events, as `--kind` takes them.
const KINDS: [&str; 11] = [
    "upgraded",
    "episode",
    "published",
    "built",
    "phase",
    "asked",
    "answered",
    "cut-off",
    "skill",
    "thinned",
    "checkpoint-dropped",
];

#[derive(Subcommand)]
enum Look {
    /// How far is it: round, episodes, gates, tokens, disk, the last event.
    Status {
        /// The run folder.
        run: PathBuf,
        /// JSON instead of text.
        #[arg(long)]
        json: bool,
    },
    /// What happened, in order.
    Events {
        /// The run folder.
        run: PathBuf,
        /// Go on with what happens from now on, until Ctrl-C.
        #[arg(long, short)]
        follow: bool,
        /// Begin after the event of this number, or with events of this age, such as `90s`, `10m`, `2h`.
        #[arg(long, value_name = "NUMBER|AGE")]
        since: Option<String>,
        /// Only events of this kind.
        #[arg(long, value_parser = KINDS)]
        kind: Option<String>,
        /// A JSON object a line instead of text.
        #[arg(long)]
        json: bool,
    },
    /// Where each plugin came from, what spoke for it, and whether it lives.
    Lineage {
        /// The run folder.
        run: PathBuf,
        /// JSON instead of text.
        #[arg(long, conflicts_with = "graph")]
        json: bool,
        /// A graph for Graphviz instead of text.
        #[arg(long)]
        graph: bool,
    },
    /// Find the publication that changed what is solved of some tasks (exit code 3 if none did).
    Bisect(bisect::BisectArguments),
    /// Write everything as JSON lines and blobs into a new folder, as of one moment.
    Export {
        /// The run folder.
        run: PathBuf,
        /// The new folder.
        #[arg(long)]
        out: PathBuf,
        /// Leave the blobs out.
        #[arg(long)]
        no_blobs: bool,
    },
    /// Check that no event was changed and that all tables follow from the events (exit code 3 if not).
    Verify {
        /// The run folder.
        run: PathBuf,
        /// Read the record of every episode too.
        #[arg(long)]
        blobs: bool,
        /// JSON instead of text.
        #[arg(long)]
        json: bool,
    },
    /// Make all tables of the record again from its events.
    Rebuild {
        /// The run folder.
        run: PathBuf,
    },
}

pub async fn run(command: RunCommand) -> Result<Exit> {
    match command.look {
        Some(look) => self::look(look).await,
        None => run::run(command.work).await,
    }
}

async fn look(look: Look) -> Result<Exit> {
    match look {
        Look::Status { run, json } => {
            let status = view::status(&setup::existing_record(&run)?)?;
            match json {
                true => println!("{}", serde_json::to_string_pretty(&status)?),
                false => print!("{status}"),
            }
            Ok(Exit::Done)
        }
        Look::Events { run, follow, since, kind, json } => {
            let record = setup::existing_record(&run)?;
            let after = since.map_or(Ok(0), |since| begin(&record, &since))?;
            let shown = Shown { kind, json };
            events(&record, after, follow, &shown).await
        }
        Look::Lineage { run, json, graph } => {
            let lineage = view::lineage(&setup::existing_record(&run)?)?;
            match (json, graph) {
                (true, _) => println!("{}", serde_json::to_string_pretty(&lineage)?),
                (false, true) => print!("{}", lineage.graph()),
                (false, false) => print!("{lineage}"),
            }
            Ok(Exit::Done)
        }
        Look::Bisect(arguments) => bisect::run(arguments).await,
        Look::Export { run, out, no_blobs } => {
            let dumped = view::dump(&setup::existing_record(&run)?, &out, !no_blobs)?;
            println!(
                "{} events, {} episodes and {} blobs ({}) in {}",
                dumped.events,
                dumped.episodes,
                dumped.blobs,
                view::bytes(dumped.bytes),
                out.display()
            );
            Ok(Exit::Done)
        }
        Look::Verify { run, blobs, json } => verify(&run, blobs, json),
        Look::Rebuild { run } => {
            setup::existing_record(&run)?;
            let _lock = RunLock::take(&run, Duration::ZERO)?;
            let events = RunRecord::open(&run)?.rebuild()?;
            println!("all tables were made again from {events} events");
            Ok(Exit::Done)
        }
    }
}

fn verify(run: &Path, blobs: bool, json: bool) -> Result<Exit> {
    let audit = setup::existing_record(run)?.audit(blobs)?;
    if json {
        println!("{}", serde_json::to_string_pretty(&audit)?);
    } else {
        audit.faults.iter().for_each(|fault| println!("fault: {fault}"));
        let head = audit.head.map_or("nothing".into(), |head| head.to_string());
        let found = match audit.faults.len() {
            0 => "no fault".to_owned(),
            count => format!("{count} faults"),
        };
        let read = if blobs { format!(", {} records read", audit.blobs) } else { String::new() };
        println!("{found} in {} events, sealed by {head}{read}", audit.events);
    }
    Ok(if audit.faults.is_empty() { Exit::Done } else { Exit::No })
}

/// How events are shown.
struct Shown {
    kind: Option<String>,
    json: bool,
}

impl Shown {
    fn print(&self, out: &mut impl Write, event: &StoredEvent) -> Result<()> {
        if self.kind.as_ref().is_some_and(|kind| *kind != event.kind) {
            return Ok(());
        }
        if self.json {
            writeln!(out, "{}", serde_json::to_string(event)?)?;
        } else {
            let at = rfc3339(u64::try_from(event.at / 1000).unwrap_or(0));
            writeln!(out, "{:>6} {at} {}", event.seq, view::told(event).replace('\n', " "))?;
        }
        Ok(())
    }
}

async fn events(record: &RunRecord, mut after: i64, follow: bool, shown: &Shown) -> Result<Exit> {
    loop {
        let some = record.events(after, 500)?;
        let mut out = std::io::stdout().lock();
        for event in &some {
            shown.print(&mut out, event)?;
        }
        out.flush()?;
        drop(out);
        match (some.last(), follow) {
            (Some(last), _) => after = last.seq,
            (None, false) => return Ok(Exit::Done),
            (None, true) => tokio::time::sleep(Duration::from_millis(300)).await,
        }
    }
}

/// The number of the event before the first that is wanted.
fn begin(record: &RunRecord, since: &str) -> Result<i64> {
    if let Ok(number) = since.parse() {
        return Ok(number);
    }
    let unit = since.chars().last().and_then(|unit| match unit {
        's' => Some(1),
        'm' => Some(60),
        'h' => Some(3600),
        'd' => Some(86_400),
        _ => None,
    });
    let count = since.get(..since.len().saturating_sub(1)).and_then(|digits| digits.parse::<u64>().ok());
    let (count, unit) = count.zip(unit).with_context(|| {
        format!("`--since {since}` is neither a number of an event nor an age\nhelp: give `120`, or `90s`, `10m`, `2h`")
    })?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    let oldest = i64::try_from(now).unwrap_or(i64::MAX)
        - i64::try_from(count.saturating_mul(unit * 1000)).unwrap_or(i64::MAX);
    record.last_before(oldest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_host::store::Digest;

    #[test]
    fn every_kind_of_event_can_be_asked_for() {
        let digest = Digest::of(b"");
        let unknown = StoredEvent { seq: 1, at: 0, kind: "none".into(), body: "{}".into(), digest };
        let told = unknown.event().unwrap_err().root_cause().to_string();
        let (_, kinds) = told.split_once("expected one of ").unwrap();
        let kinds: Vec<_> = kinds.split(", ").map(|kind| kind.trim_matches('`')).collect();
        assert_eq!(kinds, KINDS);
    }
}
