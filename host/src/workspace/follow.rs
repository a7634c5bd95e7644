//! How is a running command followed to its end or to a limit?

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::Instant;

use super::command::Sink;
use super::disk;

/// The first look at the disk after a command started, and the least time between two.
const FIRST_LOOK: Duration = Duration::from_millis(250);
/// Looking at the disk takes at most one part in this many of the time.
const LOOK_SHARE: u32 = 20;
/// The exit code of a command that took too much space: 128 and `SIGXFSZ`.
const TOO_LARGE: i32 = 153;

/// What a command is held to while it runs.
#[derive(Clone, Debug)]
pub(super) struct Watch {
    /// Wall-clock time that it may take.
    pub(super) timeout: Duration,
    /// Time without output that it may take.
    pub(super) silent: Option<Duration>,
    /// The space that its workspace may take.
    pub(super) space: Option<Arc<Space>>,
    pub(super) until: Until,
}

/// When a command is at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Until {
    /// When all that could write have closed the output, and it ended.
    OutputEnds,
    /// When it ended, whatever its background children still write.
    CommandEnds,
}

/// The folders that a workspace writes to and what they may take together.
#[derive(Debug)]
pub(super) struct Space {
    pub(super) folders: Vec<PathBuf>,
    /// Bytes beyond `base`.
    pub(super) limit: u64,
    /// What the task's own files take in `folders`.
    pub(super) base: u64,
    /// Bytes at the last look: a full workspace may still be tidied up.
    pub(super) last: AtomicU64,
}

/// Why a command was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    Deadline,
    Silence { limit: Duration },
    Space { used: u64, limit: u64 },
}

impl Stop {
    /// The exit code to give, and a line for the end of the output.
    pub(super) fn told(self) -> (Option<i32>, String) {
        match self {
            Self::Deadline => (None, String::new()),
            Self::Silence { limit } => {
                (None, format!("\n[stopped: no output for {} seconds]\n", limit.as_secs()))
            }
            Self::Space { used, limit } => (
                Some(TOO_LARGE),
                format!(
                    "\n[stopped: the workspace takes {used} bytes on the disk and the limit is {limit}]\n"
                ),
            ),
        }
    }
}

/// Reads the output into `sink` until the command is at its end. Gives a
/// [`Stop`] when a limit is hit first; the command still runs then.
///
/// # Errors
/// Output that cannot be read, or what `ended` says.
pub(super) async fn follow<T>(
    mut output: impl AsyncRead + Unpin,
    sink: &mut Sink,
    watch: &Watch,
    ended: impl Future<Output = io::Result<T>>,
) -> io::Result<Result<T, Stop>> {
    let deadline = Instant::now() + watch.timeout;
    let mut chunk = vec![0; 64 << 10];
    let mut heard = Instant::now();
    let mut look = Instant::now() + FIRST_LOOK;
    let mut open = true;
    tokio::pin!(ended);
    loop {
        let silence = watch.silent.map(|silent| heard + silent);
        tokio::select! {
            biased;
            () = tokio::time::sleep_until(deadline) => return Ok(Err(Stop::Deadline)),
            () = until(silence), if silence.is_some() => {
                return Ok(Err(Stop::Silence { limit: watch.silent.unwrap_or_default() }));
            }
            () = tokio::time::sleep_until(look), if watch.space.is_some() => {
                let start = Instant::now();
                if let Some(space) = &watch.space
                    && let Some(stop) = space.look().await
                {
                    return Ok(Err(stop));
                }
                look = Instant::now() + FIRST_LOOK.max(start.elapsed() * LOOK_SHARE);
            }
            count = output.read(&mut chunk), if open => match count? {
                0 => open = false,
                count => {
                    heard = Instant::now();
                    sink.push(&chunk[..count]);
                }
            },
            ended = &mut ended, if !open || watch.until == Until::CommandEnds => return Ok(Ok(ended?)),
        }
    }
}

/// Reads what is still in the pipe, for at most `time`.
pub(super) async fn drain(mut output: impl AsyncRead + Unpin, sink: &mut Sink, time: Duration) {
    let mut chunk = vec![0; 64 << 10];
    let read = async {
        while let Ok(count @ 1..) = output.read(&mut chunk).await {
            sink.push(&chunk[..count]);
        }
    };
    let _ = tokio::time::timeout(time, read).await;
}

async fn until(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}

impl Space {
    /// A stop when the folders are past the limit and have grown since the last look.
    async fn look(self: &Arc<Self>) -> Option<Stop> {
        let space = self.clone();
        let enough = self.base + self.limit;
        let used = tokio::task::spawn_blocking(move || disk::used(&space.folders, enough)).await.ok()?;
        let used = used.saturating_sub(self.base);
        let last = self.last.swap(used, Ordering::Relaxed);
        let stop = (used > self.limit && used > last).then_some(Stop::Space { used, limit: self.limit });
        if stop.is_some() {
            // What it still writes before it is dead is no growth of the next command.
            self.last.store(u64::MAX, Ordering::Relaxed);
        }
        stop
    }
}
