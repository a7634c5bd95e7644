//! A directory of blobs: how do bytes get on disk under their digest, and back?

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::{Digest, moment};

/// Why a blob could not be kept or read.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// No room left on the device, or in the user's quota.
    #[error("no space left to keep {bytes} bytes in `{dir}`\nhelp: free some space there, then run the same command again; nothing was lost", dir = .dir.display())]
    Full { dir: PathBuf, bytes: usize },
    /// The store has no blob of this digest.
    #[error("the blob {digest} is not in `{dir}`\nhelp: put the file with these exact bytes into the store, or name another digest", dir = .dir.display())]
    Missing { digest: Digest, dir: PathBuf },
    /// The bytes on disk are not those that the digest names.
    #[error("`{path}` should hold {expected} but holds {found}\nhelp: the file was damaged or changed; delete it and put the blob into the store again", path = .path.display())]
    Corrupt { path: PathBuf, expected: Digest, found: Digest },
    /// Anything else that the file system answered.
    #[error("cannot {action} `{path}`: {source}\nhelp: check that the folder exists and may be written by this user", path = .path.display())]
    Io { action: &'static str, path: PathBuf, source: io::Error },
}

/// Content-addressed blobs in one directory, each in a file named by the hexadecimal digits
/// of its SHA-256. Safe to use from several processes: a blob appears whole or not at all.
#[derive(Clone, Debug)]
pub struct BlobStore {
    dir: PathBuf,
}

impl BlobStore {
    /// Opens the store in `dir`, which is made if it does not exist.
    pub fn open(dir: impl Into<PathBuf>) -> Result<Self, StoreError> {
        let dir = dir.into();
        fs::create_dir_all(&dir).map_err(|source| trouble("make the folder", &dir, 0, source))?;
        Ok(Self { dir })
    }

    /// The directory of the store.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The file that holds the blob `digest`, whether it exists or not.
    pub fn path(&self, digest: &Digest) -> PathBuf {
        self.dir.join(digest.hex())
    }

    /// Whether the store has the blob. Its bytes are not checked.
    pub fn contains(&self, digest: &Digest) -> bool {
        self.path(digest).is_file()
    }

    /// Keeps `bytes` and returns their digest. A blob that is there already stays; a damaged
    /// one is replaced. On return the bytes are on the device.
    pub fn put(&self, bytes: &[u8]) -> Result<Digest, StoreError> {
        let digest = Digest::of(bytes);
        let path = self.path(&digest);
        if fs::read(&path).is_ok_and(|held| held == bytes) {
            return Ok(digest);
        }
        let fail = |action| {
            let dir = self.dir.clone();
            move |source| trouble(action, &dir, bytes.len(), source)
        };
        let mut file = tempfile::Builder::new()
            .prefix(".new-")
            .tempfile_in(&self.dir)
            .map_err(fail("make a file in"))?;
        file.write_all(bytes).map_err(fail("write a blob to"))?;
        file.as_file().sync_all().map_err(fail("write a blob to"))?;
        moment();
        file.persist(&path).map_err(|error| fail("write a blob to")(error.error))?;
        // The rename is only durable once the directory is.
        let folder = fs::File::open(&self.dir).map_err(fail("open the folder"))?;
        folder.sync_all().map_err(fail("write a blob to"))?;
        moment();
        Ok(digest)
    }

    /// The bytes that `digest` names, checked against it.
    pub fn get(&self, digest: &Digest) -> Result<Vec<u8>, StoreError> {
        let path = self.path(digest);
        let bytes = fs::read(&path).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => StoreError::Missing { digest: *digest, dir: self.dir.clone() },
            _ => trouble("read", &path, 0, source),
        })?;
        let found = Digest::of(&bytes);
        if found != *digest {
            return Err(StoreError::Corrupt { path, expected: *digest, found });
        }
        Ok(bytes)
    }
}

/// A full device has its own message, since its remedy is another one.
fn trouble(action: &'static str, path: &Path, bytes: usize, source: io::Error) -> StoreError {
    match source.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            StoreError::Full { dir: path.to_owned(), bytes }
        }
        _ => StoreError::Io { action, path: path.to_owned(), source },
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    fn store() -> (tempfile::TempDir, BlobStore) {
        let dir = tempfile::tempdir().unwrap();
        let store = BlobStore::open(dir.path().join("blobs")).unwrap();
        (dir, store)
    }

    fn said(error: StoreError, store: &BlobStore) -> String {
        error.to_string().replace(&store.dir.display().to_string(), "BLOBS")
    }

    #[test]
    fn what_was_put_is_got_back() {
        let (_dir, store) = store();
        for bytes in [&b""[..], b"x", b"\0\xff binary", &[7; 100_000]] {
            let digest = store.put(bytes).unwrap();
            assert_eq!(store.get(&digest).unwrap(), bytes);
            assert_eq!(store.put(bytes).unwrap(), digest);
        }
        let names = fs::read_dir(store.dir()).unwrap();
        let left = names.filter(|entry| entry.as_ref().unwrap().file_name().len() != 64).count();
        assert_eq!(left, 0, "a temporary file was left behind");
    }

    #[test]
    fn missing_blob_names_digest_and_folder() {
        let (_dir, store) = store();
        let error = store.get(&Digest::of(b"nothing")).unwrap_err();
        expect![[r#"
            the blob sha256:1785cfc3bc6ac7738e8b38cdccd1af12563c2b9070e07af336a1bf8c0f772b6a is not in `BLOBS`
            help: put the file with these exact bytes into the store, or name another digest"#]]
        .assert_eq(&said(error, &store));
    }

    #[test]
    fn damaged_blob_is_refused_and_healed_by_put() {
        let (_dir, store) = store();
        let digest = store.put(b"right").unwrap();
        fs::write(store.path(&digest), b"wrong").unwrap();
        let error = store.get(&digest).unwrap_err();
        expect![[r#"
            `BLOBS/27042f4e6eca7d0b2a7ee4026df2ecfa51d3339e6d122aa099118ecd8563bad9` should hold sha256:27042f4e6eca7d0b2a7ee4026df2ecfa51d3339e6d122aa099118ecd8563bad9 but holds sha256:8810ad581e59f2bc3928b261707a71308f7e139eb04820366dc4d5c18d980225
            help: the file was damaged or changed; delete it and put the blob into the store again"#]]
        .assert_eq(&said(error, &store));
        store.put(b"right").unwrap();
        assert_eq!(store.get(&digest).unwrap(), b"right");
    }

    #[test]
    fn full_disk_says_so() {
        let (_dir, store) = store();
        let error = trouble("write a blob to", store.dir(), 12, io::ErrorKind::StorageFull.into());
        expect![[r#"
            no space left to keep 12 bytes in `BLOBS`
            help: free some space there, then run the same command again; nothing was lost"#]]
        .assert_eq(&said(error, &store));
    }

    #[test]
    fn folder_that_cannot_be_made_says_so() {
        let (dir, store) = store();
        let file = dir.path().join("file");
        fs::write(&file, "").unwrap();
        let error = BlobStore::open(file.join("blobs")).unwrap_err().to_string();
        assert!(error.starts_with("cannot make the folder `"), "{error}");
        drop(store);
    }
}
