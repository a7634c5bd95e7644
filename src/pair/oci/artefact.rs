//! What does a pair look like as an OCI artefact?

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tandem_host::store::Digest;

use super::error::OciError;
use super::reference::Reference;
use crate::pair::PairError;
use crate::pair::files::is_inside;
use crate::pair::manifest::{FILE, PairManifest};
use crate::pair::signature::SIGNATURE;

/// What the artefact is (OCI Image Specification 1.1, `artifactType`).
pub const TYPE: &str = "application/vnd.tandem.pair.v1";
pub const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.tandem.pair.config.v1+json";
/// As the layout of the CNCF for Wasm artefacts has components.
const WASM: &str = "application/wasm";
const WEIGHTS: &str = "application/vnd.tandem.pair.weights.v1.safetensors";
const OTHER: &str = "application/vnd.tandem.pair.file.v1";
/// The path of a layer in the pair; other programs write the file under this name.
const TITLE: &str = "org.opencontainers.image.title";

/// Bytes of a manifest or a configuration.
pub const MANIFEST_BYTES: u64 = 4 << 20;
/// Bytes of all files of a pair together.
const PAIR_BYTES: u64 = 1 << 40;
/// Files of a pair.
const LAYERS: usize = 20_000;

/// Something that is named by digest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Descriptor {
    pub media_type: String,
    pub digest: Digest,
    pub size: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact_type: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

/// An OCI image manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Manifest {
    pub schema_version: u32,
    #[serde(default)]
    pub media_type: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact_type: Option<String>,
    pub config: Descriptor,
    #[serde(default)]
    pub layers: Vec<Descriptor>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

impl Descriptor {
    pub fn of(media_type: &str, bytes: &[u8]) -> Self {
        let (digest, size) = (Digest::of(bytes), bytes.len() as u64);
        Self {
            media_type: media_type.to_owned(),
            digest,
            size,
            artifact_type: None,
            annotations: BTreeMap::new(),
        }
    }
}

impl Manifest {
    /// The artefact of a pair. `sizes` has every file but `pair.json`, with its digest and its bytes.
    pub fn of(pair: &PairManifest, config: &[u8], sizes: &BTreeMap<String, (Digest, u64)>) -> Self {
        let layers = sizes.iter().map(|(path, (digest, size))| Descriptor {
            media_type: media_type(path).to_owned(),
            digest: *digest,
            size: *size,
            artifact_type: None,
            annotations: BTreeMap::from([(TITLE.to_owned(), path.clone())]),
        });
        let mut annotations = BTreeMap::new();
        for (name, value) in [
            ("org.opencontainers.image.title", pair.name.clone()),
            ("dev.tandem.pair.digest", pair.digest.to_string()),
            ("dev.tandem.pair.harness", pair.harness.to_string()),
            ("dev.tandem.pair.contract", pair.contract.clone()),
        ] {
            annotations.insert(name.to_owned(), value);
        }
        Self {
            schema_version: 2,
            media_type: MANIFEST.into(),
            artifact_type: Some(TYPE.into()),
            config: Descriptor::of(CONFIG, config),
            layers: layers.collect(),
            annotations,
        }
    }

    /// Its bytes, the same for the same pair.
    pub fn bytes(&self) -> Vec<u8> {
        // Texts and numbers always have a JSON form.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Reads the manifest of a pair.
    ///
    /// # Errors
    /// Anything that is no pair of this program.
    pub fn read(reference: &Reference, bytes: &[u8]) -> Result<Self, OciError> {
        let bad = |reason: String| OciError::NotAPair { reference: reference.to_string(), reason };
        let manifest: Self = serde_json::from_slice(bytes)
            .map_err(|error| bad(format!("its manifest is not read: {error}")))?;
        if manifest.artifact_type.as_deref() != Some(TYPE) || manifest.config.media_type != CONFIG {
            let found = manifest.artifact_type.as_deref().unwrap_or(&manifest.config.media_type);
            return Err(bad(format!("it is of the type `{found}`")));
        }
        if manifest.layers.len() > LAYERS {
            return Err(bad(format!("it has {} layers, and {LAYERS} are allowed", manifest.layers.len())));
        }
        let found = manifest.layers.iter().fold(0_u64, |sum, layer| sum.saturating_add(layer.size));
        if found > PAIR_BYTES {
            return Err(OciError::TooLarge { what: reference.to_string(), found, limit: PAIR_BYTES });
        }
        Ok(manifest)
    }

    /// Where each layer goes, after `pair.json` said which files there are: nothing else is fetched.
    ///
    /// # Errors
    /// A layer without a place, twice, not named by the pair or with another digest; a file without a layer.
    pub fn places(
        &self,
        reference: &Reference,
        pair: &PairManifest,
    ) -> Result<BTreeMap<String, &Descriptor>, OciError> {
        let bad = |reason: String| OciError::NotAPair { reference: reference.to_string(), reason };
        let mut places = BTreeMap::new();
        for layer in &self.layers {
            let path = layer.annotations.get(TITLE).ok_or_else(|| bad("a layer has no path".into()))?;
            if !is_inside(path) || path == FILE {
                return Err(OciError::Pair(PairError::Outside { file: path.clone() }));
            }
            match pair.files.get(path) {
                Some(digest) if *digest == layer.digest => {}
                Some(digest) => {
                    let (expected, found) = (*digest, layer.digest);
                    return Err(OciError::Digest {
                        what: format!("`{path}` of {reference}"),
                        expected,
                        found,
                    });
                }
                None if path == SIGNATURE => {}
                None => return Err(bad(format!("it holds `{path}`, which its pair.json does not name"))),
            }
            if places.insert(path.clone(), layer).is_some() {
                return Err(bad(format!("it holds `{path}` twice")));
            }
        }
        match pair.files.keys().find(|path| !places.contains_key(*path)) {
            Some(path) => Err(bad(format!("it lacks `{path}`"))),
            None => Ok(places),
        }
    }
}

fn media_type(path: &str) -> &'static str {
    match path.rsplit_once('.').map(|(_, ending)| ending) {
        Some("wasm") if path.starts_with("components/") => WASM,
        Some("safetensors") => WEIGHTS,
        _ => OTHER,
    }
}
