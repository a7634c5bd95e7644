//! How is the harness of a daemon read, and did it change?

use std::path::PathBuf;
use std::time::SystemTime;

use anyhow::{Context, Result};
use tandem_host::harness::{HarnessHome, HarnessManifest};
use tandem_host::store::{BlobStore, Digest};

use super::target::Target;
use crate::pair::Halves;

/// When a harness was last seen, to notice cheaply that it changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    File(Option<(SystemTime, u64)>),
    /// What a word of the home means.
    Home(Option<Digest>),
}

impl Target {
    fn file(&self) -> Option<PathBuf> {
        self.harness.contains('/').then(|| PathBuf::from(&self.harness))
    }

    /// What it is now.
    pub fn seen(&self) -> Seen {
        match self.file() {
            Some(path) => {
                let file = if path.is_dir() { path.join("pair.json") } else { path };
                let meta = std::fs::metadata(file).ok();
                Seen::File(meta.and_then(|meta| Some((meta.modified().ok()?, meta.len()))))
            }
            None => {
                let found = HarnessHome::open(&self.home).and_then(|home| home.resolve(&self.harness));
                Seen::Home(found.ok())
            }
        }
    }

    /// Reads the manifest, with every component in `blobs`.
    ///
    /// # Errors
    /// A manifest, a component or a pair that cannot be read or is not whole.
    pub fn load(&self, blobs: &BlobStore) -> Result<HarnessManifest> {
        let manifest = match self.file() {
            Some(path) if path.is_dir() => {
                let pair = crate::pair::open(&path, Halves::MustMatch)?;
                return Ok(pair.harness_in(blobs)?);
            }
            Some(path) => HarnessManifest::read(&path)?,
            None => {
                let home = HarnessHome::open(&self.home)?;
                home.manifest(&home.resolve(&self.harness)?)?
            }
        };
        let kept = self.home.join("blobs");
        for plugin in manifest.plugins.iter().filter(|plugin| !blobs.contains(&plugin.digest)) {
            let bytes =
                BlobStore::open(&kept).and_then(|kept| kept.get(&plugin.digest)).with_context(|| {
                    format!("the component of the plugin `{}` is not in the home", plugin.name)
                })?;
            blobs.put(&bytes)?;
        }
        Ok(manifest)
    }
}
