//! Which functions were compiled on this machine before? Two plugins in JavaScript share all of
//! QuickJS, and two in Python all of CPython: only what differs is compiled again.
//!
//! A file of records, each `key (32 bytes), size (4), checksum (8), native code`, to which each
//! compilation adds what it had to make. The key is Cranelift's: SHA-256 of a function's
//! intermediate code, the settings, the processor and the version of Cranelift. A record that was
//! cut off by a crash, or is damaged, counts as absent.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::fs::OpenOptions;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use sha2::{Digest as _, Sha256};
use wasmtime::CacheStore;

/// Components below this size are compiled in a fraction of a second and share little.
pub(super) const MIN_COMPONENT: u64 = 512 << 10;
/// Size of the file after which it begins anew. Below the cap of a file that the compiler may write.
const CAP: u64 = 192 << 20;

const KEY: usize = 32;
const HEADER: usize = KEY + 4 + 8;

/// The functions that are known at the start of a compilation, and those that it adds.
#[derive(Debug)]
pub(super) struct FunctionCache {
    path: PathBuf,
    bytes: Vec<u8>,
    known: HashMap<[u8; KEY], Range<usize>>,
    new: Mutex<New>,
}

#[derive(Debug, Default)]
struct New {
    keys: HashSet<[u8; KEY]>,
    records: Vec<u8>,
}

impl FunctionCache {
    /// Reads the file; one that is missing, or not a plain file, knows nothing.
    pub fn open(path: &Path) -> Self {
        let bytes = read(path).unwrap_or_default();
        let known = records(&bytes).collect();
        Self { path: path.to_owned(), bytes, known, new: Mutex::default() }
    }

    /// Adds what was compiled to the file. Compilers that end at the same time add one after the other.
    pub fn save(&self) -> io::Result<()> {
        let new = self.new.lock().unwrap_or_else(PoisonError::into_inner);
        if new.records.is_empty() {
            return Ok(());
        }
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(libc::O_NOFOLLOW)
            .open(&self.path)?;
        file.lock()?;
        let mut present = Vec::new();
        file.read_to_end(&mut present)?;
        // Behind the last whole record: what a crash cut off would hide everything after it.
        let whole = records(&present).last().map_or(0, |(_, code)| code.end);
        let full = (whole + new.records.len()) as u64 > CAP;
        file.set_len(if full { 0 } else { whole as u64 })?;
        file.seek(SeekFrom::End(0))?;
        file.write_all(&new.records)
    }
}

impl CacheStore for FunctionCache {
    fn get(&self, key: &[u8]) -> Option<Cow<'_, [u8]>> {
        let range = self.known.get(<&[u8; KEY]>::try_from(key).ok()?)?;
        let header = self.bytes.get(range.start - HEADER..range.start)?;
        let code = &self.bytes[range.clone()];
        (checksum(key, code)[..] == header[KEY + 4..]).then_some(Cow::Borrowed(code))
    }

    fn insert(&self, key: &[u8], value: Vec<u8>) -> bool {
        let (Ok(key), Ok(size)) = (<[u8; KEY]>::try_from(key), u32::try_from(value.len())) else {
            return false;
        };
        let mut new = self.new.lock().unwrap_or_else(PoisonError::into_inner);
        if new.records.len() + value.len() > CAP as usize / 2 || !new.keys.insert(key) {
            return false;
        }
        new.records.extend(key);
        new.records.extend(size.to_le_bytes());
        new.records.extend(checksum(&key, &value));
        new.records.extend(value);
        true
    }
}

/// The whole records of a file: the key, and where the code lies.
fn records(bytes: &[u8]) -> impl Iterator<Item = ([u8; KEY], Range<usize>)> + '_ {
    let mut at = 0;
    std::iter::from_fn(move || {
        let header = bytes[at..].first_chunk::<HEADER>()?;
        let size = usize::try_from(u32::from_le_bytes(*header[KEY..].first_chunk()?)).ok()?;
        let code = at + HEADER..(at + HEADER).checked_add(size).filter(|end| *end <= bytes.len())?;
        at = code.end;
        Some((*header.first_chunk()?, code))
    })
}

fn checksum(key: &[u8], code: &[u8]) -> [u8; 8] {
    let sum = Sha256::new().chain_update(key).chain_update(code).finalize();
    let mut short = [0; 8];
    short.copy_from_slice(&sum[..8]);
    short
}

fn read(path: &Path) -> Option<Vec<u8>> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW).open(path).ok()?;
    let meta = file.metadata().ok()?;
    if !meta.is_file() {
        return None;
    }
    file.lock_shared().ok()?;
    let mut bytes = Vec::with_capacity(usize::try_from(meta.len()).ok()?);
    (&file).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn key(number: u8) -> [u8; KEY] {
        [number; KEY]
    }

    fn add(path: &Path, entries: &[(u8, &[u8])]) {
        let cache = FunctionCache::open(path);
        for (number, code) in entries {
            assert!(cache.insert(&key(*number), code.to_vec()));
        }
        cache.save().unwrap();
    }

    fn check(path: &Path, expected: &[(u8, Option<&[u8]>)]) {
        let cache = FunctionCache::open(path);
        for (number, code) in expected {
            assert_eq!(cache.get(&key(*number)).as_deref(), *code, "{number}");
        }
    }

    #[test]
    fn what_one_compilation_adds_the_next_one_knows() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("functions");
        check(&path, &[(1, None)]);
        add(&path, &[(1, b"one"), (2, b"")]);
        add(&path, &[(3, b"three")]);
        check(&path, &[(1, Some(b"one")), (2, Some(b"")), (3, Some(b"three")), (4, None)]);
    }

    #[test]
    fn a_record_that_was_cut_off_or_damaged_is_absent_and_hides_no_other() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("functions");
        add(&path, &[(1, b"one"), (2, b"two")]);
        let whole = fs::read(&path).unwrap();
        for cut in [1, 3, HEADER, HEADER + 2] {
            fs::write(&path, &whole[..whole.len() - cut]).unwrap();
            check(&path, &[(1, Some(b"one")), (2, None)]);
            add(&path, &[(3, b"three")]);
            check(&path, &[(1, Some(b"one")), (2, None), (3, Some(b"three"))]);
        }
        for at in [HEADER, KEY + 4] {
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            fs::write(&path, &damaged).unwrap();
            check(&path, &[(1, None), (2, Some(b"two"))]);
        }
    }

    #[test]
    fn a_link_is_neither_read_nor_written() {
        let dir = tempfile::tempdir().unwrap();
        let (path, other) = (dir.path().join("functions"), dir.path().join("other"));
        add(&other, &[(1, b"one")]);
        std::os::unix::fs::symlink(&other, &path).unwrap();
        check(&path, &[(1, None)]);
        let cache = FunctionCache::open(&path);
        assert!(cache.insert(&key(2), vec![1]));
        assert!(cache.save().is_err());
    }
}
