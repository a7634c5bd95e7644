//! Exchanges on disk: one JSON object a line, found by the digest of the request.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use tandem_host::store::Digest;

use super::backend::{Backend, Trouble};
use super::request::{TeacherReply, TeacherRequest, TeacherRole};

/// One line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordedExchange {
    /// [`TeacherRequest::digest`].
    pub request: Digest,
    pub role: TeacherRole,
    pub reply: TeacherReply,
}

/// Replays a file of exchanges.
pub struct Recorded {
    file: PathBuf,
    replies: BTreeMap<Digest, TeacherReply>,
}

impl Recorded {
    /// Reads all exchanges. Of a request that was recorded twice, the last reply counts.
    ///
    /// # Errors
    /// A file that cannot be read, and the first line that is no exchange.
    pub fn open(file: &Path) -> Result<Self, String> {
        let name = file.display();
        let text = fs::read_to_string(file).map_err(|error| {
            format!("the recorded exchanges {name} cannot be read: {error}\nhelp: check `exchanges`")
        })?;
        let mut replies = BTreeMap::new();
        for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let line: RecordedExchange = serde_json::from_str(line).map_err(|error| {
                let number = number + 1;
                format!("line {number} of {name} is no exchange: {error}\nhelp: `record` writes such files")
            })?;
            replies.insert(line.request, line.reply);
        }
        Ok(Self { file: file.to_owned(), replies })
    }
}

#[async_trait]
impl Backend for Recorded {
    async fn answer(&self, request: &TeacherRequest) -> Result<TeacherReply, Trouble> {
        let digest = request.digest();
        self.replies.get(&digest).cloned().ok_or_else(|| {
            Trouble::lasting(
                format!("{} holds no exchange for the request {}", self.file.display(), digest.short()),
                "prompts, evidence or an earlier reply changed since: record again with a model and `record`",
            )
        })
    }

    fn model(&self) -> String {
        self.file.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
    }
}

/// Appends one exchange and waits until it is on the disk.
pub fn append(file: &Path, request: &TeacherRequest, reply: &TeacherReply) -> std::io::Result<()> {
    let line = RecordedExchange { request: request.digest(), role: request.role, reply: reply.clone() };
    let mut text = serde_json::to_string(&line)?;
    text.push('\n');
    let mut file = fs::OpenOptions::new().create(true).append(true).open(file)?;
    // One write, so that programs that append to one file do not mix lines.
    file.write_all(text.as_bytes())?;
    file.sync_all()
}
