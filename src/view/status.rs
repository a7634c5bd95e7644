//! How far is a run? What a person asks of one that works, stands still or is done.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Result;
use serde::Serialize;
use tandem_host::store::Digest;

use crate::campaign::{
    END, EndReport, Event, KEPT, RunLock, RunRecord, StoredEvent, UpdateReport, gate_lines,
};
use crate::evolve::Verdict;

/// Everything that `tandem run status` shows.
#[derive(Debug, Serialize)]
pub struct Status {
    pub name: String,
    pub method: String,
    /// Whether a program works on it now.
    pub working: bool,
    /// Why it had no further round, once nothing is left to do.
    pub ended: Option<String>,
    /// The round that the newest event belongs to, and the rounds of the campaign.
    pub round: u32,
    pub rounds: Option<u64>,
    /// What the newest event says, and how long ago.
    pub last: Option<LastEvent>,
    pub policy_version: u64,
    /// The harness in force, and how many were published.
    pub harness: Option<Digest>,
    pub publications: usize,
    /// By use.
    pub episodes: BTreeMap<String, Counts>,
    pub gates: GateCounts,
    pub sampled_tokens: u64,
    pub teacher_tokens: u64,
    pub teacher_cost: f64,
    pub disk: Disk,
}

#[derive(Debug, Serialize)]
pub struct LastEvent {
    pub seq: i64,
    pub told: String,
    pub seconds_ago: u64,
    /// Seals all events of the run.
    pub digest: Digest,
}

/// Episodes of one use.
#[derive(Debug, Default, Serialize)]
pub struct Counts {
    pub episodes: usize,
    pub solved: usize,
    /// Without a verdict; in no rate.
    pub invalid: usize,
}

#[derive(Debug, Default, Serialize)]
pub struct GateCounts {
    pub begun: usize,
    pub accepted: usize,
    pub rejected: usize,
}

/// Bytes in the run's folder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Disk {
    pub record: u64,
    pub blobs: u64,
    pub checkpoints: u64,
    pub other: u64,
}

impl Disk {
    /// What the folder holds now.
    pub fn of(run: &Path) -> Self {
        let mut disk = Self::default();
        for entry in std::fs::read_dir(run).into_iter().flatten().flatten() {
            let bytes = Self::below(&entry.path());
            let name = entry.file_name();
            match name.to_string_lossy().as_ref() {
                "blobs" => disk.blobs += bytes,
                "checkpoints" => disk.checkpoints += bytes,
                name if name.starts_with("run.sqlite") => disk.record += bytes,
                _ => disk.other += bytes,
            }
        }
        disk
    }

    pub fn total(&self) -> u64 {
        self.record + self.blobs + self.checkpoints + self.other
    }

    /// Bytes of the files in a folder. They may go meanwhile: what is not there any more has none.
    pub fn below(path: &Path) -> u64 {
        let Ok(meta) = path.symlink_metadata() else { return 0 };
        if !meta.is_dir() {
            return meta.len();
        }
        let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
        entries.map(|entry| Self::below(&entry.path())).sum()
    }
}

/// Reads the status of a run.
pub fn status(record: &RunRecord) -> Result<Status> {
    let kept = std::fs::read_to_string(record.folder().join(KEPT)).unwrap_or_default();
    // Of any version: a word is all that is wanted.
    let campaign: serde_json::Value = serde_json::from_str(&kept).unwrap_or_default();
    let word = |key: &str| campaign[key].as_str().unwrap_or("unknown").to_owned();
    let mut episodes: BTreeMap<String, Counts> = BTreeMap::new();
    let (mut round, mut sampled_tokens) = (0, 0);
    for row in record.episodes()? {
        let counts = episodes.entry(row.arm.clone()).or_default();
        counts.episodes += 1;
        counts.solved += usize::from(row.solved());
        counts.invalid += usize::from(!row.valid());
        round = round.max(row.round);
        sampled_tokens += row.sampled_tokens;
    }
    let gates = gate_lines(record)?;
    let with = |verdict| gates.iter().filter(|gate| gate.verdict == Some(verdict)).count();
    let exchanges = record.exchanges()?;
    let publications = record.publications()?;
    let updates = record.phases::<UpdateReport>("update")?;
    let last = record.head()?.map(|stored| LastEvent {
        seq: stored.seq,
        told: told(&stored),
        seconds_ago: seconds_since(stored.at),
        digest: stored.digest,
    });
    Ok(Status {
        name: word("name"),
        method: word("method"),
        working: RunLock::is_held(record.folder()),
        ended: record.phases::<EndReport>(END)?.pop().map(|(.., end)| end.why),
        round,
        rounds: rounds_of(&campaign),
        last,
        policy_version: updates.iter().map(|(.., update)| update.version).max().unwrap_or(0),
        harness: publications.last().map(|publication| publication.digest),
        publications: publications.len(),
        episodes,
        gates: GateCounts {
            begun: gates.len(),
            accepted: with(Verdict::Accept),
            rejected: with(Verdict::Reject),
        },
        sampled_tokens,
        teacher_tokens: exchanges.iter().map(|row| row.prompt_tokens + row.reply_tokens).sum(),
        // The sum of no numbers is -0.0.
        teacher_cost: exchanges.iter().map(|row| row.cost).sum::<f64>() + 0.0,
        disk: Disk::of(record.folder()),
    })
}

/// As `CampaignConfig::all_rounds`, of a campaign that another program may have written.
fn rounds_of(campaign: &serde_json::Value) -> Option<u64> {
    let cycles = &campaign["self_hpo"];
    match campaign["method"].as_str() {
        Some("self-hpo") => cycles["cycles"].as_u64()?.checked_mul(cycles["updates"].as_u64()?),
        _ => campaign["rounds"].as_u64(),
    }
}

fn seconds_since(at: i64) -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    u64::try_from(now).unwrap_or(u64::MAX).saturating_sub(u64::try_from(at).unwrap_or(0)) / 1000
}

/// An event in a sentence.
pub fn told(stored: &StoredEvent) -> String {
    let Ok(event) = stored.event() else { return format!("`{}`, of another program version", stored.kind) };
    match event {
        Event::Upgraded { from, last } => {
            format!("the record was of layout {from}; events 1 to {last} were made from it")
        }
        Event::Episode(row) => format!(
            "episode {} under harness {}, policy v{}: {} after {} turns ({})",
            row.id,
            row.harness.short(),
            row.policy_version,
            row.outcome,
            row.turns,
            row.exit
        ),
        Event::Published(publication) => {
            format!("harness {} published: {}", publication.digest.short(), publication.reason)
        }
        Event::Built { plugin, language, name, .. } => {
            format!("plugin {name} built from {language}: {}", plugin.short())
        }
        Event::Phase { name, .. } if name == END => "the run ended: nothing is left to do".to_owned(),
        Event::Phase { round, name, report } => {
            format!("round {round}: {name} recorded ({} bytes)", report.len())
        }
        Event::Asked(asked) => format!("{} asked for {}", asked.model, asked.place),
        Event::Answered(answered) => {
            let why =
                if answered.reason.is_empty() { String::new() } else { format!(": {}", answered.reason) };
            format!("the teacher's try of event {}: {}{why}", answered.exchange, answered.outcome)
        }
        Event::CutOff { exchange } => format!("the teacher's try of event {exchange} was cut off"),
        Event::Skill { skill, .. } => format!("a skill for {}: {}", skill.task, skill.mechanism),
        Event::Thinned { episode, freed, .. } => {
            format!("turns of episode {episode} were given up: {}", bytes(freed))
        }
        Event::CheckpointDropped { version, freed } => {
            format!("checkpoint v{version} was given up: {}", bytes(freed))
        }
    }
}

/// Bytes for people.
pub fn bytes(count: u64) -> String {
    let mut value = count as f64;
    for unit in ["B", "KiB", "MiB", "GiB"] {
        if value < 1024.0 {
            let digits = usize::from(unit != "B");
            return format!("{value:.digits$} {unit}");
        }
        value /= 1024.0;
    }
    format!("{value:.1} TiB")
}

fn ago(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s ago"),
        120..7200 => format!("{} min ago", seconds / 60),
        _ => format!("{} h ago", seconds / 3600),
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match (self.working, &self.ended) {
            (true, _) => "a program works on it".to_owned(),
            (false, Some(why)) => format!("done: {why}"),
            (false, None) => "nothing works on it, and no end is recorded".to_owned(),
        };
        writeln!(f, "{} ({}): {state}", self.name, self.method)?;
        let rounds = self.rounds.map_or(String::new(), |rounds| format!(" of {rounds}"));
        let table = self.rounds.is_some_and(|rounds| u64::from(self.round) > rounds);
        let round = if table { "the final table".to_owned() } else { format!("{}{rounds}", self.round) };
        writeln!(f, "  round      {round}")?;
        if let Some(last) = &self.last {
            writeln!(f, "  last       {}, {}", last.told, ago(last.seconds_ago))?;
        }
        let harness = self.harness.map_or("none".into(), |digest| digest.short());
        writeln!(f, "  policy     v{}", self.policy_version)?;
        writeln!(f, "  harness    {harness}, {} published", self.publications)?;
        for (arm, counts) in &self.episodes {
            let valid = counts.episodes - counts.invalid;
            let rate = if valid == 0 { 0.0 } else { 100.0 * counts.solved as f64 / valid as f64 };
            let invalid = match counts.invalid {
                0 => String::new(),
                invalid => format!(", {invalid} without a verdict"),
            };
            writeln!(f, "  episodes   {:>6} {arm}: {rate:.1} % solved{invalid}", counts.episodes)?;
        }
        let GateCounts { begun, accepted, rejected } = &self.gates;
        let open = match begun - accepted - rejected {
            0 => String::new(),
            open => format!(", {open} not decided"),
        };
        writeln!(f, "  gates      {begun}: {accepted} accepted, {rejected} rejected{open}")?;
        writeln!(f, "  tokens     {} sampled", self.sampled_tokens)?;
        if self.teacher_tokens > 0 {
            writeln!(f, "  teachers   {} tokens, cost {:.4}", self.teacher_tokens, self.teacher_cost)?;
        }
        let Disk { record, blobs, checkpoints, other } = self.disk;
        writeln!(
            f,
            "  disk       {}: record {}, blobs {}, checkpoints {}, other {}",
            bytes(self.disk.total()),
            bytes(record),
            bytes(blobs),
            bytes(checkpoints),
            bytes(other)
        )?;
        match &self.last {
            Some(last) => writeln!(f, "  events     {}, sealed by {}", last.seq, last.digest),
            None => writeln!(f, "  events     none yet"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cycles_are_told_as_their_rounds_and_not_as_the_final_table() {
        let check = |campaign: serde_json::Value, expected: Option<u64>| {
            assert_eq!(rounds_of(&campaign), expected, "{campaign}");
        };
        let cycles = serde_json::json!({ "cycles": 2, "updates": 5 });
        check(serde_json::json!({ "method": "self-hpo", "rounds": 1, "self_hpo": cycles }), Some(10));
        check(serde_json::json!({ "method": "grpo", "rounds": 4, "self_hpo": cycles }), Some(4));
        check(serde_json::json!({ "method": "self-hpo", "rounds": 1 }), None);
        check(serde_json::json!({}), None);
    }
}
