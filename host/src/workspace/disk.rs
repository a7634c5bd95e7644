//! How much space is used, how much is free, and may another workspace start?

use std::collections::HashSet;
use std::ffi::CString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::config::WorkspaceConfig;
use super::error::Error;

/// Time between two looks at a disk that is too full.
const AGAIN: Duration = Duration::from_millis(500);

/// Bytes that folders take on the disk, each file counted once. Stops counting
/// at twice `enough`: more makes no difference.
pub(super) fn used(folders: &[PathBuf], enough: u64) -> u64 {
    let mut left = folders.to_vec();
    let (mut bytes, mut seen) = (0, HashSet::new());
    while let Some(folder) = left.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let Ok(meta) = entry.metadata() else { continue };
            if meta.is_dir() {
                left.push(entry.path());
            }
            if meta.nlink() < 2 || meta.is_dir() || seen.insert((meta.dev(), meta.ino())) {
                bytes += meta.blocks() * 512;
            }
        }
        if bytes > enough.saturating_mul(2) {
            break;
        }
    }
    bytes
}

/// Bytes that this user may still write where `folder` lies.
pub(super) fn free(folder: &Path) -> io::Result<u64> {
    let path = CString::new(folder.as_os_str().as_bytes())?;
    // SAFETY: all-zero is a valid `statvfs`.
    let mut found: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: a zero-terminated path and a struct of the right type.
    if unsafe { libc::statvfs(path.as_ptr(), &raw mut found) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(found.f_bavail * found.f_frsize)
}

/// Waits until there is room for another workspace.
///
/// # Errors
/// [`Error::DiskFull`] when there is none in the time given.
pub(super) async fn room(config: &WorkspaceConfig) -> Result<(), Error> {
    let root = config.root();
    let needed = config.min_free_bytes;
    let end = Instant::now() + Duration::from_secs(config.free_wait_seconds);
    let mut told = false;
    loop {
        let free = free(&root).map_err(Error::io("reading the free space of", &root))?;
        if free >= needed {
            return Ok(());
        }
        if Instant::now() >= end {
            return Err(Error::DiskFull { path: root, free, needed });
        }
        if !told {
            told = true;
            tracing::warn!(
                "{} has {free} bytes free and {needed} are needed: new episodes wait for up to {} seconds",
                root.display(),
                config.free_wait_seconds
            );
        }
        tokio::time::sleep(AGAIN.min(end.saturating_duration_since(Instant::now()))).await;
    }
}
