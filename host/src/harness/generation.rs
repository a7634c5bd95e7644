//! Generations and leases: publishing is one atomic store; an episode keeps what it leased.

use std::sync::Arc;

use arc_swap::ArcSwap;

use super::hooks::EpisodeHooks;
use super::manifest::HarnessManifest;
use crate::plugin::WorkspaceAccess;
use crate::store::Digest;

/// A harness as published: manifest, digest, and its plugins ready to instantiate.
pub struct Generation {
    manifest: HarnessManifest,
    digest: Digest,
}

impl Generation {
    /// A generation without plugins.
    pub fn bare(manifest: HarnessManifest) -> Self {
        let digest = manifest.digest();
        Self { manifest, digest }
    }
}

/// The current generation of a running host.
pub struct Generations {
    current: ArcSwap<Generation>,
}

impl Generations {
    pub fn new(first: Generation) -> Arc<Self> {
        Arc::new(Self { current: ArcSwap::from_pointee(first) })
    }

    /// Makes `next` current: one atomic store. Running episodes keep their lease.
    pub fn publish(&self, next: Arc<Generation>) {
        self.current.store(next);
    }

    /// The hold that an episode takes from its start to its end.
    pub fn lease(&self) -> Lease {
        Lease(self.current.load_full())
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
}
