//! How does a proposal become a harness? Source to component to a generation that
//! is ready to be leased, or a reason in words that a model can act on.

use std::sync::Arc;

use anyhow::{Context, Result};
use async_trait::async_trait;
use tandem_host::forge::{Forge, ForgeError, Language, Provenance, Source};
use tandem_host::harness::{Generation, HarnessManifest, PluginEntry};
use tandem_host::plugin::{AdmissionOptions, Engine};
use tandem_host::store::{BlobStore, Digest, write_whole};

use crate::evolve::Proposal;
use crate::evolve::teacher::Judge;

/// Builds candidates over one harness.
#[derive(Clone)]
pub struct Builder {
    pub engine: Engine,
    pub forge: Arc<Forge>,
    pub admission: AdmissionOptions,
    /// Where components and manifests are kept.
    pub blobs: BlobStore,
}

/// A candidate that was built and admitted.
pub struct Candidate {
    pub plugin: Digest,
    pub seconds: f64,
    pub generation: Arc<Generation>,
    /// The points and capabilities that the component has.
    pub exports: Vec<String>,
    pub grants: Vec<String>,
}

/// Why there is no candidate, with what there was.
pub struct Refused {
    pub plugin: Option<Digest>,
    pub seconds: f64,
    pub reason: String,
}

/// What the builder needs of a proposal.
pub struct Parts<'a> {
    pub name: &'a str,
    pub language: Language,
    pub source: &'a str,
    pub grants: &'a [String],
}

impl Builder {
    /// Builds `parts` and puts it into `incumbent`, in the place of a plugin of the same name if there is one.
    ///
    /// # Errors
    /// Trouble of this machine; what is wrong with the proposal is the inner error.
    pub async fn build(
        &self,
        parts: Parts<'_>,
        incumbent: &HarnessManifest,
    ) -> Result<Result<Candidate, Refused>> {
        let name = parts.language.file_name(parts.name);
        let source = Source::File { name, text: parts.source.to_owned() };
        let forge = self.forge.clone();
        let built = match tokio::task::spawn_blocking(move || forge.build(&source)).await? {
            Ok(built) => built,
            Err(error @ (ForgeError::Toolchain { .. } | ForgeError::Io { .. })) => return Err(error.into()),
            Err(error) => {
                return Ok(Err(Refused { plugin: None, seconds: 0.0, reason: error.to_string() }));
            }
        };
        let plugin = self.blobs.put(&built.component)?;
        // For the pair, which says what made a component.
        let beside = Provenance::path_beside(&self.blobs.path(&plugin));
        write_whole(&beside, &serde_json::to_vec(&built.provenance)?)
            .with_context(|| format!("{} cannot be written", beside.display()))?;
        let mut manifest = incumbent.clone();
        let entry = PluginEntry {
            name: parts.name.to_owned(),
            digest: plugin,
            grants: parts.grants.to_vec(),
            settings: serde_json::Map::new(),
        };
        match manifest.plugins.iter_mut().find(|existing| existing.name == entry.name) {
            Some(existing) => *existing = entry,
            None => manifest.plugins.push(entry),
        }
        let seconds = built.seconds;
        Ok(match Generation::build_with(&self.engine, manifest, &self.blobs, &self.admission).await {
            Ok(generation) => {
                Ok(Candidate { plugin, seconds, generation, exports: built.exports, grants: built.grants })
            }
            Err(error) => Err(Refused { plugin: Some(plugin), seconds, reason: error.to_string() }),
        })
    }
}

/// A builder over the harness of the moment, as a teacher's judge.
pub struct Bench<'a> {
    pub builder: &'a Builder,
    pub incumbent: &'a HarnessManifest,
}

#[async_trait]
impl Judge for Bench<'_> {
    async fn judge(&self, mut proposal: Proposal) -> Result<Result<Proposal, String>> {
        let parts = Parts {
            name: &proposal.name,
            language: proposal.language,
            source: &proposal.source,
            grants: &proposal.grants,
        };
        let built =
            self.builder.build(parts, self.incumbent).await.context("the proposal cannot be built")?;
        let candidate = match built {
            Ok(candidate) => candidate,
            Err(refused) => return Ok(Err(refused.reason)),
        };
        if let Some(manifest) = &proposal.manifest {
            // A schema of settings is no hook point and needs no mention.
            let exports: Vec<&String> =
                candidate.exports.iter().filter(|export| *export != "settings-schema").collect();
            let same = manifest.points.len() == exports.len()
                && exports.iter().all(|export| manifest.points.contains(export));
            if !same {
                let names: Vec<_> = exports.iter().map(|export| export.as_str()).collect();
                return Ok(Err(format!(
                    "`points` of the manifest are {}, and the source exports {}\nhelp: name in `points` what the source exports, no more and no less",
                    manifest.points.join(", "),
                    names.join(", ")
                )));
            }
        }
        // A grant that nothing uses is not given.
        proposal.grants.retain(|grant| candidate.grants.contains(grant));
        Ok(Ok(proposal))
    }
}
