//! Does anything that a place says make the reader of pairs panic, write outside, or grow without bound?
//! Seeded, so that a failure is found again.

use std::path::Path;

use tandem_host::store::Digest;

use super::artefact::Manifest;
use super::cosign::Payload;
use super::reference::Reference;
use crate::pair::manifest::{FILE, PairManifest};

const ROUNDS: u64 = 3_000;

fn draw(round: u64, step: u64, below: usize) -> usize {
    let digest = Digest::of(&[round.to_le_bytes(), step.to_le_bytes()].concat());
    let mut number = [0; 8];
    number.copy_from_slice(&digest.bytes()[..8]);
    (u64::from_le_bytes(number) % below.max(1) as u64) as usize
}

/// Bytes changed, cut, doubled, or exchanged for words that mean something.
fn broken(round: u64, text: &str) -> Vec<u8> {
    const WORDS: [&str; 10] =
        ["../../x", "/etc/passwd", "sha256:", "null", "-1", "1e999", "\\u0000", "pair.json", "[", "{\"a\":"];
    let mut bytes = text.as_bytes().to_vec();
    for step in 0..=draw(round, 0, 3) as u64 {
        let at = draw(round, 10 + step, bytes.len());
        match draw(round, 20 + step, 4) {
            0 => bytes.truncate(at.max(1)),
            1 => bytes[at] = draw(round, 30 + step, 256) as u8,
            2 => {
                let word = WORDS[draw(round, 40 + step, WORDS.len())];
                let end = (at + word.len()).min(bytes.len());
                bytes.splice(at..end, word.bytes());
            }
            _ => {
                let end = (at + draw(round, 50 + step, 80)).min(bytes.len());
                let piece = bytes[at..end].to_vec();
                bytes.splice(at..at, piece);
            }
        }
    }
    bytes
}

const DIGEST: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

fn manifest() -> String {
    format!(
        r#"{{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","artifactType":"application/vnd.tandem.pair.v1","config":{{"mediaType":"application/vnd.tandem.pair.config.v1+json","digest":"{DIGEST}","size":3}},"layers":[{{"mediaType":"application/wasm","digest":"{DIGEST}","size":0,"annotations":{{"org.opencontainers.image.title":"components/a.wasm"}}}}],"annotations":{{"dev.tandem.pair.digest":"{DIGEST}"}}}}"#
    )
}

fn pair_json() -> String {
    format!(
        r#"{{"layout":2,"digest":"{DIGEST}","name":"n","program":"0","contract":"tandem:harness@0.1.0","harness":"{DIGEST}","policy":{{"form":"full","digest":"{DIGEST}","version":1,"base":{{"name":"b","digest":"{DIGEST}","start":null}},"chat_template":null,"context":8,"sampling":{{}}}},"plugins":[],"evaluation":null,"licences":{{"base_policy":null,"plugins":{{}}}},"files":{{"components/a.wasm":"{DIGEST}"}}}}"#
    )
}

#[test]
fn nothing_that_a_registry_says_breaks_the_reader_of_pairs() {
    let reference: Reference = "h.io/a:1".parse().unwrap();
    let whole: PairManifest = serde_json::from_str(&pair_json()).unwrap();
    assert!(Manifest::read(&reference, manifest().as_bytes()).unwrap().places(&reference, &whole).is_ok());
    let mut read = 0;
    for round in 0..ROUNDS {
        let Ok(manifest) = Manifest::read(&reference, &broken(round, &manifest())) else { continue };
        let Ok(places) = manifest.places(&reference, &whole) else { continue };
        read += 1;
        for path in places.keys() {
            let inside =
                Path::new(path).components().all(|part| matches!(part, std::path::Component::Normal(_)));
            assert!(inside && whole.files.contains_key(path), "{path}");
        }
    }
    assert!(read > 0, "no round came through");
}

#[test]
fn nothing_in_a_pair_json_breaks_its_reader() {
    let folder = tempfile::tempdir().unwrap();
    for round in 0..ROUNDS / 10 {
        std::fs::write(folder.path().join(FILE), broken(round, &pair_json())).unwrap();
        // Its digest is wrong in every round: what matters is that it is an error and not a panic.
        assert!(PairManifest::read(folder.path()).is_err());
    }
    std::fs::write(folder.path().join(FILE), "[".repeat(300_000)).unwrap();
    assert!(PairManifest::read(folder.path()).is_err());
}

#[test]
fn nothing_in_a_payload_breaks_its_reader() {
    let payload = format!(
        r#"{{"critical":{{"identity":{{"docker-reference":"h.io/a"}},"image":{{"docker-manifest-digest":"{DIGEST}"}},"type":"cosign container image signature"}},"optional":{{"dev.tandem.expires":"2030-01-01T00:00:00Z"}}}}"#
    );
    let whole = Payload::read(payload.as_bytes()).unwrap();
    assert_eq!((whole.signed.as_str(), whole.expires.as_deref()), (DIGEST, Some("2030-01-01T00:00:00Z")));
    for round in 0..ROUNDS {
        let _ = Payload::read(&broken(round, &payload));
    }
    // What is no time has run out: nothing sorts before the empty text.
    let odd = payload.replace("\"2030-01-01T00:00:00Z\"", "7");
    assert_eq!(Payload::read(odd.as_bytes()).unwrap().expires.as_deref(), Some(""));
}

#[test]
fn nothing_typed_as_a_reference_breaks_its_reader() {
    for round in 0..ROUNDS {
        let text = broken(round, &format!("registry.example.com:5000/team/agent:1.0@{DIGEST}"));
        if let Ok(reference) = String::from_utf8_lossy(&text).parse::<Reference>() {
            let again: Reference = reference.to_string().parse().unwrap();
            assert_eq!(again.to_string(), reference.to_string());
        }
    }
}
