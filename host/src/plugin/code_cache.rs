//! Which components were compiled on this machine before? Native code on disk, made here and
//! never anywhere else.

use std::fs;
use std::hash::{Hash, Hasher};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use crate::store::Digest;

/// Size of the cache after which what was not used for longest goes. 2 GiB.
const CAP: u64 = 2 << 30;

/// A folder of native code, one file for each component and engine. Loading foreign native code
/// is running it, so the folder belongs to this user and nobody else may write to it, and a file
/// whose checksum is wrong is thrown away.
#[derive(Clone, Debug)]
pub struct CodeCache {
    dir: PathBuf,
}

/// The folder cannot serve.
#[derive(Debug, thiserror::Error)]
pub enum CodeCacheError {
    #[error("the code cache {} cannot be used: {source}\nhelp: choose a folder that this user may write to", .dir.display())]
    Folder { dir: PathBuf, source: io::Error },
    #[error(
        "the code cache {} may be written by others (owner {owner}, mode {mode:o}), and native code from others is never loaded\nhelp: `chmod 700` it, or choose a folder of this user (id {user})",
        .dir.display()
    )]
    Shared { dir: PathBuf, owner: u32, user: u32, mode: u32 },
}

impl CodeCache {
    /// Uses `dir`, made if it is missing.
    ///
    /// # Errors
    /// It cannot be made, belongs to somebody else, or others may write to it.
    pub fn open(dir: impl Into<PathBuf>) -> Result<Self, CodeCacheError> {
        let dir = dir.into();
        let failed = |source| CodeCacheError::Folder { dir: dir.clone(), source };
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&dir).map_err(failed)?;
        let (meta, user) = (fs::metadata(&dir).map_err(failed)?, user());
        let (owner, mode) = (meta.uid(), meta.mode() & 0o777);
        if owner != user || mode & 0o022 != 0 {
            return Err(CodeCacheError::Shared { dir, owner, user, mode });
        }
        Ok(Self { dir })
    }

    /// The native code of a component for this engine. A file that is damaged or not ours is
    /// removed and counts as absent.
    pub(super) fn get(&self, component: Digest, engine: &wasmtime::Engine) -> Option<Vec<u8>> {
        let path = self.path(component, engine);
        let bytes = read(&path)?;
        let sum_bytes = bytes.len().checked_sub(32);
        if let Some(end) = sum_bytes
            && Sha256::digest(&bytes[..end])[..] == bytes[end..]
        {
            // For what goes first when the cache is full.
            let now = fs::FileTimes::new().set_modified(std::time::SystemTime::now());
            let _ = fs::File::open(&path).and_then(|file| file.set_times(now));
            let mut native = bytes;
            native.truncate(end);
            return Some(native);
        }
        tracing::warn!(file = %path.display(), "compiled code is damaged; it is made again");
        self.remove(component, engine);
        None
    }

    /// Keeps native code that our own compiler just made. Trouble costs the next start its time
    /// and nothing else.
    pub(super) fn put(&self, component: Digest, engine: &wasmtime::Engine, native: &[u8]) {
        if let Err(error) = self.write(&self.path(component, engine), native) {
            tracing::warn!(folder = %self.dir.display(), %error, "compiled code cannot be kept");
        }
    }

    /// Forgets native code that does not load.
    pub(super) fn remove(&self, component: Digest, engine: &wasmtime::Engine) {
        let _ = fs::remove_file(self.path(component, engine));
    }

    /// The file of functions that components share; see [`super::function_cache`].
    pub(super) fn functions(&self) -> PathBuf {
        self.dir.join("functions")
    }

    fn write(&self, path: &Path, native: &[u8]) -> io::Result<()> {
        self.make_room(native.len() as u64)?;
        let mut file =
            tempfile::Builder::new().permissions(fs::Permissions::from_mode(0o600)).tempfile_in(&self.dir)?;
        file.write_all(native)?;
        file.write_all(&Sha256::digest(native))?;
        file.as_file().sync_all()?;
        file.persist(path).map_err(|error| error.error)?;
        Ok(())
    }

    fn make_room(&self, wanted: u64) -> io::Result<()> {
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.dir)? {
            let entry = entry?;
            let meta = entry.metadata()?;
            files.push((meta.modified()?, meta.len(), entry.path()));
        }
        let mut total: u64 = wanted + files.iter().map(|(_, bytes, _)| bytes).sum::<u64>();
        files.sort();
        for (_, bytes, path) in files {
            if total <= CAP {
                break;
            }
            let _ = fs::remove_file(path);
            total = total.saturating_sub(bytes);
        }
        Ok(())
    }

    fn path(&self, component: Digest, engine: &wasmtime::Engine) -> PathBuf {
        self.dir.join(format!("{}-{}.native", hex::encode(component.bytes()), engine_key(engine)))
    }
}

/// Another version of the engine, other settings or another processor: another key.
fn engine_key(engine: &wasmtime::Engine) -> String {
    struct Sha(Sha256);
    impl Hasher for Sha {
        fn write(&mut self, bytes: &[u8]) {
            self.0.update(bytes);
        }

        fn finish(&self) -> u64 {
            0
        }
    }
    let mut sha = Sha(Sha256::new());
    engine.precompile_compatibility_hash().hash(&mut sha);
    hex::encode(&sha.0.finalize()[..8])
}

/// The file, if it is a plain file of ours that nobody else may write to.
fn read(path: &Path) -> Option<Vec<u8>> {
    let file = fs::OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW).open(path).ok()?;
    let meta = file.metadata().ok()?;
    if !meta.is_file() || meta.uid() != user() || meta.mode() & 0o022 != 0 {
        tracing::warn!(file = %path.display(), "compiled code may be written by others; it is not loaded");
        return None;
    }
    let mut bytes = Vec::with_capacity(usize::try_from(meta.len()).ok()?);
    io::Read::read_to_end(&mut &file, &mut bytes).ok()?;
    Some(bytes)
}

fn user() -> u32 {
    // SAFETY: a plain system call without arguments that cannot fail.
    unsafe { libc::geteuid() }
}
