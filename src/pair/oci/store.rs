//! What is asked of a place, be it a registry or a folder?

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use tandem_host::store::Digest;

use super::artefact::MANIFEST_BYTES;
use super::error::OciError;
use super::layout::Layout;
use super::reference::Place;
use super::registry::Registry;
use crate::pair::PairError;

/// What is done at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
    Read,
    Write,
}

/// An open place.
pub enum Store {
    Layout(Layout),
    Registry(Box<Registry>),
}

impl Store {
    /// Opens a place. A layout that is to be written is made if it is not there.
    pub fn open(place: &Place, access: Access, plain_http: bool) -> Result<Self, OciError> {
        match place {
            Place::Layout(dir) => {
                let layout = Layout::at(dir);
                if access == Access::Write {
                    layout.make()?;
                }
                Ok(Self::Layout(layout))
            }
            Place::Registry { host, repository } => {
                Ok(Self::Registry(Box::new(Registry::open(host, repository, plain_http)?)))
            }
        }
    }

    /// The bytes of a manifest, by its tag; none where there is no such tag.
    pub async fn tagged(&self, tag: &str) -> Result<Option<Vec<u8>>, OciError> {
        match self {
            Self::Layout(layout) => match layout.tagged(tag)? {
                Some(digest) => Ok(Some(self.bytes(&digest, MANIFEST_BYTES).await?)),
                None => Ok(None),
            },
            Self::Registry(registry) => registry.manifest(tag).await,
        }
    }

    /// The bytes of a manifest, by its digest, which they have.
    pub async fn manifest(&self, digest: &Digest) -> Result<Option<Vec<u8>>, OciError> {
        let bytes = match self {
            Self::Layout(_) => Some(self.bytes(digest, MANIFEST_BYTES).await?),
            Self::Registry(registry) => registry.manifest(&digest.to_string()).await?,
        };
        match bytes {
            Some(bytes) => checked("the manifest", bytes, digest).map(Some),
            None => Ok(None),
        }
    }

    /// Puts a manifest under a tag.
    pub async fn put_manifest(
        &self,
        bytes: &[u8],
        artifact_type: Option<&str>,
        tag: &str,
    ) -> Result<(), OciError> {
        match self {
            Self::Layout(layout) => {
                layout.put_bytes(bytes)?;
                layout.tag(bytes, artifact_type, tag)
            }
            Self::Registry(registry) => registry.put_manifest(bytes, tag).await,
        }
    }

    /// Whether it has these bytes.
    pub async fn has(&self, digest: &Digest, size: u64) -> Result<bool, OciError> {
        match self {
            Self::Layout(layout) => Ok(layout.has(digest, size)),
            Self::Registry(registry) => registry.has(digest).await,
        }
    }

    /// Puts a file's bytes there.
    pub async fn put(&self, digest: &Digest, from: &Path, size: u64) -> Result<(), OciError> {
        match self {
            Self::Layout(layout) => layout.put(digest, from),
            Self::Registry(registry) => registry.put(digest, from, size).await,
        }
    }

    /// Puts bytes there, unless they are there.
    pub async fn put_bytes(&self, bytes: &[u8]) -> Result<(), OciError> {
        let digest = Digest::of(bytes);
        if self.has(&digest, bytes.len() as u64).await? {
            return Ok(());
        }
        let file = tempfile::NamedTempFile::new().and_then(|mut file| {
            io::Write::write_all(&mut file, bytes)?;
            Ok(file)
        });
        let file = file.map_err(PairError::io("made", Path::new("a temporary file")))?;
        self.put(&digest, file.path(), bytes.len() as u64).await
    }

    /// Fills a file with the bytes of a digest; what it has already is the beginning of them.
    pub async fn fetch(&self, digest: &Digest, size: u64, out: &mut File) -> Result<(), OciError> {
        match self {
            Self::Layout(layout) => {
                let (mut file, found) = layout.open(digest)?;
                if found != size {
                    let what = format!("{digest}");
                    return Err(OciError::TooLarge { what, found, limit: size });
                }
                let copied = out.set_len(0).and_then(|()| out.seek(SeekFrom::Start(0)));
                let copied = copied.and_then(|_| io::copy(&mut file, out));
                copied.map_err(PairError::io("copied", Path::new("a file of the pair")))?;
                Ok(())
            }
            Self::Registry(registry) => registry.fetch(digest, size, out).await,
        }
    }

    /// The bytes of a digest, which they have.
    pub async fn bytes(&self, digest: &Digest, limit: u64) -> Result<Vec<u8>, OciError> {
        let what = "a part of the artefact";
        let bytes = match self {
            Self::Layout(layout) => {
                let (file, found) = layout.open(digest)?;
                if found > limit {
                    return Err(OciError::TooLarge { what: what.into(), found, limit });
                }
                let mut bytes = Vec::new();
                file.take(limit).read_to_end(&mut bytes).map_err(PairError::io("read", Path::new(what)))?;
                bytes
            }
            Self::Registry(registry) => registry.small(digest, limit).await?,
        };
        checked(what, bytes, digest)
    }
}

/// Bytes that have the digest that they should have.
pub fn checked(what: &str, bytes: Vec<u8>, expected: &Digest) -> Result<Vec<u8>, OciError> {
    let found = Digest::of(&bytes);
    match found == *expected {
        true => Ok(bytes),
        false => Err(OciError::Digest { what: what.to_owned(), expected: *expected, found }),
    }
}
