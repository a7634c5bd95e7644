//! How is a file written so that it is whole or as before, whatever happens meanwhile?

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use super::moment;

/// Replaces the file at `path` by `bytes`: a temporary file beside it, fsync, rename. On return
/// the bytes are on the device. Only this user may read the file.
///
/// # Errors
/// Its folder cannot be written to; what was at `path` stays.
pub fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut file = tempfile::Builder::new().prefix(".new-").tempfile_in(folder)?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    moment();
    file.persist(path).map_err(|error| error.error)?;
    // The rename is only durable once the folder is.
    File::open(folder)?.sync_all()?;
    moment();
    Ok(())
}
