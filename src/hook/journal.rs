//! What did hooks do in an agent, and what went wrong? A JSON object on each line.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

/// Bytes at which a journal becomes the old one.
const BYTES: u64 = 8 << 20;

/// A journal; it never fails: what cannot be written is not worth an agent's time.
#[derive(Clone, Debug)]
pub struct Journal(PathBuf);

impl Journal {
    pub fn new(path: PathBuf) -> Self {
        Self(path)
    }

    /// Adds a line with the time of day.
    pub fn write(&self, mut entry: Value) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis());
        entry["unix_ms"] = json!(u64::try_from(now).unwrap_or(u64::MAX));
        if fs::metadata(&self.0).is_ok_and(|meta| meta.len() > BYTES) {
            let _ = fs::rename(&self.0, self.0.with_extension("old.jsonl"));
        }
        let file = OpenOptions::new().append(true).create(true).mode(0o600).open(&self.0);
        let _ = file.and_then(|mut file| file.write_all(format!("{entry}\n").as_bytes()));
    }

    /// Adds what went wrong.
    pub fn trouble(&self, what: &str) {
        self.write(json!({"trouble": what}));
    }
}
