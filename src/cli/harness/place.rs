//! Where do harnesses lie, and which one does a word name?

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use tandem_host::agent::check_prompts;
use tandem_host::harness::{Generation, HarnessError, HarnessHome, HarnessManifest, PluginFacts};
use tandem_host::plugin::{AdmissionOptions, Engine};
use tandem_host::store::{BlobStore, Digest, StoreError};

use crate::cli::setup;

/// The folder with harnesses and their ledger.
#[derive(clap::Args)]
pub struct Place {
    /// The harness home: a folder with `blobs` and `ledger`. The folder of a run is one.
    #[arg(long, value_name = "DIR", env = "TANDEM_HARNESS_HOME", default_value = DEFAULT)]
    home: PathBuf,
}

/// The home where none is named.
const DEFAULT: &str = ".tandem";

/// A harness that was found, not built yet.
pub struct Found {
    pub manifest: HarnessManifest,
    /// True when it is that of a file, which the home may never have seen.
    pub file: bool,
}

impl Place {
    pub fn dir(&self) -> &Path {
        &self.home
    }

    /// The home of a running server.
    ///
    /// # Errors
    /// When another home was named.
    pub fn of_server(self, home: PathBuf) -> Result<Self> {
        let named = std::path::absolute(&self.home).context("the home has no path")?;
        let same =
            named == home || matches!((named.canonicalize(), home.canonicalize()), (Ok(a), Ok(b)) if a == b);
        if self.home != Path::new(DEFAULT) && !same {
            bail!(
                "the server serves from the home {}, and {} was named\nhelp: leave `--home` out",
                home.display(),
                self.home.display()
            );
        }
        Ok(Self { home })
    }

    /// The home, which must be there.
    pub fn open(&self) -> Result<HarnessHome> {
        Ok(HarnessHome::open(&self.home)?)
    }

    /// The harness that `word` names: a manifest file, or one of the home.
    pub fn find(&self, word: &str) -> Result<Found> {
        // Neither digests nor the words of a home have these characters.
        if word.contains(['.', '/']) {
            return Ok(Found { manifest: HarnessManifest::read(word.as_ref())?, file: true });
        }
        let home = self.open()?;
        let manifest = home.manifest(&home.resolve(word)?)?;
        Ok(Found { manifest, file: false })
    }

    /// The component of a plugin from the home, which may not be there.
    fn component(&self, digest: &Digest) -> Result<Vec<u8>, StoreError> {
        let dir = self.home.join("blobs");
        match dir.is_dir() {
            true => BlobStore::open(dir)?.get(digest),
            false => Err(StoreError::Missing { digest: *digest, dir }),
        }
    }
}

/// A place to build harnesses in that nobody else sees: what is refused leaves nothing behind.
pub struct Bench {
    engine: Engine,
    admission: AdmissionOptions,
    blobs: BlobStore,
    _folder: tempfile::TempDir,
}

impl Bench {
    pub fn new() -> Result<Self> {
        let folder = tempfile::tempdir().context("a scratch folder cannot be made")?;
        Ok(Self {
            engine: setup::engine()?,
            admission: setup::admission()?,
            blobs: BlobStore::open(folder.path())?,
            _folder: folder,
        })
    }

    /// The components and manifests that were built here.
    pub fn blobs(&self) -> &BlobStore {
        &self.blobs
    }

    /// Builds and admits a harness from components that lie here or in the home.
    pub async fn build(
        &self,
        place: &Place,
        manifest: &HarnessManifest,
    ) -> Result<Arc<Generation>, HarnessError> {
        for plugin in &manifest.plugins {
            if self.blobs.contains(&plugin.digest) {
                continue;
            }
            let name = plugin.name.clone();
            place
                .component(&plugin.digest)
                .and_then(|bytes| self.blobs.put(&bytes))
                .map_err(|source| HarnessError::Blob { name, source })?;
        }
        Generation::build_with(&self.engine, manifest.clone(), &self.blobs, &self.admission).await
    }

    /// What admission finds of the plugins, or why it finds nothing.
    pub async fn facts(
        &self,
        place: &Place,
        manifest: &HarnessManifest,
    ) -> Result<Vec<PluginFacts>, HarnessError> {
        Ok(self.build(place, manifest).await?.facts())
    }
}

/// Whether the harness was refused, so that the answer is no and nothing is broken here.
pub fn is_refusal(error: &HarnessError) -> bool {
    matches!(
        error,
        HarnessError::Admission { .. }
            | HarnessError::DuplicateTool { .. }
            | HarnessError::HostTool { .. }
            | HarnessError::Limit(_)
            | HarnessError::DuplicateName { .. }
            | HarnessError::Name { .. }
            | HarnessError::UnknownGrant { .. }
            | HarnessError::Contract { .. }
    )
}

/// Checks what admission does not: the prompts and the limits.
pub fn check_texts(manifest: &HarnessManifest) -> Result<()> {
    check_prompts(&manifest.prompts, &manifest.limits)?;
    if manifest.limits.turns == 0 {
        bail!("`limits.turns` is 0, so no episode could begin\nhelp: set it to 1 or more");
    }
    Ok(())
}
