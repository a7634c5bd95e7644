//! What did dead owners leave, and how does it go away?
//!
//! Only folders that belong to this user are looked at: in a folder that anybody
//! may write to, a stranger's record could name anything.

use std::fmt;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;

use super::cgroup;
use super::container;
use super::error::Error;
use super::lease::{HELD, Held, LOCK, OWNER, Owner, PREFIX, ProcessId, Record, UNBORN, lock_now, now};
use super::scratch;

/// How old a half-made session is before it counts as left behind.
const UNBORN_AGE: Duration = Duration::from_secs(600);

/// Whether a sweep removes or only tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    Remove,
    Tell,
}

/// What a sweep found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Swept {
    /// Sessions without an owner.
    pub sessions: Vec<PathBuf>,
    /// Processes that were killed.
    pub processes: Vec<u32>,
    /// Containers that were removed, by name.
    pub containers: Vec<String>,
    /// Control groups that were removed.
    pub cgroups: Vec<PathBuf>,
    /// Mounts that were undone.
    pub mounts: Vec<PathBuf>,
    /// Folders of living sessions whose lease ran out.
    pub expired: Vec<PathBuf>,
    /// Sessions whose owner lives.
    pub living: Vec<Owner>,
    /// What could not be removed, a sentence each.
    pub failures: Vec<String>,
}

impl Swept {
    /// Whether there was nothing to remove.
    pub fn is_empty(&self) -> bool {
        *self == Self { living: self.living.clone(), ..Self::default() }
    }
}

impl fmt::Display for Swept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} sessions, {} processes, {} containers, {} control groups, {} mounts, {} expired folders; {} sessions are in use",
            self.sessions.len(),
            self.processes.len(),
            self.containers.len(),
            self.cgroups.len(),
            self.mounts.len(),
            self.expired.len(),
            self.living.len(),
        )
    }
}

/// Removes what dead owners left in a root, and what living ones hold past its lease.
///
/// # Errors
/// A root that cannot be listed. Single things that do not go are among the failures.
pub fn sweep(root: &Path, act: Act) -> Result<Swept, Error> {
    let mut swept = Swept::default();
    // SAFETY: reads a number of the process.
    let user = unsafe { libc::geteuid() };
    for entry in fs::read_dir(root).map_err(Error::io("listing", root))?.flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        let name = name.to_string_lossy();
        let Ok(meta) = fs::symlink_metadata(&path) else { continue };
        if !meta.is_dir() || meta.uid() != user {
            continue;
        }
        if name.starts_with(UNBORN) {
            let old = meta.modified().is_ok_and(|at| at.elapsed().is_ok_and(|age| age > UNBORN_AGE));
            if old && act == Act::Remove {
                scratch::remove(&path);
            }
        } else if name.starts_with(PREFIX) && path.join(LOCK).is_file() {
            session(&path, act, &mut swept).unwrap_or_else(|error| {
                swept.failures.push(format!("{}: {error}", path.display()));
            });
        }
    }
    Ok(swept)
}

fn session(folder: &Path, act: Act, swept: &mut Swept) -> io::Result<()> {
    let lock = open_own(&folder.join(LOCK))?;
    if !lock_now(&lock)? {
        if let Ok(owner) = serde_json::from_reader(open_own(&folder.join(OWNER))?) {
            swept.living.push(owner);
        }
        for (path, record) in records(folder) {
            if record.until < now() {
                release(folder, &record.held, act, swept);
                if let Held::Folder { name } = &record.held {
                    swept.expired.push(folder.join(name));
                }
                if act == Act::Remove {
                    let _ = fs::remove_file(path);
                }
            }
        }
        return Ok(());
    }
    swept.sessions.push(folder.to_owned());
    // Processes first: what they hold open and mounted goes with them.
    let mut held: Vec<_> = records(folder).into_iter().map(|(_, record)| record.held).collect();
    held.sort_by_key(|held| matches!(held, Held::Folder { .. } | Held::Cgroup { .. }));
    for held in &held {
        release(folder, held, act, swept);
    }
    for mount in mounts_below(folder) {
        if act == Act::Tell || unmount(&mount) {
            swept.mounts.push(mount);
        } else {
            swept.failures.push(format!("{} is still mounted", mount.display()));
        }
    }
    if act == Act::Remove && !scratch::remove(folder) {
        swept.failures.push(format!("{} could not be removed", folder.display()));
    }
    Ok(())
}

fn records(folder: &Path) -> Vec<(PathBuf, Record)> {
    let listed = fs::read_dir(folder.join(HELD)).into_iter().flatten().flatten();
    let read = |path: PathBuf| {
        let record = serde_json::from_reader(open_own(&path).ok()?).ok()?;
        Some((path, record))
    };
    let mut found: Vec<_> = listed.filter_map(|entry| read(entry.path())).collect();
    found.sort_by(|left, right| left.0.cmp(&right.0));
    found
}

fn release(folder: &Path, held: &Held, act: Act, swept: &mut Swept) {
    let remove = act == Act::Remove;
    match held {
        // Names are single parts of a path; anything else was not written by us.
        Held::Folder { name } if !name.contains('/') && !["", ".", ".."].contains(&name.as_str()) => {
            if remove && !scratch::remove(&folder.join(name)) {
                swept.failures.push(format!("{} could not be removed", folder.join(name).display()));
            }
        }
        Held::Folder { name } => swept.failures.push(format!("`{name}` is no folder of a session")),
        Held::Process { process } if process.is_alive() => {
            swept.processes.push(process.pid);
            if remove {
                kill_tree(process);
            }
        }
        Held::Process { .. } => {}
        Held::Marked { mark } => {
            for pid in marked(mark) {
                swept.processes.push(pid);
                if remove {
                    kill(pid);
                }
            }
        }
        Held::Container { socket, name } => match container::remove_now(socket, name, remove) {
            Ok(true) => swept.containers.push(name.clone()),
            Ok(false) => {}
            Err(error) => swept.failures.push(format!("container {name}: {error}")),
        },
        Held::Cgroup { paths } => {
            for path in paths.iter().filter(|path| path.is_dir()) {
                match !remove || cgroup::remove(path) {
                    true => swept.cgroups.push(path.clone()),
                    false => swept.failures.push(format!("{} could not be removed", path.display())),
                }
            }
        }
    }
}

/// Kills a process, and first the children that would outlive it: the first
/// process of a namespace takes all the others with it.
fn kill_tree(process: &ProcessId) {
    let id = process.pid;
    let listed = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap_or_default();
    listed.split_whitespace().filter_map(|word| word.parse().ok()).for_each(kill);
    kill(id);
    for _ in 0..200 {
        if !process.is_alive() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn kill(pid: u32) {
    // SAFETY: a signal to a process that a record of ours names.
    unsafe { libc::kill(pid as i32, libc::SIGKILL) };
}

/// Processes whose environment holds `mark`, as far as this user may read it.
pub(super) fn marked(mark: &str) -> Vec<u32> {
    let holds = |pid: u32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
    };
    let listed = fs::read_dir("/proc").into_iter().flatten().flatten();
    listed
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid| *pid != std::process::id() && holds(*pid))
        .collect()
}

/// Mounts of this process's view below a folder, the innermost first.
fn mounts_below(folder: &Path) -> Vec<PathBuf> {
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let points = table.lines().filter_map(|line| line.split(' ').nth(4)).map(unescape);
    let mut found: Vec<_> = points.filter(|point| point.starts_with(folder)).collect();
    found.reverse();
    found
}

/// Undoes `\040` and its like.
fn unescape(text: &str) -> PathBuf {
    let text =
        text.replace("\\040", " ").replace("\\011", "\t").replace("\\012", "\n").replace("\\134", "\\");
    PathBuf::from(text)
}

fn unmount(point: &Path) -> bool {
    use std::os::unix::ffi::OsStrExt;
    let Ok(point) = std::ffi::CString::new(point.as_os_str().as_bytes()) else { return false };
    // SAFETY: a zero-terminated path.
    unsafe { libc::umount2(point.as_ptr(), libc::MNT_DETACH | libc::UMOUNT_NOFOLLOW) == 0 }
}

/// Opens a file of a session, never through a link.
fn open_own(path: &Path) -> io::Result<File> {
    File::options().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path)
}
