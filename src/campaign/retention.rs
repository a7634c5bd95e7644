//! What does a run give up when there is little room? Old checkpoints, and the turns and tokens of old
//! training episodes; never an event, a gate's episode, a harness or a plugin.
//!
//! What goes is an event first and gone afterwards, so a program that dies between the two does the rest at
//! the next start.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use tandem_host::agent::EpisodeRecord;
use tandem_host::policy::Message;
use tandem_host::store::{Digest, moment};

use super::events::Event;
use super::record::{Arm, EpisodeRow, RunRecord};
use super::reports::UpdateReport;
use crate::view::{Disk, bytes};

/// `[retention]`: what a run keeps. Unless given, everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RetentionConfig {
    /// Newest checkpoints of the policy that are kept beside the first; 0 keeps all.
    pub checkpoints: usize,
    /// Newest rounds whose training episodes keep every turn and token; 0 keeps those of all rounds. What
    /// gates and tables ran is kept whole.
    pub transcripts: u32,
    /// Most bytes of the run folder; 0 is no bound. Past it, older training episodes lose their turns and
    /// older checkpoints go, whatever the other keys say; what is left is an error.
    pub disk: u64,
}

impl RetentionConfig {
    /// Whether everything is kept.
    pub fn keeps_all(&self) -> bool {
        *self == Self::default()
    }
}

/// Whether an episode was run to be trained on.
fn is_training(row: &EpisodeRow) -> bool {
    [Arm::Collect, Arm::Skill, Arm::TopUp, Arm::Probe].iter().any(|arm| row.arm == arm.name())
}

/// Gives up what the settings allow after round `round`, whose phases are all done.
///
/// # Errors
/// When the run folder is over its bound and nothing more may go.
pub fn retain(record: &RunRecord, config: &RetentionConfig, round: u32) -> Result<()> {
    if config.keeps_all() {
        return Ok(());
    }
    finish_what_was_begun(record)?;
    let rows = record.episodes()?;
    // A run that goes on walks through its rounds from the first: those that are over gave up theirs before the
    // next one began, and the bound is not theirs to keep now.
    if rows.iter().any(|row| row.round > round) {
        return Ok(());
    }
    let training = |row: &&EpisodeRow| is_training(row) && !row.thinned && row.round <= round;
    if config.transcripts > 0 {
        let old = |row: &&EpisodeRow| row.round + config.transcripts <= round;
        for row in rows.iter().filter(training).filter(old) {
            thin(record, row)?;
        }
    }
    if config.checkpoints > 0 {
        for version in droppable(record, config.checkpoints)? {
            drop_checkpoint(record, version)?;
        }
    }
    if config.disk > 0 {
        keep_within(record, config.disk, round)?;
    }
    Ok(())
}

fn keep_within(record: &RunRecord, most: u64, round: u32) -> Result<()> {
    let mut held = Disk::of(record.folder()).total();
    let mut rows = record.episodes()?;
    rows.retain(|row| is_training(row) && !row.thinned && row.round <= round);
    rows.sort_by_key(|row| row.round);
    for row in &rows {
        if held <= most {
            return Ok(());
        }
        held = held.saturating_sub(thin(record, row)?);
    }
    for version in droppable(record, 1)? {
        if held <= most {
            return Ok(());
        }
        held = held.saturating_sub(drop_checkpoint(record, version)?);
    }
    let held = Disk::of(record.folder()).total();
    if held > most {
        bail!(
            "the run folder {} holds {}, `retention.disk` allows {}, and nothing more may be given up\nhelp: the bound cannot be changed in a run; start a new one with a higher bound",
            record.folder().display(),
            bytes(held),
            bytes(most)
        );
    }
    Ok(())
}

/// What is left of a record without its turns and tokens: all that gates, lineage and reports ask for.
fn thinned(mut record: EpisodeRecord) -> EpisodeRecord {
    record.segments = Vec::new();
    for turn in &mut record.turns {
        turn.input = Vec::new();
        turn.reply = Message { pieces: Vec::new(), tool_calls: Vec::new(), ..turn.reply.clone() };
        turn.calls = Vec::new();
        turn.condensed = None;
    }
    record
}

/// Gives up the turns of one episode; tells the bytes.
fn thin(record: &RunRecord, row: &EpisodeRow) -> Result<u64> {
    let whole = record.episode(row)?;
    let before = fs::metadata(record.blobs().path(&row.record)).map_or(0, |meta| meta.len());
    let less = serde_json::to_vec(&thinned(whole))?;
    let digest = record.blobs().put(&less)?;
    if digest == row.record {
        return Ok(0);
    }
    let freed = before.saturating_sub(less.len() as u64);
    let event = Event::Thinned { episode: row.id.clone(), was: row.record, record: digest, freed };
    record.append(|_| Ok(vec![event]))?;
    remove(record, &row.record)?;
    Ok(freed)
}

/// Removes a blob that no episode names any more.
fn remove(record: &RunRecord, digest: &Digest) -> Result<()> {
    if record.names_record(digest)? {
        return Ok(());
    }
    let path = record.blobs().path(digest);
    match fs::remove_file(&path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("{} cannot be removed", path.display()))
        }
        _ => {
            moment();
            Ok(())
        }
    }
}

/// Versions whose checkpoint may go: all but the first and the `keep` newest. A checkpoint of an update that was
/// killed before it was recorded does not count: the run goes on from the one before it.
fn droppable(record: &RunRecord, keep: usize) -> Result<Vec<u64>> {
    let updates = record.phases::<UpdateReport>("update")?;
    let recorded = updates.iter().map(|(.., update)| update.version).max().unwrap_or(0);
    let mut versions = checkpoints(record.folder())?;
    versions.retain(|version| *version <= recorded);
    let newest: BTreeSet<u64> = versions.iter().rev().take(keep.max(1)).copied().collect();
    Ok(versions.into_iter().filter(|version| *version > 0 && !newest.contains(version)).collect())
}

fn checkpoints(run: &Path) -> Result<BTreeSet<u64>> {
    let folder = run.join("checkpoints");
    let entries = match fs::read_dir(&folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(BTreeSet::new()),
        Err(error) => return Err(error).with_context(|| format!("{} cannot be read", folder.display())),
    };
    let version = |name: String| -> Option<u64> { name.strip_prefix('v')?.parse().ok() };
    Ok(entries
        .flatten()
        .filter_map(|entry| version(entry.file_name().to_string_lossy().into_owned()))
        .collect())
}

fn folder_of(record: &RunRecord, version: u64) -> PathBuf {
    record.folder().join("checkpoints").join(format!("v{version}"))
}

/// Gives up a checkpoint; tells the bytes.
fn drop_checkpoint(record: &RunRecord, version: u64) -> Result<u64> {
    let folder = folder_of(record, version);
    let freed = Disk::below(&folder);
    record.append(|_| Ok(vec![Event::CheckpointDropped { version, freed }]))?;
    remove_folder(&folder)?;
    Ok(freed)
}

/// A checkpoint is whole or absent, also while it goes.
fn remove_folder(folder: &Path) -> Result<()> {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    let aside = folder.with_file_name(format!(".dropped-{name}"));
    let _ = fs::remove_dir_all(&aside);
    let moved = fs::rename(folder, &aside);
    moment();
    match moved.and_then(|()| fs::remove_dir_all(&aside)) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("{} cannot be removed", folder.display()))
        }
        _ => Ok(()),
    }
}

/// Removes what events of an earlier start say is gone.
fn finish_what_was_begun(record: &RunRecord) -> Result<()> {
    for event in record.given_up()? {
        match event {
            Event::Thinned { was, .. } if record.blobs().contains(&was) => remove(record, &was)?,
            Event::CheckpointDropped { version, .. } if folder_of(record, version).exists() => {
                remove_folder(&folder_of(record, version))?;
            }
            _ => {}
        }
    }
    for entry in fs::read_dir(record.folder().join("checkpoints")).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(".dropped-") {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    use super::super::record::Place;
    use crate::evolve::testkit;

    /// A run with an episode of each use in each of four rounds, and checkpoints v0 to v4.
    fn run() -> (tempfile::TempDir, RunRecord) {
        let folder = tempfile::tempdir().unwrap();
        let record = RunRecord::open(folder.path()).unwrap();
        for round in 1..=4 {
            for arm in [Arm::Collect, Arm::GateCandidate, Arm::Evaluate] {
                let mut episode = testkit::episode("a");
                episode.turns[0].calls[0].result.text = format!("{round}{}", arm.name().repeat(500));
                episode.id = format!("r{round}/{}", arm.name());
                record.add_episode(&Place { round, arm, group: "g".into() }, &episode).unwrap();
            }
            let update = serde_json::json!({
                "version": round, "groups": 1, "mixed_groups": 1, "left_out": 0, "episodes": 8, "tokens": 9,
                "steps": [], "skipped": null,
            });
            record.end_phase(round, "update", &update).unwrap();
        }
        for version in 0..=4 {
            let checkpoint = folder.path().join(format!("checkpoints/v{version}"));
            fs::create_dir_all(&checkpoint).unwrap();
            fs::write(checkpoint.join("weights"), [7; 10_000]).unwrap();
        }
        (folder, record)
    }

    fn thinned_ids(record: &RunRecord) -> Vec<String> {
        record.episodes().unwrap().into_iter().filter(|row| row.thinned).map(|row| row.id).collect()
    }

    fn kept(record: &RunRecord) -> Vec<u64> {
        checkpoints(record.folder()).unwrap().into_iter().collect()
    }

    #[test]
    fn old_training_episodes_lose_their_turns_and_nothing_else_does() {
        let (_folder, record) = run();
        let before: Vec<_> = record.episodes().unwrap();
        let before_patch = record.episode(&before[0]).unwrap().patch;
        retain(&record, &RetentionConfig { transcripts: 2, ..Default::default() }, 4).unwrap();
        assert_eq!(thinned_ids(&record), ["r1/collect", "r2/collect"]);
        assert_eq!(kept(&record), [0, 1, 2, 3, 4]);
        let rows = record.episodes().unwrap();
        let old = rows.iter().find(|row| row.id == "r1/collect").unwrap();
        let error = record.episode(old).unwrap_err().to_string();
        assert!(error.starts_with("the turns of episode r1/collect were given up"), "{error}");
        // What reports and lineage ask for is there.
        let facts = record.episode_facts(old).unwrap();
        assert_eq!((facts.turns.len() as u64, facts.id.as_str()), (old.turns, "r1/collect"));
        assert!(facts.turns[0].calls.is_empty() && facts.patch == before_patch);
        assert!(!record.blobs().contains(&before[0].record), "the whole record is still there");
        assert!(rows.iter().filter(|row| !row.thinned).all(|row| record.episode(row).is_ok()));
        assert_eq!(record.audit(true).unwrap().faults, Vec::<String>::new());
        // Once more does nothing.
        let events = record.head().unwrap().unwrap().seq;
        retain(&record, &RetentionConfig { transcripts: 2, ..Default::default() }, 4).unwrap();
        assert_eq!(record.head().unwrap().unwrap().seq, events);
        record.rebuild().unwrap();
        assert_eq!(thinned_ids(&record), ["r1/collect", "r2/collect"]);
    }

    #[test]
    fn the_first_and_the_newest_checkpoints_stay() {
        let (_folder, record) = run();
        retain(&record, &RetentionConfig { checkpoints: 2, ..Default::default() }, 4).unwrap();
        assert_eq!(kept(&record), [0, 3, 4]);
        let dropped =
            record.events(0, 100).unwrap().into_iter().filter(|event| event.kind == "checkpoint-dropped");
        assert_eq!(dropped.count(), 2);
    }

    #[test]
    fn a_checkpoint_that_no_update_recorded_takes_no_recorded_one_with_it() {
        let (folder, record) = run();
        fs::create_dir_all(folder.path().join("checkpoints/v5")).unwrap();
        retain(&record, &RetentionConfig { checkpoints: 1, ..Default::default() }, 4).unwrap();
        assert_eq!(kept(&record), [0, 4, 5]);
    }

    #[test]
    fn a_round_that_is_over_gives_up_nothing_more_and_keeps_no_bound() {
        let (_folder, record) = run();
        let config = RetentionConfig { checkpoints: 1, transcripts: 1, disk: 1 };
        retain(&record, &config, 3).unwrap();
        assert_eq!(kept(&record), [0, 1, 2, 3, 4]);
        assert_eq!(thinned_ids(&record), Vec::<String>::new());
    }

    #[test]
    fn a_program_that_died_while_it_gave_up_does_the_rest() {
        let (folder, record) = run();
        let row = record.episodes().unwrap().remove(0);
        let whole = fs::read(record.blobs().path(&row.record)).unwrap();
        let config = RetentionConfig { checkpoints: 1, transcripts: 3, ..Default::default() };
        retain(&record, &config, 4).unwrap();
        // As if it had died after the events and before the removals.
        fs::write(record.blobs().path(&row.record), whole).unwrap();
        fs::create_dir_all(folder.path().join("checkpoints/v2")).unwrap();
        fs::create_dir_all(folder.path().join("checkpoints/.dropped-v3")).unwrap();
        retain(&record, &config, 4).unwrap();
        assert!(!record.blobs().contains(&row.record));
        assert_eq!(kept(&record), [0, 4]);
        assert!(!folder.path().join("checkpoints/.dropped-v3").exists());
    }

    #[test]
    fn the_bound_of_the_disk_takes_the_oldest_first_and_says_when_nothing_is_left() {
        let (_folder, record) = run();
        let held = Disk::of(record.folder()).total();
        let bound = |disk| RetentionConfig { disk, ..Default::default() };
        retain(&record, &bound(held), 4).unwrap();
        assert_eq!(thinned_ids(&record), Vec::<String>::new());
        retain(&record, &bound(held - 1_000), 4).unwrap();
        assert_eq!(thinned_ids(&record), ["r1/collect"]);
        let error = retain(&record, &bound(1_000), 4).unwrap_err().to_string();
        assert_eq!(thinned_ids(&record).len(), 4);
        assert_eq!(kept(&record), [0, 4]);
        assert!(
            error.contains("`retention.disk` allows 1000 B, and nothing more may be given up"),
            "{error}"
        );
    }
}
