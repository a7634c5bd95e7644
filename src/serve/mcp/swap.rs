//! When does a running server serve another harness? When the ledger of its home says so: it watches it,
//! and is told.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result};
use tandem_host::harness::{Generation, HarnessHome, LedgerEntry};
use tandem_host::plugin::{AdmissionOptions, Engine};
use tokio::sync::Mutex;

use super::server::{Server, has_tools};
use crate::serve::audit::{Audit, AuditLine};
use crate::serve::control::{Ask, Told};

/// How often the ledger is looked at.
const WATCH: Duration = Duration::from_secs(1);
/// The longest pause before a harness that could not be served is tried again.
const LONGEST: Duration = Duration::from_secs(60);

/// Swaps the harness of a server.
pub struct Swapper {
    pub server: Arc<Server>,
    pub home: PathBuf,
    pub engine: Engine,
    pub admission: AdmissionOptions,
    pub audit: Option<Audit>,
    /// The entry that was looked at last; one swap at a time.
    pub seen: Mutex<u64>,
}

impl Swapper {
    /// Serves the current harness of the home from now on. Sessions that are open keep theirs.
    ///
    /// # Errors
    /// When the ledger cannot be read or the harness cannot be built: the server goes on with the one before.
    pub async fn follow(&self) -> Result<()> {
        let mut seen = self.seen.lock().await;
        let Some(entry) = HarnessHome::open(&self.home)?.log()?.pop() else { return Ok(()) };
        let before = self.server.lease().digest();
        if entry.harness != before {
            match self.build(&entry).await {
                Ok(next) => {
                    // The line is on the device before anybody is served by it.
                    self.tell("swap", &entry, Some(before.to_string()), None)?;
                    self.server.publish(next);
                }
                Err(error) if entry.number != *seen => {
                    let said = format!("{error:#}").split("\nhelp: ").next().unwrap_or_default().to_owned();
                    self.tell("refused", &entry, Some(before.to_string()), Some(said))?;
                    *seen = entry.number;
                    return Err(error);
                }
                Err(error) => return Err(error),
            }
        }
        *seen = entry.number;
        Ok(())
    }

    async fn build(&self, entry: &LedgerEntry) -> Result<Arc<Generation>> {
        let home = HarnessHome::open(&self.home)?;
        let manifest = home.manifest(&entry.harness)?;
        let built = Generation::build_with(&self.engine, manifest, home.blobs(), &self.admission).await;
        let generation =
            built.with_context(|| format!("the harness {} cannot be served", entry.harness.short()))?;
        if !has_tools(&generation) && !self.server.offers_bash() {
            tracing::warn!("the harness {} has no tools", entry.harness.short());
        }
        Ok(generation)
    }

    fn tell(
        &self,
        what: &'static str,
        entry: &LedgerEntry,
        from: Option<String>,
        error: Option<String>,
    ) -> Result<()> {
        let Some(audit) = &self.audit else { return Ok(()) };
        audit.add(AuditLine {
            what,
            entry: Some(entry.number),
            kind: Some(entry.kind.name()),
            from,
            harness: entry.harness.to_string(),
            actor: Some(entry.actor.clone()),
            reason: Some(entry.reason.clone()),
            sessions: self.server.sessions(),
            error,
            ..AuditLine::default()
        })
    }

    /// Notes the start or the end of the server.
    ///
    /// # Errors
    /// When the line is not on the device.
    pub fn note(&self, what: &'static str) -> Result<()> {
        let Some(audit) = &self.audit else { return Ok(()) };
        let (harness, sessions) = (self.server.lease().digest().to_string(), self.server.sessions());
        audit.add(AuditLine { what, harness, sessions, ..AuditLine::default() })
    }

    /// Answers on the control socket.
    pub async fn answer(&self, ask: Ask) -> Told {
        if ask == Ask::Follow
            && let Err(error) = self.follow().await
        {
            let reason = format!("{error:#}").split("\nhelp: ").next().unwrap_or_default().to_owned();
            return Told::Refused { reason };
        }
        Told::Serving {
            home: self.home.clone(),
            harness: self.server.lease().digest().to_string(),
            sessions: self.server.sessions(),
        }
    }

    /// Looks at the ledger again and again, and follows it. What fails is tried again, after longer and
    /// longer pauses.
    pub async fn watch(&self) {
        let ledger = self.home.join("ledger");
        // Nothing was seen yet: something may have been published after the harness was chosen.
        let mut before: Option<SystemTime> = None;
        let (mut pause, mut again) = (WATCH, None::<Instant>);
        loop {
            let now = changed(&ledger);
            if now != before {
                (before, pause, again) = (now, WATCH, Some(Instant::now()));
            }
            if again.is_some_and(|again| again <= Instant::now()) {
                again = None;
                if let Err(error) = self.follow().await {
                    tracing::error!("{error:#}");
                    again = Some(Instant::now() + pause);
                    pause = (pause * 2).min(LONGEST);
                }
            }
            tokio::time::sleep(WATCH).await;
        }
    }
}

/// When something was last put into a folder.
fn changed(folder: &Path) -> Option<SystemTime> {
    std::fs::metadata(folder).ok()?.modified().ok()
}
