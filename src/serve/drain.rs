//! How does a server end? It takes no more work, finishes what it has, and a second signal ends it at once.

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// Whether a server still takes work; clones speak of the same one.
#[derive(Clone)]
pub struct Drain(Arc<watch::Sender<bool>>);

impl Default for Drain {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(false)))
    }
}

impl Drain {
    /// No more work is taken from now on.
    pub fn begin(&self) {
        self.0.send_replace(true);
    }

    pub fn has_begun(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits until no more work is taken.
    pub async fn begun(&self) {
        // The sender is held by this very value.
        let _ = self.0.subscribe().wait_for(|begun| *begun).await;
    }
}

/// How a server came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Everything that was begun was finished.
    Drained,
    /// A second signal, or the time to drain was over.
    Cut,
}

/// Runs `server` until it ends by itself after the first SIGTERM or SIGINT, which begins `drain`; not
/// longer than `limit` after it, and not beyond a second signal.
///
/// # Errors
/// Those of the server, and signals that cannot be listened to.
pub async fn until_signal(
    drain: &Drain,
    limit: Duration,
    server: impl Future<Output = Result<()>>,
) -> Result<Ended> {
    let what = "signals cannot be listened to";
    let mut terminate = signal(SignalKind::terminate()).context(what)?;
    let mut interrupt = signal(SignalKind::interrupt()).context(what)?;
    let mut server = std::pin::pin!(server);
    tokio::select! {
        ended = &mut server => return ended.map(|()| Ended::Drained),
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    drain.begin();
    // Whoever started the server may have closed its standard error; requests are finished all the same.
    let _ = writeln!(
        std::io::stderr(),
        "stopping: what is under way is finished, for at most {} seconds; once more ends it at once",
        limit.as_secs_f64()
    );
    tokio::select! {
        ended = &mut server => ended.map(|()| Ended::Drained),
        _ = terminate.recv() => Ok(Ended::Cut),
        _ = interrupt.recv() => Ok(Ended::Cut),
        () = tokio::time::sleep(limit) => {
            tracing::warn!("requests were still running after {} seconds and are cut off", limit.as_secs());
            Ok(Ended::Cut)
        }
    }
}
