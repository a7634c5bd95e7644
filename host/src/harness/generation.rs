//! Generations and leases: publishing is one atomic store; an episode keeps what it leased.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arc_swap::ArcSwap;

use super::error::HarnessError;
use super::hooks::EpisodeHooks;
use super::manifest::{CONTRACT, FINISH, HandIn, HarnessManifest};
use crate::plugin::{
    AdmissionOptions, Admitted, Engine, Grants, HookPoint, ToolDefinition, WorkspaceAccess, admit,
    with_settings,
};
use crate::store::{BlobStore, Digest};

/// A harness as published: manifest, digest, and its plugins ready to instantiate.
pub struct Generation {
    manifest: HarnessManifest,
    digest: Digest,
    plugins: Vec<Member>,
    /// For each point, which plugins export it, in order.
    with: [Arc<[usize]>; HookPoint::ALL.len()],
}

/// A plugin in its place in a harness.
pub(super) struct Member {
    pub name: String,
    pub admitted: Arc<Admitted>,
    /// A JSON object.
    pub settings: Arc<str>,
    /// Its tools under these settings.
    pub tools: Vec<ToolDefinition>,
}

impl Generation {
    /// A generation without plugins; those of `manifest` are left out.
    pub fn bare(mut manifest: HarnessManifest) -> Self {
        manifest.plugins.clear();
        let digest = manifest.digest();
        Self::of(manifest, digest, Vec::new())
    }

    fn of(manifest: HarnessManifest, digest: Digest, plugins: Vec<Member>) -> Self {
        let with = HookPoint::ALL
            .map(|point| (0..plugins.len()).filter(|index| plugins[*index].admitted.has(point)).collect());
        Self { manifest, digest, plugins, with }
    }

    /// Builds a generation off the path: contract version, names, blobs, admission of every
    /// plugin with its grants, trial calls under its settings. Plugins that were admitted
    /// before with the same grants are not compiled again. Keeps the canonical manifest in
    /// `blobs`, where its digest is the harness digest.
    pub async fn build(
        engine: &Engine,
        manifest: HarnessManifest,
        blobs: &BlobStore,
    ) -> Result<Arc<Self>, HarnessError> {
        Self::build_with(engine, manifest, blobs, &AdmissionOptions::default()).await
    }

    /// The same with a choice where components are compiled and what they must not hold.
    pub async fn build_with(
        engine: &Engine,
        manifest: HarnessManifest,
        blobs: &BlobStore,
        options: &AdmissionOptions,
    ) -> Result<Arc<Self>, HarnessError> {
        if manifest.contract != CONTRACT {
            return Err(HarnessError::Contract { found: manifest.contract });
        }
        manifest.limits.check().map_err(HarnessError::Limit)?;
        let mut names = BTreeSet::new();
        for entry in &manifest.plugins {
            if !is_name(&entry.name) {
                return Err(HarnessError::Name { name: entry.name.escape_default().to_string() });
            }
            if !names.insert(&entry.name) {
                return Err(HarnessError::DuplicateName { name: entry.name.clone() });
            }
        }
        let mut plugins = Vec::new();
        let mut owners = BTreeMap::new();
        for entry in &manifest.plugins {
            let name = entry.name.clone();
            let grants = Grants::parse(&entry.grants)
                .map_err(|unknown| HarnessError::UnknownGrant { name: name.clone(), grant: unknown.0 })?;
            let bytes = blobs
                .get(&entry.digest)
                .map_err(|source| HarnessError::Blob { name: name.clone(), source })?;
            let refused = |source| HarnessError::Admission { name: name.clone(), source };
            let admitted = admit(engine, &bytes, &grants, options).await.map_err(refused)?;
            let settings = serde_json::Value::Object(entry.settings.clone());
            let tools = with_settings(&admitted, &settings).await.map_err(refused)?;
            for tool in &tools {
                // Its name is free where the host has no such tool; `bash` is refused at admission.
                if tool.name == FINISH && manifest.limits.hand_in == HandIn::Finish {
                    return Err(HarnessError::HostTool { tool: tool.name.clone(), plugin: name });
                }
                if let Some(first) = owners.insert(tool.name.clone(), name.clone()) {
                    let tool = tool.name.clone();
                    return Err(HarnessError::DuplicateTool { tool, first, second: name });
                }
            }
            plugins.push(Member { name, admitted, settings: settings.to_string().into(), tools });
        }
        let digest = manifest.digest();
        blobs
            .put(manifest.canonical_json().as_bytes())
            .map_err(|source| HarnessError::Keep { digest, source })?;
        Ok(Arc::new(Self::of(manifest, digest, plugins)))
    }

    /// A hold on this generation itself, whatever is current: for the arms of a gate.
    pub fn lease(self: &Arc<Self>) -> Lease {
        Lease(self.clone())
    }

    /// The harness digest.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// The manifest that it was built from.
    pub fn manifest(&self) -> &HarnessManifest {
        &self.manifest
    }

    pub(super) fn plugins(&self) -> &[Member] {
        &self.plugins
    }

    /// Positions of the plugins that export `point`.
    pub(super) fn with(&self, point: HookPoint) -> Arc<[usize]> {
        self.with[point as usize].clone()
    }
}

/// Whether a plugin may have this name: only what cannot be taken for another name by a reader.
fn is_name(name: &str) -> bool {
    let good = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=64).contains(&name.len()) && name.bytes().all(good)
}

/// The current generation of a running host.
pub struct Generations {
    current: ArcSwap<Generation>,
}

impl Generations {
    pub fn new(first: impl Into<Arc<Generation>>) -> Arc<Self> {
        Arc::new(Self { current: ArcSwap::new(first.into()) })
    }

    /// Makes `next` current: one atomic store. Running episodes keep their lease; what was
    /// current is dropped with the last of them.
    pub fn publish(&self, next: Arc<Generation>) {
        self.current.store(next);
    }

    /// The hold that an episode takes from its start to its end.
    pub fn lease(&self) -> Lease {
        Lease(self.current.load_full())
    }

    /// The digest of the current generation.
    pub fn current(&self) -> Digest {
        self.current.load().digest
    }

    /// Makes an earlier harness current again, from the manifest and components in `blobs`.
    pub async fn activate(
        &self,
        engine: &Engine,
        digest: Digest,
        blobs: &BlobStore,
    ) -> Result<(), HarnessError> {
        if self.current() == digest {
            return Ok(());
        }
        let json = blobs.get(&digest).map_err(|source| HarnessError::Unknown { digest, source })?;
        let manifest = HarnessManifest::from_json(&format!("the harness {digest}"), &json)?;
        self.publish(Generation::build(engine, manifest, blobs).await?);
        Ok(())
    }
}

/// The hold of an episode on one generation.
#[derive(Clone)]
pub struct Lease(Arc<Generation>);

impl Lease {
    pub fn digest(&self) -> Digest {
        self.0.digest
    }

    pub fn manifest(&self) -> &HarnessManifest {
        &self.0.manifest
    }

    /// The plugins for one episode.
    pub fn open(&self, seed: u64, workspace: Arc<dyn WorkspaceAccess>) -> EpisodeHooks {
        EpisodeHooks::new(self.clone(), seed, workspace)
    }

    #[cfg(test)]
    pub(super) fn watch(&self) -> std::sync::Weak<Generation> {
        Arc::downgrade(&self.0)
    }

    pub(super) fn generation(&self) -> &Generation {
        &self.0
    }
}
