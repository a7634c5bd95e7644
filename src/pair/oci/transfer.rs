//! How does a pair go to a place, and come from one?

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use tandem_host::store::Digest;

use super::artefact::{Descriptor, MANIFEST_BYTES, Manifest, TYPE};
use super::cosign::{self, Expiry};
use super::error::OciError;
use super::reference::Reference;
use super::store::{Access, Store};
use super::trust::{Asked, Trust};
use crate::pair::files::{Existing, own_folder, write_folder};
use crate::pair::manifest::{FILE, PairManifest};
use crate::pair::signature::SIGNATURE;
use crate::pair::{Pair, PairError};

/// What a push did.
#[derive(Clone, Debug)]
pub struct Pushed {
    pub manifest: Digest,
    /// Files and bytes that were not there yet.
    pub sent: usize,
    pub bytes: u64,
    pub files: usize,
}

/// What a pull brought.
#[derive(Clone, Debug)]
pub struct Pulled {
    pub manifest: Digest,
    pub pair: PairManifest,
    /// The key whose owner signed it, if a signature was asked for.
    pub signed_by: Option<PathBuf>,
}

/// Puts a pair at a place, under a tag. What is there already is not sent again.
pub async fn push(
    pair: &Pair,
    reference: &Reference,
    plain_http: bool,
    mut told: impl FnMut(&str, u64),
) -> Result<Pushed, OciError> {
    let tag = match (&reference.tag, &reference.digest) {
        (Some(tag), None) => tag.clone(),
        _ => {
            let reason = "a push gives a tag; its digest comes out of it";
            return Err(OciError::Reference { text: reference.to_string(), reason });
        }
    };
    let store = Store::open(&reference.place, Access::Write, plain_http)?;
    let path = pair.folder.join(FILE);
    let config = fs::read(&path).map_err(PairError::io("read", &path))?;
    let mut files = BTreeMap::new();
    let names = pair.manifest.files.iter().map(|(name, digest)| (name.clone(), *digest));
    let signature = pair.folder.join(SIGNATURE);
    let signed = match fs::read(&signature) {
        Ok(bytes) => Some((SIGNATURE.to_owned(), Digest::of(&bytes))),
        Err(_) => None,
    };
    for (name, digest) in names.chain(signed) {
        let path = pair.folder.join(&name);
        let size = fs::metadata(&path).map_err(PairError::io("read", &path))?.len();
        files.insert(name, (digest, size));
    }
    let manifest = Manifest::of(&pair.manifest, &config, &files);
    let (mut sent, mut bytes) = (0, 0);
    for (name, (digest, size)) in &files {
        if store.has(digest, *size).await? {
            continue;
        }
        told(name, *size);
        store.put(digest, &pair.folder.join(name), *size).await?;
        sent += 1;
        bytes += size;
    }
    store.put_bytes(&config).await?;
    let text = manifest.bytes();
    store.put_manifest(&text, Some(TYPE), &tag).await?;
    Ok(Pushed { manifest: Digest::of(&text), sent, bytes, files: files.len() })
}

/// Signs what lies at a place, in cosign's format.
pub async fn sign_there(
    reference: &Reference,
    manifest: &Digest,
    pair: &Digest,
    key: &Path,
    expiry: Expiry,
    plain_http: bool,
) -> Result<(), OciError> {
    let store = Store::open(&reference.place, Access::Write, plain_http)?;
    cosign::sign(&store, reference, manifest, pair, key, expiry).await
}

/// Brings a pair into the new folder `out`, which appears only when all of it was checked. What came
/// of an earlier try is gone on with.
pub async fn pull(
    reference: &Reference,
    out: &Path,
    trust: &Trust,
    plain_http: bool,
    mut told: impl FnMut(&str, u64),
) -> Result<Pulled, OciError> {
    if out.exists() {
        return Err(PairError::Exists { path: out.to_owned() }.into());
    }
    // A policy that has no rule is asked before anybody else is.
    let asked = trust.asks(reference)?;
    let store = Store::open(&reference.place, Access::Read, plain_http)?;
    let bytes = match (&reference.digest, &reference.tag) {
        (Some(digest), _) => store.manifest(digest).await?,
        (None, tag) => store.tagged(tag.as_deref().unwrap_or("latest")).await?,
    };
    let bytes = bytes.ok_or_else(|| OciError::NotThere {
        place: reference.place.to_string(),
        tag: match (&reference.tag, &reference.digest) {
            (_, Some(digest)) => digest.to_string(),
            (tag, None) => tag.clone().unwrap_or_default(),
        },
    })?;
    let digest = Digest::of(&bytes);
    let manifest = Manifest::read(reference, &bytes)?;
    let named = manifest.annotations.get("dev.tandem.pair.digest").cloned().unwrap_or_default();
    let signed_by = match asked {
        Asked::Nothing => None,
        Asked::OneOf(keys) => Some(cosign::verify(&store, reference, &digest, &named, &keys).await?),
    };
    let config = store.bytes(&manifest.config.digest, MANIFEST_BYTES).await?;
    let staging = Staging::open(out)?;
    staging.keep(&manifest.config.digest, &config)?;
    let pair = read_config(&config)?;
    let places = manifest.places(reference, &pair)?;
    for (name, layer) in &places {
        staging.fetch(&store, name, layer, &mut told).await?;
    }
    let whole = write_folder(out, Existing::Refuse, |folder| {
        staging.link(&manifest.config.digest, &folder.join(FILE))?;
        for (name, layer) in &places {
            staging.link(&layer.digest, &folder.join(name))?;
        }
        // All that `pair verify` checks, before anybody sees the folder.
        crate::pair::verify(folder, Some(&pair.digest))
    });
    whole?;
    staging.remove();
    Ok(Pulled { manifest: digest, pair, signed_by })
}

/// Reads the configuration as the `pair.json` that it is.
fn read_config(config: &[u8]) -> Result<PairManifest, OciError> {
    let folder = tempfile::tempdir().map_err(PairError::io("made", Path::new("a temporary folder")))?;
    let path = folder.path().join(FILE);
    fs::write(&path, config).map_err(PairError::io("written", &path))?;
    Ok(PairManifest::read(folder.path())?)
}

/// How files are opened there: never through a link.
fn opening() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).custom_flags(libc::O_NOFOLLOW);
    options
}

/// Where files lie by their digest until all of them came: beside the folder that they will be in.
struct Staging {
    folder: PathBuf,
    _lock: File,
}

impl Staging {
    fn open(out: &Path) -> Result<Self, OciError> {
        let name = out.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let folder = out.with_file_name(format!(".{name}.pulling"));
        // Anybody can guess its name.
        own_folder(&folder)?;
        let path = folder.join("lock");
        let opened = opening().open(&path);
        let lock = opened.map_err(PairError::io("made", &path))?;
        // Another one that pulls to the same place is waited for.
        lock.lock().map_err(PairError::io("locked", &path))?;
        if out.exists() {
            return Err(PairError::Exists { path: out.to_owned() }.into());
        }
        // It may have ended and taken the folder with it.
        own_folder(&folder)?;
        Ok(Self { folder, _lock: lock })
    }

    fn file(&self, digest: &Digest) -> PathBuf {
        self.folder.join(digest.hex())
    }

    fn keep(&self, digest: &Digest, bytes: &[u8]) -> Result<(), PairError> {
        let path = self.file(digest);
        let mut file = opening().open(&path).map_err(PairError::io("made", &path))?;
        file.set_len(0)
            .and_then(|()| file.write_all(bytes))
            .and_then(|()| file.sync_all())
            .map_err(PairError::io("written", &path))
    }

    /// Fetches the bytes of a layer, unless they came before.
    async fn fetch(
        &self,
        store: &Store,
        name: &str,
        layer: &Descriptor,
        told: &mut impl FnMut(&str, u64),
    ) -> Result<(), OciError> {
        let target = self.file(&layer.digest);
        if fs::symlink_metadata(&target).is_ok_and(|meta| meta.is_file()) {
            return Ok(());
        }
        told(name, layer.size);
        let partial = target.with_extension("partial");
        let mut file = opening().open(&partial).map_err(PairError::io("made", &partial))?;
        store.fetch(&layer.digest, layer.size, &mut file).await?;
        file.sync_all().map_err(PairError::io("written", &partial))?;
        let found = Digest::of_file(&partial).map_err(PairError::io("read", &partial))?;
        if found != layer.digest {
            // What is wrong from the beginning cannot be gone on with.
            fs::remove_file(&partial).map_err(PairError::io("removed", &partial))?;
            return Err(OciError::Digest { what: format!("`{name}`"), expected: layer.digest, found });
        }
        fs::rename(&partial, &target).map_err(PairError::io("put in place", &target))?;
        Ok(())
    }

    /// Puts a file in its place in the pair.
    fn link(&self, digest: &Digest, path: &Path) -> Result<(), PairError> {
        let from = self.file(digest);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(PairError::io("made", folder))?;
        }
        // Two paths of a pair can have the same bytes.
        fs::hard_link(&from, path)
            .or_else(|_| fs::copy(&from, path).map(drop))
            .map_err(PairError::io("made", path))
    }

    fn remove(self) {
        if let Err(error) = fs::remove_dir_all(&self.folder) {
            tracing::warn!("{} cannot be removed: {error}", self.folder.display());
        }
    }
}
