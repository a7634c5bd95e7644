//! What did a server serve, and who made it do so? A file of lines that only grows.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result};
use serde::Serialize;
use tandem_host::harness::utc_now;

/// One line: JSON, on the device before the thing that it tells of is done.
#[derive(Clone, Debug, Default, Serialize)]
pub struct AuditLine {
    pub at: String,
    /// `start`, `swap`, `refused`, `stop`.
    pub what: &'static str,
    pub pid: u32,
    /// The entry of the ledger, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entry: Option<u64>,
    /// `publish`, `activate` or `rollback`, as in the ledger.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    pub harness: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub actor: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Sessions that were open.
    pub sessions: usize,
    /// Why a harness is not served.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// The file.
pub struct Audit {
    path: PathBuf,
    file: Mutex<File>,
}

impl Audit {
    /// Opens the file, which only its owner can read, or makes it.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn open(path: &Path) -> Result<Self> {
        let file = OpenOptions::new().append(true).create(true).mode(0o600).open(path);
        let file = file.with_context(|| {
            format!(
                "the audit file {} cannot be written\nhelp: name another with `--audit FILE`",
                path.display()
            )
        })?;
        Ok(Self { path: path.to_owned(), file: Mutex::new(file) })
    }

    /// Adds a line; time and process are put in.
    ///
    /// # Errors
    /// When it is not on the device.
    pub fn add(&self, line: AuditLine) -> Result<()> {
        let line = AuditLine { at: utc_now(), pid: std::process::id(), ..line };
        let text = format!("{}\n", serde_json::to_string(&line)?);
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        // One call, so that servers that share the file do not mix their lines.
        let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
        written.with_context(|| format!("the audit file {} cannot be written", self.path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_added_and_never_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.jsonl");
        for what in ["start", "stop"] {
            let audit = Audit::open(&path).unwrap();
            audit.add(AuditLine { what, harness: "sha256:a".into(), ..AuditLine::default() }).unwrap();
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<serde_json::Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.len(), 2);
        assert_eq!((&lines[0]["what"], &lines[1]["what"]), (&"start".into(), &"stop".into()));
        assert_eq!(lines[0]["pid"], std::process::id());
        assert!(lines[0].get("error").is_none());
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }
}
