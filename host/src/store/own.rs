//! Is a folder this user's alone, so that nobody else can put a link or a file into it?

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::Path;

/// Makes the folder, for this user alone, in one that is there; or tells whether what is there is such a
/// folder already: false for a link, for one of another user, and for one that others may enter.
///
/// # Errors
/// When it can neither be made nor looked at.
pub fn own_folder(path: &Path) -> io::Result<bool> {
    match fs::DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let meta = fs::symlink_metadata(path)?;
    // SAFETY: it reads a number of this process and cannot fail.
    let user = unsafe { libc::geteuid() };
    Ok(meta.is_dir() && meta.uid() == user && meta.mode() & 0o077 == 0)
}
