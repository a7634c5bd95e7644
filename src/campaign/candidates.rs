//! How does a proposal become a harness? Source to component to a generation that
//! is ready to be leased, or a reason in words that a model can act on.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use async_trait::async_trait;
use tandem_host::agent::check_prompts;
use tandem_host::forge::{Built, Forge, ForgeError, Language, Provenance, Source};
use tandem_host::harness::{Generation, HarnessManifest};
use tandem_host::plugin::{AdmissionOptions, Engine};
use tandem_host::store::{BlobStore, Digest, write_whole};

use crate::evolve::teacher::Judge;
use crate::evolve::{Edit, Proposal};

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
    /// The component that was built, of a plugin.
    pub plugin: Option<Digest>,
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

impl Builder {
    /// Makes the harness that `edit`, proposed as `name`, makes of `incumbent`. Only a plugin goes through
    /// the forge; admission is the same for every kind.
    ///
    /// # Errors
    /// Trouble of this machine; what is wrong with the proposal is the inner error.
    pub async fn build(
        &self,
        name: &str,
        edit: &Edit,
        incumbent: &HarnessManifest,
    ) -> Result<Result<Candidate, Refused>> {
        let built = match edit {
            Edit::Plugin { language, source, .. } => match self.forged(name, *language, source).await? {
                Ok(built) => Some(built),
                Err(reason) => return Ok(Err(Refused { plugin: None, seconds: 0.0, reason })),
            },
            _ => None,
        };
        let (plugin, built) = built.unzip();
        let seconds = built.as_ref().map_or(0.0, |built| built.seconds);
        let made = match self.screened(edit) {
            Ok(()) => edit.apply(name, plugin, incumbent),
            Err(reason) => Err(reason),
        };
        let made = made.and_then(|manifest| match manifest.digest() == incumbent.digest() {
            true => {
                Err("the harness is so already: the edit changes nothing\nhelp: propose another change"
                    .into())
            }
            false => Ok(manifest),
        });
        // Limits are values of prompts: what changes them can leave a prompt without one.
        let made = made.and_then(|manifest| match check_prompts(&manifest.prompts, &manifest.limits) {
            Ok(()) => Ok(manifest),
            Err(error) => Err(error.to_string()),
        });
        let admitted = match made {
            Ok(manifest) => {
                let built = Generation::build_with(&self.engine, manifest, &self.blobs, &self.admission);
                built.await.map_err(|error| error.to_string())
            }
            Err(reason) => Err(reason),
        };
        let checked = admitted.and_then(|generation| {
            edit.check_admitted(&generation.facts())?;
            Ok(generation)
        });
        let (exports, grants) = built.map(|built| (built.exports, built.grants)).unwrap_or_default();
        Ok(match checked {
            Ok(generation) => Ok(Candidate { plugin, seconds, generation, exports, grants }),
            Err(reason) => Err(Refused { plugin, seconds, reason }),
        })
    }

    /// Source to a component that is kept.
    async fn forged(
        &self,
        name: &str,
        language: Language,
        source: &str,
    ) -> Result<Result<(Digest, Built), String>> {
        let source = Source::File { name: language.file_name(name), text: source.to_owned() };
        let forge = self.forge.clone();
        let built = match tokio::task::spawn_blocking(move || forge.build(&source)).await? {
            Ok(built) => built,
            Err(error @ (ForgeError::Toolchain { .. } | ForgeError::Io { .. })) => return Err(error.into()),
            Err(error) => return Ok(Err(error.to_string())),
        };
        let plugin = self.blobs.put(&built.component)?;
        // For the pair, which says what made a component.
        let beside = Provenance::path_beside(&self.blobs.path(&plugin));
        write_whole(&beside, &serde_json::to_vec(&built.provenance)?)
            .with_context(|| format!("{} cannot be written", beside.display()))?;
        Ok(Ok((plugin, built)))
    }

    /// Refuses text that names a task: admission looks for that in components alone.
    fn screened(&self, edit: &Edit) -> Result<(), String> {
        if let Edit::Plugin { .. } = edit {
            return Ok(());
        }
        match self.admission.forbidden_in(edit.written().as_bytes()) {
            None => Ok(()),
            Some(name) => Err(format!(
                "it holds the string `{name}`, which belongs to a task or its tests\nhelp: write what holds for every task"
            )),
        }
    }
}

/// A builder over the harness of the moment, as a teacher's judge.
pub struct Bench<'a> {
    builder: &'a Builder,
    incumbent: &'a HarnessManifest,
    /// Harnesses that had their chance, and those of the proposals that it let through.
    tried: Mutex<BTreeSet<Digest>>,
}

impl<'a> Bench<'a> {
    /// A judge of proposals for `incumbent`, which takes none whose harness is among `tried`.
    pub fn new(builder: &'a Builder, incumbent: &'a HarnessManifest, tried: BTreeSet<Digest>) -> Self {
        Self { builder, incumbent, tried: Mutex::new(tried) }
    }
}

#[async_trait]
impl Judge for Bench<'_> {
    async fn judge(&self, mut proposal: Proposal) -> Result<Result<Proposal, String>> {
        let built = self.builder.build(&proposal.name, &proposal.edit, self.incumbent).await;
        let built = built.context("the proposal cannot be built")?;
        let candidate = match built {
            Ok(candidate) => candidate,
            Err(refused) => return Ok(Err(refused.reason)),
        };
        if let (Edit::Plugin { .. }, Some(manifest)) = (&proposal.edit, &proposal.manifest) {
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
        if let Edit::Plugin { grants, .. } = &mut proposal.edit {
            grants.retain(|grant| candidate.grants.contains(grant));
        }
        // As it will be put into the harness, without those grants.
        let made = proposal.edit.apply(&proposal.name, candidate.plugin, self.incumbent);
        let made = made.map_err(anyhow::Error::msg)?.digest();
        let is_new = self.tried.lock().unwrap_or_else(PoisonError::into_inner).insert(made);
        Ok(match is_new {
            true => Ok(proposal),
            false => Err("the harness that this makes was tried before\nhelp: propose another mechanism; the ideas that did not help are listed above".into()),
        })
    }
}
