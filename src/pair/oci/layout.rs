//! How does an artefact lie in a folder? As an OCI image layout 1.0.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tandem_host::store::{Digest, write_whole};

use super::artefact::{Descriptor, MANIFEST, MANIFEST_BYTES};
use super::error::OciError;

const MARK: &str = "oci-layout";
const INDEX: &str = "index.json";
/// The tag of a manifest in the index.
const NAME: &str = "org.opencontainers.image.ref.name";

/// A folder with such a layout.
#[derive(Clone, Debug)]
pub struct Layout {
    dir: PathBuf,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Index {
    schema_version: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    media_type: Option<String>,
    manifests: Vec<Descriptor>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Mark {
    image_layout_version: String,
}

impl Layout {
    /// The layout in a folder, which is not looked at yet.
    pub fn at(dir: &Path) -> Self {
        Self { dir: dir.to_owned() }
    }

    fn bad(&self, reason: impl ToString) -> OciError {
        OciError::Layout { path: self.dir.clone(), reason: reason.to_string() }
    }

    /// Makes it, or checks that the one that is there is one.
    pub fn make(&self) -> Result<(), OciError> {
        let mark = self.dir.join(MARK);
        if mark.exists() {
            return self.check();
        }
        if fs::read_dir(&self.dir).is_ok_and(|mut entries| entries.next().is_some()) {
            return Err(self.bad("it has other files in it"));
        }
        fs::create_dir_all(self.dir.join("blobs/sha256")).map_err(|error| self.bad(error))?;
        self.write_index(&Index { schema_version: 2, media_type: None, manifests: Vec::new() })?;
        let text = serde_json::to_vec(&Mark { image_layout_version: "1.0.0".into() });
        let text = text.map_err(|error| self.bad(error))?;
        write_whole(&mark, &text).map_err(|error| self.bad(error))
    }

    fn check(&self) -> Result<(), OciError> {
        let text = fs::read(self.dir.join(MARK)).map_err(|_| self.bad("it has no file `oci-layout`"))?;
        let mark: Mark = serde_json::from_slice(&text).map_err(|error| self.bad(error))?;
        match mark.image_layout_version.starts_with("1.") {
            true => Ok(()),
            false => Err(self.bad(format!("its version is {}", mark.image_layout_version))),
        }
    }

    fn index(&self) -> Result<Index, OciError> {
        self.check()?;
        let path = self.dir.join(INDEX);
        let meta = fs::metadata(&path).map_err(|_| self.bad("it has no file `index.json`"))?;
        if meta.len() > MANIFEST_BYTES {
            let what = format!("the index of {}", self.dir.display());
            return Err(OciError::TooLarge { what, found: meta.len(), limit: MANIFEST_BYTES });
        }
        let text = fs::read(&path).map_err(|error| self.bad(error))?;
        serde_json::from_slice(&text).map_err(|error| self.bad(format!("its index is not read: {error}")))
    }

    fn write_index(&self, index: &Index) -> Result<(), OciError> {
        let text = serde_json::to_vec(index).map_err(|error| self.bad(error))?;
        write_whole(&self.dir.join(INDEX), &text).map_err(|error| self.bad(error))
    }

    fn blob(&self, digest: &Digest) -> PathBuf {
        self.dir.join("blobs/sha256").join(digest.hex())
    }

    /// Whether it has these bytes.
    pub fn has(&self, digest: &Digest, size: u64) -> bool {
        fs::metadata(self.blob(digest)).is_ok_and(|meta| meta.is_file() && meta.len() == size)
    }

    /// Opens the bytes of a digest, with their number.
    pub fn open(&self, digest: &Digest) -> Result<(File, u64), OciError> {
        let file = File::open(self.blob(digest));
        let opened = file.and_then(|file| Ok((file.metadata()?.len(), file)));
        let (size, file) = opened.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => self.bad(format!("it lacks {digest}")),
            _ => self.bad(error),
        })?;
        Ok((file, size))
    }

    /// Keeps a file's bytes: they are there whole, or not at all.
    pub fn put(&self, digest: &Digest, from: &Path) -> Result<(), OciError> {
        let target = self.blob(digest);
        let folder = self.dir.join("blobs/sha256");
        let copied = || -> io::Result<()> {
            let mut new = tempfile::Builder::new().prefix(".new-").tempfile_in(&folder)?;
            io::copy(&mut File::open(from)?, new.as_file_mut())?;
            new.as_file().sync_all()?;
            let found = Digest::of_file(new.path())?;
            if found != *digest {
                return Err(io::Error::other(format!("{} changed while it was read", from.display())));
            }
            new.persist(&target)?;
            Ok(())
        };
        copied().map_err(|error| self.bad(error))
    }

    /// Keeps bytes.
    pub fn put_bytes(&self, bytes: &[u8]) -> Result<Digest, OciError> {
        let digest = Digest::of(bytes);
        write_whole(&self.blob(&digest), bytes).map_err(|error| self.bad(error))?;
        Ok(digest)
    }

    /// The manifest that a tag names; none where there is no such tag.
    pub fn tagged(&self, tag: &str) -> Result<Option<Digest>, OciError> {
        let index = self.index()?;
        let named = |one: &&Descriptor| one.annotations.get(NAME).is_some_and(|name| name == tag);
        Ok(index.manifests.iter().rev().find(named).map(|one| one.digest))
    }

    /// Names a manifest that is there; what had the tag before loses it.
    pub fn tag(&self, manifest: &[u8], artifact_type: Option<&str>, tag: &str) -> Result<(), OciError> {
        // Two that tag at once go one after the other.
        let lock = File::open(&self.dir).map_err(|error| self.bad(error))?;
        lock.lock().map_err(|error| self.bad(error))?;
        let mut index = self.index()?;
        index.manifests.retain(|one| one.annotations.get(NAME).is_none_or(|name| name != tag));
        let mut descriptor = Descriptor::of(MANIFEST, manifest);
        descriptor.artifact_type = artifact_type.map(str::to_owned);
        descriptor.annotations.insert(NAME.to_owned(), tag.to_owned());
        index.manifests.push(descriptor);
        self.write_index(&index)
    }
}
