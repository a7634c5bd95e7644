//! How does a large work tree start without a copy? As an overlay of the kernel.
//!
//! A small process, the keeper, has a user and a mount namespace of its own with
//! the overlay in it: nothing is mounted on the host. Commands and the host's
//! git enter its namespaces; the host's file work goes through an open folder.
//! The keeper reads from a pipe that this process holds and ends with it, and
//! its mounts end with the keeper.

use std::ffi::OsString;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use super::bubblewrap::{Launcher, hold_process};
use super::config::{Files, WorkspaceConfig};
use super::error::Error;
use super::lease::{Lease, Session};
use super::programs::find_program;
use super::resident::close_on_exec;

/// Entries from which an overlay is quicker than a copy.
const MANY_ENTRIES: u64 = 300;
/// Bytes from which it is.
const MANY_BYTES: u64 = 4 << 20;

/// Mounts, says so, and waits for its input to end.
const SCRIPT: &str = "exec 2>&1; mount -t overlay overlay -o \
    \"userxattr,lowerdir=$2,upperdir=$3,workdir=$4\" \"$1\" && echo ready && read -r end";

/// Set when this machine refused an overlay: it is not asked again.
static REFUSED: AtomicBool = AtomicBool::new(false);

/// The layers of an overlay; all are paths of the host.
pub(super) struct Layers {
    /// Read-only, the uppermost first.
    pub(super) lower: Vec<PathBuf>,
    /// Where changes go.
    pub(super) upper: PathBuf,
    /// Empty, on the same file system.
    pub(super) work: PathBuf,
    /// An empty folder: where the whole is seen in the keeper's namespace.
    pub(super) merged: PathBuf,
}

/// A process with an overlay. Dropping it ends both.
#[derive(Debug)]
pub(super) struct Keeper {
    child: Child,
    /// The keeper ends when this closes, however we end.
    input: Option<ChildStdin>,
    nsenter: PathBuf,
    merged: PathBuf,
    /// The merged folder, opened from outside.
    folder: File,
    _record: Option<Lease>,
}

/// Whether a tree of this size should be an overlay, as far as one knows beforehand.
pub(super) fn wanted(files: Files, entries: u64, bytes: u64) -> bool {
    match files {
        Files::Copy => false,
        Files::Overlay => true,
        Files::Auto => (entries > MANY_ENTRIES || bytes > MANY_BYTES) && !REFUSED.load(Ordering::Relaxed),
    }
}

/// Notes that overlays are refused here.
pub(super) fn give_up(reason: &str) {
    if !REFUSED.swap(true, Ordering::Relaxed) {
        tracing::info!("work trees are copied: no overlay can be mounted here: {reason}");
    }
}

impl Keeper {
    /// Mounts the layers. Blocks for some milliseconds.
    ///
    /// # Errors
    /// [`Error::NoOverlay`] when this machine does not let us.
    pub(super) fn start(
        layers: &Layers,
        launcher: &Launcher,
        session: &Arc<Session>,
        config: &WorkspaceConfig,
    ) -> Result<Self, Error> {
        let refused = |reason: String| Error::NoOverlay { reason };
        let program =
            |name: &str| find_program(name).ok_or_else(|| refused(format!("`{name}` was not found")));
        let (unshare, nsenter) = (program("unshare")?, program("nsenter")?);
        program("mount")?;
        let mut words = launcher.as_plain_user();
        words.push(unshare.clone().into());
        words.extend(
            ["--user", "--map-root-user", "--mount", "--", "/bin/sh", "-c", SCRIPT, "sh"].map(Into::into),
        );
        words.push(layers.merged.clone().into());
        words.push(joined(&layers.lower)?);
        words.push(joined(std::slice::from_ref(&layers.upper))?);
        words.push(joined(std::slice::from_ref(&layers.work))?);
        let mut words = words.into_iter();
        let mut command = Command::new(words.next().unwrap_or_default());
        command.args(words).env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("LC_ALL", "C");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        close_on_exec();
        let mut child = command.spawn().map_err(Error::io("starting", &unshare))?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let record = hold_process(session, Some(child.id()), config.lease())?;

        let (send, told) = mpsc::channel();
        std::thread::spawn(move || {
            let mut line = String::new();
            if let Some(output) = output {
                let _ = BufReader::new(output.take(4096)).read_line(&mut line);
            }
            let _ = send.send(line);
        });
        let line = told.recv_timeout(Duration::from_secs(config.start_seconds.max(1)));
        let pid = child.id();
        let give_back = |mut child: Child, reason: String| {
            let _ = child.kill();
            let _ = child.wait();
            Err(refused(reason))
        };
        match line {
            Ok(line) if line.trim() == "ready" => {}
            Ok(line) => return give_back(child, line.trim().to_owned()),
            Err(_) => {
                return give_back(child, format!("nothing was said in {} seconds", config.start_seconds));
            }
        }
        let inside = Path::new("/proc").join(pid.to_string()).join("root");
        let seen = inside.join(layers.merged.strip_prefix("/").unwrap_or(&layers.merged));
        match File::open(&seen) {
            Ok(folder) => {
                Ok(Self { child, input, nsenter, merged: layers.merged.clone(), folder, _record: record })
            }
            Err(error) => give_back(child, format!("{}: {error}", seen.display())),
        }
    }

    /// The words before a command line that make it start in the namespaces.
    pub(super) fn enter(&self) -> Vec<OsString> {
        let id = self.child.id();
        let mut words: Vec<OsString> = vec![self.nsenter.clone().into()];
        words.extend(
            [format!("--user=/proc/{id}/ns/user"), format!("--mount=/proc/{id}/ns/mnt")].map(Into::into),
        );
        words.extend(["--preserve-credentials", "--"].map(Into::into));
        words
    }

    /// Where the whole lies for what entered.
    pub(super) fn merged(&self) -> &Path {
        &self.merged
    }

    /// The whole, for the host's own file work.
    pub(super) fn host_path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.folder.as_raw_fd()))
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        drop(self.input.take());
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A list for the options of `mount`, which have no safe way to write some bytes.
fn joined(paths: &[PathBuf]) -> Result<OsString, Error> {
    use std::os::unix::ffi::OsStrExt;
    let mut joined = OsString::new();
    for path in paths {
        let special = path.as_os_str().as_bytes().iter().find(|byte| b":,\\\" \n".contains(byte));
        if let Some(byte) = special {
            let reason = format!("the path {} holds `{}`", path.display(), byte.escape_ascii());
            return Err(Error::NoOverlay { reason });
        }
        if !joined.is_empty() {
            joined.push(":");
        }
        joined.push(path);
    }
    Ok(joined)
}
