//! What is the digest of the files of a compiler? Hashed once, then known by size and time.

use std::fs;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use crate::store::{Digest, write_whole};

use super::error::ForgeError;
use super::source::io;

/// SHA-256 over name, length and digest of each file, in the order of their paths. `cache` is a
/// folder that only this program writes to.
pub(super) fn digest(files: &[PathBuf], cache: &Path) -> Result<Digest, ForgeError> {
    let mut files = files.to_vec();
    files.sort();
    let mut stamp = String::new();
    for file in &files {
        let meta = fs::metadata(file).map_err(|error| io("read", file, error))?;
        let (len, inode, seconds, nanos) = (meta.len(), meta.ino(), meta.mtime(), meta.mtime_nsec());
        stamp += &format!("{} {len} {inode} {seconds}.{nanos}\n", file.display());
    }
    let known = cache.join("digests");
    let entry = known.join(Digest::of(stamp.as_bytes()).hex());
    if let Some(digest) = fs::read_to_string(&entry).ok().and_then(|text| text.trim().parse().ok()) {
        return Ok(digest);
    }
    let mut parts = String::new();
    for file in &files {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        parts += &format!("{name} {}\n", of_file(file)?);
    }
    let digest = Digest::of(parts.as_bytes());
    fs::create_dir_all(&known).map_err(|error| io("make", &known, error))?;
    write_whole(&entry, digest.to_string().as_bytes()).map_err(|error| io("write", &entry, error))?;
    Ok(digest)
}

/// Length and SHA-256 in one word, without the whole file in memory.
fn of_file(path: &Path) -> Result<String, ForgeError> {
    let failed = |error| io("read", path, error);
    let mut file = fs::File::open(path).map_err(failed)?;
    let (mut hash, mut length, mut block) = (Sha256::new(), 0, vec![0; 1 << 20]);
    loop {
        match file.read(&mut block).map_err(failed)? {
            0 => return Ok(format!("{length} {}", hex::encode(hash.finalize()))),
            count => {
                hash.update(&block[..count]);
                length += count;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_compiler_is_another_compiler() {
        let dir = tempfile::tempdir().unwrap();
        let (compiler, library) = (dir.path().join("cc"), dir.path().join("lib.so"));
        fs::write(&compiler, "one").unwrap();
        fs::write(&library, "two").unwrap();
        let files = [library.clone(), compiler.clone()];
        let first = digest(&files, dir.path()).unwrap();
        assert_eq!(digest(&files, dir.path()).unwrap(), first);
        let reversed = [compiler.clone(), library.clone()];
        assert_eq!(digest(&reversed, dir.path()).unwrap(), first);

        fs::write(&compiler, "ona").unwrap();
        let changed = digest(&files, dir.path()).unwrap();
        assert_ne!(changed, first);
        // What the cache does not know gives the same.
        fs::remove_dir_all(dir.path().join("digests")).unwrap();
        assert_eq!(digest(&files, dir.path()).unwrap(), changed);
        fs::remove_file(&library).unwrap();
        assert!(digest(&files, dir.path()).unwrap_err().to_string().contains("lib.so"));
    }
}
