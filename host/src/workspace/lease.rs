//! Who holds what on this machine, so that nothing outlives its owner?
//!
//! A process that makes workspaces has one *session* folder in each root. All that
//! it puts on the machine lies in that folder or has a record in it, written
//! before the thing itself is made. The owner locks the folder's `lock`, and the
//! kernel takes the lock back when it dies, however it dies: a session that
//! nobody locks is swept by the next start and by `tandem gc`.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use super::config::WorkspaceConfig;
use super::error::Error;
use super::gc;
use super::signals::heed_ignored_signals;

/// How the folder of a session is called: this and a number of its own.
pub(super) const PREFIX: &str = "tandem-";
/// A session that is being made, and not yet locked.
pub(super) const UNBORN: &str = ".tandem-new-";
/// The files of a session folder.
pub(super) const LOCK: &str = "lock";
pub(super) const OWNER: &str = "lease.json";
pub(super) const HELD: &str = "held";

/// The process that a session belongs to, for people and for [`gc`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    pub process: ProcessId,
    /// The command line of the owner, shortened.
    pub command: String,
    /// Seconds since 1970.
    pub since: u64,
}

/// A process that cannot be taken for a later one of the same number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessId {
    pub pid: u32,
    /// Clock ticks from boot to its start.
    pub started: u64,
    /// `/proc/sys/kernel/random/boot_id`.
    pub boot: String,
}

/// Something that would outlive its owner without a record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub(super) enum Held {
    /// A folder of the session, by name.
    Folder { name: String },
    /// A process and all that it started in its namespaces.
    Process { process: ProcessId },
    /// Processes of this user whose environment holds `mark`.
    Marked { mark: String },
    /// A container by name, behind the socket of an engine.
    Container { socket: String, name: String },
    /// Folders of the control-group file system.
    Cgroup { paths: Vec<PathBuf> },
}

/// A record with its expiry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    pub(super) held: Held,
    /// Seconds since 1970; past it [`gc`] takes the thing away from a living owner.
    pub(super) until: u64,
}

/// The folder of this process in one root. It goes with its last user.
#[derive(Debug)]
pub(super) struct Session {
    folder: PathBuf,
    next: AtomicU64,
    /// Locked as long as this process lives.
    _lock: File,
}

impl Session {
    /// The session of this process in a root: made at the first use, when what
    /// dead owners left there is swept.
    pub(super) fn of(config: &WorkspaceConfig) -> Result<Arc<Self>, Error> {
        static KNOWN: Mutex<BTreeMap<PathBuf, Weak<Session>>> = Mutex::new(BTreeMap::new());
        let root = config.root();
        // Held while a session is made: two at once would be two sessions of one process.
        let mut known = KNOWN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(session) = known.get(&root).and_then(Weak::upgrade) {
            return Ok(session);
        }
        let swept = gc::sweep(&root, gc::Act::Remove)?;
        heed_ignored_signals();
        if !swept.is_empty() {
            tracing::info!("an earlier run was ended from outside; removed what it left: {swept}");
        }
        let session = Arc::new(Self::make(&root)?);
        known.insert(root, Arc::downgrade(&session));
        Ok(session)
    }

    fn make(root: &Path) -> Result<Self, Error> {
        let unborn = tempfile::Builder::new()
            .prefix(UNBORN)
            .tempdir_in(root)
            .map_err(Error::io("making a folder in", root))?
            .keep();
        let in_folder = Error::io("making a lease in", &unborn);
        let write = || -> io::Result<File> {
            fs::set_permissions(&unborn, fs::Permissions::from_mode(0o711))?;
            fs::DirBuilder::new().mode(0o700).create(unborn.join(HELD))?;
            let lock = File::create_new(unborn.join(LOCK))?;
            if !lock_now(&lock)? {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            let owner = Owner {
                process: ProcessId::of(std::process::id())?,
                command: std::env::args().take(4).collect::<Vec<_>>().join(" ").chars().take(200).collect(),
                since: now(),
            };
            fs::write(unborn.join(OWNER), serde_json::to_vec(&owner)?)?;
            Ok(lock)
        };
        let lock = write().map_err(in_folder)?;
        let name = unborn.file_name().unwrap_or_default().to_string_lossy().replace(UNBORN, PREFIX);
        let folder = root.join(name);
        fs::rename(&unborn, &folder).map_err(Error::io("making", &folder))?;
        Ok(Self { folder, next: AtomicU64::new(0), _lock: lock })
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// A number that nothing else of the session has.
    pub(super) fn number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Records something before it is made; dropping the record takes it back.
    pub(super) fn hold(self: &Arc<Self>, held: Held, lease: Duration) -> Result<Lease, Error> {
        let path = self.folder.join(HELD).join(format!("{}.json", self.number()));
        let lease = Lease { session: self.clone(), path, held, lease, until: AtomicU64::new(0) };
        lease.renew()?;
        Ok(lease)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // Everything in it holds a reference: what is left are its own files.
        if let Err(error) = fs::remove_dir_all(&self.folder) {
            tracing::warn!("{} could not be removed: {error}", self.folder.display());
        }
    }
}

/// The record of one held thing. Dropping it says that the thing is gone.
#[derive(Debug)]
pub(super) struct Lease {
    session: Arc<Session>,
    path: PathBuf,
    held: Held,
    lease: Duration,
    until: AtomicU64,
}

impl Lease {
    pub(super) fn session(&self) -> &Arc<Session> {
        &self.session
    }

    /// Moves the expiry on; called whenever the thing is used. Writes at most
    /// ten times in a lease.
    pub(super) fn renew(&self) -> Result<(), Error> {
        let (seconds, now) = (self.lease.as_secs(), now());
        let until = now.saturating_add(seconds);
        if self.until.load(Ordering::Relaxed) + seconds / 10 >= until {
            return Ok(());
        }
        let record = Record { held: self.held.clone(), until };
        let bytes = serde_json::to_vec(&record).unwrap_or_default();
        let unfinished = self.path.with_extension("new");
        fs::write(&unfinished, bytes)
            .and_then(|()| fs::rename(&unfinished, &self.path))
            .map_err(Error::io("writing", &self.path))?;
        self.until.store(until, Ordering::Relaxed);
        Ok(())
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

impl ProcessId {
    /// Names a process that runs.
    pub(super) fn of(pid: u32) -> io::Result<Self> {
        let started = start_ticks(pid).ok_or(io::ErrorKind::NotFound)?;
        Ok(Self { pid, started, boot: boot_id()? })
    }

    /// Whether this very process still runs.
    pub(super) fn is_alive(&self) -> bool {
        start_ticks(self.pid) == Some(self.started) && boot_id().is_ok_and(|boot| boot == self.boot)
    }
}

/// The 22nd field of `/proc/PID/stat`: ticks from boot to the start.
fn start_ticks(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in brackets may hold anything; the fields after it are plain.
    let fields: Vec<_> = stat[stat.rfind(')')? + 1..].split_whitespace().collect();
    if fields.first() == Some(&"Z") {
        return None;
    }
    fields.get(19)?.parse().ok()
}

fn boot_id() -> io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}

/// Takes the lock unless a living process has it.
pub(super) fn lock_now(file: &File) -> io::Result<bool> {
    // SAFETY: an open descriptor.
    if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } == 0 {
        return Ok(true);
    }
    match io::Error::last_os_error() {
        error if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
        error => Err(error),
    }
}

/// Seconds since 1970.
pub(super) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}
