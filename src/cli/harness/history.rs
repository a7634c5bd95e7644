//! What was published here, and how is a harness of before made current again?

use anyhow::{Result, bail};
use tandem_host::harness::{Base, LedgerEntry, PublicationKind};

use super::place::Place;
use super::{Actor, publish};
use crate::cli::Exit;

/// `activate`: a harness of before, or that of a file.
pub async fn activate(
    word: &str,
    reason: Option<String>,
    by: &Actor,
    place: &Place,
    json: bool,
) -> Result<Exit> {
    let found = place.find(word)?;
    let digest = found.manifest.digest();
    let (_, known) = known(place, found.file)?;
    let (kind, default) = match known.iter().any(|entry| entry.harness == digest) {
        true => (PublicationKind::Activate, format!("{} again", digest.short())),
        false => (PublicationKind::Publish, format!("the harness of {word}")),
    };
    let reason = reason.unwrap_or(default);
    publish::make_current(place, &found.manifest, kind, reason, by, Base::Any, json).await
}

/// `rollback`: the harness before, or an earlier one.
pub async fn rollback(
    to: &str,
    reason: Option<String>,
    by: &Actor,
    place: &Place,
    json: bool,
) -> Result<Exit> {
    let (last, log) = known(place, false)?;
    let home = place.open()?;
    let digest = home.resolve(to)?;
    if log.iter().all(|entry| entry.harness != digest) {
        bail!(
            "the harness {} was never current here, so nothing rolls back to it\nhelp: `tandem harness activate {}` makes it current",
            digest.short(),
            digest.short()
        );
    }
    let reason = reason.unwrap_or_else(|| format!("back to {}", digest.short()));
    let manifest = home.manifest(&digest)?;
    // What comes before depends on the ledger: somebody else's entry makes it another question.
    let base = Base::Entry(last);
    publish::make_current(place, &manifest, PublicationKind::Rollback, reason, by, base, json).await
}

/// The number of the last entry, and all entries; nothing where a file may be the first harness.
fn known(place: &Place, may_be_new: bool) -> Result<(u64, Vec<LedgerEntry>)> {
    let log = match (place.open(), may_be_new) {
        (Ok(home), _) => home.log()?,
        (Err(_), true) => Vec::new(),
        (Err(error), false) => return Err(error),
    };
    Ok((log.last().map_or(0, |entry| entry.number), log))
}

/// `log`.
pub fn log(place: &Place, json: bool) -> Result<Exit> {
    let log = place.open()?.log()?;
    if log.is_empty() && !json {
        println!("nothing is published in {} yet", place.dir().display());
    }
    for (at, entry) in log.iter().enumerate() {
        if json {
            println!("{}", serde_json::to_string(entry)?);
            continue;
        }
        let current = if at + 1 == log.len() { "  (current)" } else { "" };
        println!(
            "{:<4}  {}  {:<8}  {}  by {}{current}",
            entry.number,
            entry.at,
            entry.kind.name(),
            entry.harness.short(),
            entry.actor
        );
        for line in entry.reason.lines() {
            println!("      {line}");
        }
        for (plugin, source) in &entry.sources {
            println!("      {plugin} was built from the source {}", source.short());
        }
    }
    Ok(Exit::Done)
}
