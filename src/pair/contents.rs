//! What is in a pair, as `tandem pair inspect` tells it?

use serde::Serialize;
use tandem_host::harness::HarnessManifest;

use super::manifest::PairManifest;
use super::open::Pair;

/// Everything that a person who receives a pair wants to know. Shown, it is a page of text.
#[derive(Debug, Serialize)]
pub struct Contents {
    #[serde(flatten)]
    pub manifest: PairManifest,
    /// The canonical manifest: grants, settings, prompts, limits.
    pub harness_manifest: HarnessManifest,
    /// Of all files.
    pub bytes: u64,
}

impl Contents {
    pub fn of(pair: &Pair) -> Self {
        let size = |name: &String| std::fs::metadata(pair.folder.join(name)).map_or(0, |meta| meta.len());
        Self {
            bytes: pair.manifest.files.keys().map(size).sum(),
            manifest: pair.manifest.clone(),
            harness_manifest: pair.harness.clone(),
        }
    }
}
