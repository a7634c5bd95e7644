//! Who vouches for an artefact? Signatures where cosign has them: a manifest under the tag
//! `sha256-HEX.sig` whose layers are payloads ("simple signing"), each with its signature beside it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use tandem_host::harness::rfc3339;
use tandem_host::store::Digest;

use super::artefact::{Descriptor, MANIFEST, MANIFEST_BYTES, Manifest};
use super::error::OciError;
use super::reference::Reference;
use super::store::Store;
use crate::pair::signature::{is_signature_of, sign_bytes};

const PAYLOAD: &str = "application/vnd.dev.cosign.simplesigning.v1+json";
const SIGNATURE: &str = "dev.cosignproject.cosign/signature";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const KIND: &str = "cosign container image signature";
/// The name of our own in a payload: until when it is good.
const EXPIRES: &str = "dev.tandem.expires";
/// The same: which pair it is.
const PAIR: &str = "dev.tandem.pair.digest";
/// Signatures of one artefact that are looked at.
const SIGNATURES: usize = 64;

/// Until when a signature is good, in days from now; none is for ever.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Expiry(pub Option<u64>);

/// The tag under which the signatures of a manifest lie.
fn tag_of(manifest: &Digest) -> String {
    format!("sha256-{}.sig", manifest.hex())
}

/// The last second that a time of a payload can name.
const LAST: u64 = 253_402_300_799;

/// Whether a text is a time as payloads have it, `YYYY-MM-DDTHH:MM:SSZ`: only such texts sort by time.
fn is_time(text: &str) -> bool {
    const FORM: &str = "0000-00-00T00:00:00Z";
    let fits = |(byte, form): (u8, u8)| if form == b'0' { byte.is_ascii_digit() } else { byte == form };
    text.len() == FORM.len() && text.bytes().zip(FORM.bytes()).all(fits)
}

/// Now, as payloads have times.
fn now() -> String {
    rfc3339(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs())
}

/// Signs the artefact with this manifest digest; signatures that are there stay.
pub async fn sign(
    store: &Store,
    reference: &Reference,
    manifest: &Digest,
    pair: &Digest,
    key: &Path,
    expiry: Expiry,
) -> Result<(), OciError> {
    let mut optional = json!({PAIR: pair});
    if let Some(days) = expiry.0 {
        let until = SystemTime::now() + Duration::from_secs(days.saturating_mul(86_400).min(1 << 40));
        optional[EXPIRES] =
            rfc3339(until.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs().min(LAST)).into();
    }
    let payload = json!({
        "critical": {
            "identity": {"docker-reference": reference.place.to_string()},
            "image": {"docker-manifest-digest": manifest},
            "type": KIND,
        },
        "optional": optional,
    });
    let payload = payload.to_string().into_bytes();
    let mut layer = Descriptor::of(PAYLOAD, &payload);
    layer.annotations.insert(SIGNATURE.into(), sign_bytes(key, &payload)?);
    let tag = tag_of(manifest);
    let before = store.tagged(&tag).await?;
    let mut layers =
        before.and_then(|bytes| read(&bytes)).map(|manifest| manifest.layers).unwrap_or_default();
    layers.push(layer);
    let diffs: Vec<_> = layers.iter().map(|layer| layer.digest).collect();
    let history: Vec<_> = layers.iter().map(|_| json!({"created": "0001-01-01T00:00:00Z"})).collect();
    let config = json!({
        "architecture": "", "created": "0001-01-01T00:00:00Z", "history": history, "os": "",
        "rootfs": {"type": "layers", "diff_ids": diffs}, "config": {},
    });
    let config = config.to_string().into_bytes();
    store.put_bytes(&payload).await?;
    store.put_bytes(&config).await?;
    let signatures = Manifest {
        schema_version: 2,
        media_type: MANIFEST.into(),
        artifact_type: None,
        config: Descriptor::of(CONFIG, &config),
        layers,
        annotations: BTreeMap::new(),
    };
    store.put_manifest(&signatures.bytes(), None, &tag).await
}

fn read(bytes: &[u8]) -> Option<Manifest> {
    serde_json::from_slice(bytes).ok()
}

/// What a payload says, as far as it decides.
pub struct Payload {
    pub signed: String,
    pub kind: String,
    pub expires: Option<String>,
}

impl Payload {
    /// Reads a payload; none where it is none.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let value: Value = serde_json::from_slice(bytes).ok()?;
        let critical = value.get("critical")?;
        let signed = critical.pointer("/image/docker-manifest-digest")?.as_str()?.to_owned();
        let kind = critical.get("type")?.as_str()?.to_owned();
        // A time that is no text is no time that has not come yet.
        let expires = value.get("optional").and_then(|optional| optional.get(EXPIRES));
        let expires = expires.map(|until| until.as_str().unwrap_or_default().to_owned());
        Some(Self { signed, kind, expires })
    }
}

/// Checks that the owner of one of `keys` signed the artefact, and that the signature is good still.
/// Gives the key back.
///
/// # Errors
/// No signature, none of these keys, one for another artefact, one that has run out.
pub async fn verify(
    store: &Store,
    reference: &Reference,
    manifest: &Digest,
    pair: &str,
    keys: &[PathBuf],
) -> Result<PathBuf, OciError> {
    let named = reference.to_string();
    let layers = match store.tagged(&tag_of(manifest)).await? {
        Some(bytes) => read(&bytes).map(|manifest| manifest.layers).unwrap_or_default(),
        None => return Err(OciError::NotSigned { reference: named, digest: *manifest }),
    };
    // The last one is told: nobody else's reason helps.
    let mut trouble = None;
    for layer in layers.iter().rev().filter(|layer| layer.media_type == PAYLOAD).take(SIGNATURES) {
        let Some(signature) = layer.annotations.get(SIGNATURE) else { continue };
        let bytes = store.bytes(&layer.digest, MANIFEST_BYTES).await?;
        for key in keys {
            if !is_signature_of(key, &bytes, signature)? {
                continue;
            }
            let Some(payload) = Payload::read(&bytes) else { continue };
            let now = now();
            if payload.kind != KIND || payload.signed != manifest.to_string() {
                let signed = payload.signed;
                trouble.get_or_insert(OciError::OtherArtefact {
                    reference: named.clone(),
                    signed,
                    found: *manifest,
                });
            } else if let Some(until) = payload.expires.filter(|until| !is_time(until) || *until <= now) {
                trouble.get_or_insert(OciError::Expired {
                    reference: named.clone(),
                    digest: *manifest,
                    pair: pair.to_owned(),
                    until,
                    now,
                });
            } else {
                return Ok(key.clone());
            }
        }
    }
    Err(trouble.unwrap_or_else(|| {
        let keys: Vec<_> = keys.iter().map(|key| key.display().to_string()).collect();
        let detail = format!("; {} are there", layers.len());
        OciError::WrongKey { reference: named, digest: *manifest, keys: keys.join(", "), detail }
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_time_is_a_time() {
        for text in [now(), rfc3339(LAST), "2030-01-01T00:00:00Z".to_owned()] {
            assert!(is_time(&text), "{text}");
        }
        for text in ["", "never", "2030-01-01", "2030-01-01T00:00:00+01:00", "20300-01-01T00:00:00Z"] {
            assert!(!is_time(text), "{text}");
        }
    }
}
