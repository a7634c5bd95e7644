//! Demonstrations: conversations that solved their task, for the supervised warm-up.
//!
//! They are recorded by the real agent loop from scripted replies, so prompts and
//! observations are exactly those that the policy will meet later.

use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use tandem_host::agent::{EpisodeRecord, Outcome};
use tandem_host::policy::Role;

/// One conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Demonstration {
    pub task: String,
    pub messages: Vec<DemoMessage>,
}

/// One message in the shape of chat completions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DemoMessage {
    pub role: Role,
    pub content: String,
}

impl Demonstration {
    /// The conversation of an episode, if it solved its task.
    pub fn of(episode: &EpisodeRecord) -> Option<Self> {
        if episode.outcome != Outcome::Solved {
            return None;
        }
        let messages = episode.turns.iter().flat_map(|turn| turn.input.iter().chain([&turn.reply]));
        let messages =
            messages.map(|message| DemoMessage { role: message.role, content: message.text() }).collect();
        Some(Self { task: episode.task.clone(), messages })
    }
}

/// Writes demonstrations, one JSON object a line.
pub fn write(path: &Path, demonstrations: &[Demonstration]) -> Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(folder)
        .with_context(|| format!("no file can be made in {}", folder.display()))?;
    for demonstration in demonstrations {
        serde_json::to_writer(&mut file, demonstration)?;
        file.write_all(b"\n")?;
    }
    file.as_file().sync_all()?;
    file.persist(path).with_context(|| format!("{} cannot be written", path.display()))?;
    Ok(())
}
