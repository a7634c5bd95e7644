//! How does a run leave as files that any program reads? JSON lines and blobs, as of one moment.

use std::fs;
use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde::Serialize;
use serde_json::{Value, json};
use tandem_host::store::Digest;

use crate::campaign::{KEPT, RunRecord};

/// What was written.
#[derive(Debug, Serialize)]
pub struct Dumped {
    pub events: i64,
    pub head: Option<Digest>,
    pub episodes: usize,
    pub blobs: usize,
    pub bytes: u64,
}

/// Writes a run into the new folder `out`, as it was at one moment; blobs only if asked.
///
/// # Errors
/// A folder that is there, files that cannot be written.
pub fn dump(record: &RunRecord, out: &Path, with_blobs: bool) -> Result<Dumped> {
    if out.exists() {
        bail!("{} is there already\nhelp: name a new folder", out.display());
    }
    fs::create_dir_all(out).with_context(|| format!("{} cannot be made", out.display()))?;
    // All that is read below is of this moment.
    let moment = record.moment()?;
    let head = record.head()?;
    let mut events = Lines::new(out, "events.jsonl")?;
    let mut after = 0;
    loop {
        let some = record.events(after, 1000)?;
        let Some(last) = some.last() else { break };
        after = last.seq;
        some.iter().try_for_each(|event| events.add(event))?;
    }
    events.end()?;
    let rows = record.episodes()?;
    let mut episodes = Lines::new(out, "episodes.jsonl")?;
    rows.iter().try_for_each(|row| episodes.add(row))?;
    episodes.end()?;
    let mut publications = Lines::new(out, "publications.jsonl")?;
    let mut harnesses = Lines::new(out, "harnesses.jsonl")?;
    for publication in record.publications()? {
        publications.add(&publication)?;
        let manifest = record.harness(&publication.digest)?;
        let manifest: Value = serde_json::from_str(&manifest.canonical_json())?;
        harnesses.add(&json!({ "digest": publication.digest, "manifest": manifest }))?;
    }
    publications.end()?;
    harnesses.end()?;
    let mut phases = Lines::new(out, "phases.jsonl")?;
    for (round, name, report) in record.phases::<Value>("")? {
        phases.add(&json!({ "round": round, "name": name, "report": report }))?;
    }
    phases.end()?;
    let mut exchanges = Lines::new(out, "exchanges.jsonl")?;
    record.exchanges()?.iter().try_for_each(|row| exchanges.add(row))?;
    exchanges.end()?;
    drop(moment);
    let kept = record.folder().join(KEPT);
    if kept.exists() {
        fs::copy(&kept, out.join(KEPT)).with_context(|| format!("{} cannot be copied", kept.display()))?;
    }
    let (mut blobs, mut bytes) = (0, 0);
    if with_blobs {
        fs::create_dir(out.join("blobs"))?;
        for entry in fs::read_dir(record.blobs().dir())? {
            let entry = entry?;
            let name = entry.file_name();
            // What is being written has another name.
            if name.len() != 64 {
                continue;
            }
            let to = out.join("blobs").join(&name);
            match fs::copy(entry.path(), &to) {
                Ok(count) => bytes += count,
                // Retention took it meanwhile; the events tell.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                Err(error) => {
                    return Err(error).with_context(|| format!("{} cannot be written", to.display()));
                }
            }
            blobs += 1;
        }
    }
    let dumped = Dumped {
        events: head.as_ref().map_or(0, |head| head.seq),
        head: head.map(|head| head.digest),
        episodes: rows.len(),
        blobs,
        bytes,
    };
    let about = json!({
        "layout": 1,
        "program": env!("CARGO_PKG_VERSION"),
        "written": dumped,
        "files": {
            "events.jsonl": "what happened, in order: seq, at (milliseconds since 1970), kind, body, digest",
            "episodes.jsonl": "episodes; `record` names the blob that is the whole record, as JSON",
            "publications.jsonl": "harnesses in force, oldest first",
            "harnesses.jsonl": "their manifests; plugins are named by the blob of their component",
            "phases.jsonl": "reports of phases: diagnoses, proposals, plans and ends of gates, updates",
            "exchanges.jsonl": "exchanges with teachers; requests and replies are blobs",
            "campaign.json": "the campaign that the run began with",
            "blobs": "files named by the hexadecimal SHA-256 of their bytes",
        },
    });
    fs::write(out.join("export.json"), serde_json::to_vec_pretty(&about)?)?;
    Ok(dumped)
}

/// A file with a JSON value on each line.
struct Lines(BufWriter<fs::File>);

impl Lines {
    fn new(out: &Path, name: &str) -> Result<Self> {
        let path = out.join(name);
        let file = fs::File::create(&path).with_context(|| format!("{} cannot be made", path.display()))?;
        Ok(Self(BufWriter::new(file)))
    }

    fn add(&mut self, value: &impl Serialize) -> Result<()> {
        serde_json::to_writer(&mut self.0, value)?;
        Ok(self.0.write_all(b"\n")?)
    }

    fn end(mut self) -> Result<()> {
        self.0.flush()?;
        Ok(self.0.get_ref().sync_all()?)
    }
}
