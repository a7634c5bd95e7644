//! `tandem export`: recorded episodes in the formats of other programs.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use serde_json::Value;
use tandem_host::agent::{EpisodeRecord, export};
use tandem_host::store::write_whole;

use super::{Exit, setup};

#[derive(Args)]
pub struct ExportArguments {
    /// The folder of a run, or a file that `tandem episode --json` wrote.
    run: PathBuf,
    /// Ids of episodes; without them all that have an outcome.
    episodes: Vec<String>,
    /// What to write.
    #[arg(long, value_enum)]
    format: Format,
    /// The folder to write to; it is made if it is not there.
    #[arg(long)]
    out: PathBuf,
}

/// What to write.
#[derive(Clone, Copy, ValueEnum)]
enum Format {
    /// ATIF v1.8, the trajectory format of Harbor: one file for each episode.
    Atif,
    /// OpenAI chat: one file, `episodes.jsonl`, with a line for each episode.
    Chat,
    /// mini-SWE-agent: `NAME.traj.json` for each episode.
    Traj,
}

/// `tandem export`.
pub fn run(arguments: &ExportArguments) -> Result<Exit> {
    let out = &arguments.out;
    std::fs::create_dir_all(out).with_context(|| format!("{} cannot be made", out.display()))?;
    let write = |name: &str, bytes: &[u8]| {
        let path = out.join(name);
        write_whole(&path, bytes).with_context(|| format!("{} cannot be written", path.display()))
    };
    let pretty = |value: &Value| serde_json::to_vec_pretty(value).map(|text| [&text[..], b"\n"].concat());
    let (mut count, mut lines) = (0, Vec::new());
    each(&arguments.run, &arguments.episodes, |record| {
        count += 1;
        match arguments.format {
            Format::Atif => {
                write(&format!("{}.json", file_name(&record.id)), &pretty(&export::atif(&record))?)
            }
            Format::Traj => {
                write(&format!("{}.traj.json", file_name(&record.id)), &pretty(&export::traj(&record))?)
            }
            Format::Chat => {
                serde_json::to_writer(&mut lines, &export::chat(&record))?;
                lines.push(b'\n');
                Ok(())
            }
        }
    })?;
    if matches!(arguments.format, Format::Chat) {
        write("episodes.jsonl", &lines)?;
    }
    println!("{count} episodes in {}", out.display());
    Ok(Exit::Done)
}

/// Reads the episodes of a run, or of a file, one after the other: a run may hold more than fits in memory.
pub(super) fn each(
    run: &Path,
    ids: &[String],
    mut with: impl FnMut(EpisodeRecord) -> Result<()>,
) -> Result<()> {
    if run.is_file() {
        let text = std::fs::read(run).with_context(|| format!("{} cannot be read", run.display()))?;
        let record: EpisodeRecord = serde_json::from_slice(&text).with_context(|| {
            format!(
                "{} is no record of an episode\nhelp: `tandem episode TASK --json` writes one",
                run.display()
            )
        })?;
        if let Some(other) = ids.iter().find(|id| **id != record.id) {
            bail!(
                "{} holds the episode `{}` and not `{other}`\nhelp: leave the id out",
                run.display(),
                record.id
            );
        }
        return with(record);
    }
    let runs = setup::existing_record(run)?;
    let mut rows = runs.episodes()?;
    if ids.is_empty() {
        rows.retain(|row| row.valid() && !row.thinned);
    } else {
        if let Some(id) = ids.iter().find(|id| rows.iter().all(|row| row.id != **id)) {
            bail!("the run has no episode `{id}`\nhelp: leave out the ids to take all");
        }
        rows.retain(|row| ids.contains(&row.id));
    }
    rows.iter().try_for_each(|row| with(runs.episode(row)?))
}

/// An id as the name of a file: two ids never have one name.
fn file_name(id: &str) -> String {
    let mut name = String::new();
    for byte in id.bytes() {
        match byte {
            b'/' => name.push('~'),
            b'.' if !name.is_empty() => name.push('.'),
            b'-' | b'_' => name.push(byte.into()),
            _ if byte.is_ascii_alphanumeric() => name.push(byte.into()),
            _ => name.push_str(&format!("%{byte:02X}")),
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::file_name;

    #[test]
    fn an_id_is_a_name_within_the_folder() {
        let check = |id: &str, name: &str| assert_eq!(file_name(id), name);
        check("r0/collect/add/3", "r0~collect~add~3");
        check("../../etc/a", "%2E.~..~etc~a");
        check("a b~é", "a%20b%7E%C3%A9");
    }
}
