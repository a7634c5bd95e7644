//! Who vouches for a pair? A signature over `pair.json`, which names everything else by digest.
//!
//! Key and signature are as cosign has them for a blob: ECDSA on P-256 with SHA-256, the signature in
//! DER and base64, the public key in PEM. The private key is unencrypted PKCS #8 in PEM, as
//! `openssl genpkey` writes it and `cosign import-key-pair` takes it.

use std::fs;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_ASN1, ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair, UnparsedPublicKey,
};

use super::error::PairError;
use super::files::write_file;
use super::manifest::FILE;
use super::open::Pair;

/// The file beside `pair.json`; no part of what is signed.
pub const SIGNATURE: &str = "pair.json.sig";
const PRIVATE: &str = "PRIVATE KEY";
const PUBLIC: &str = "PUBLIC KEY";
/// What stands before the point of a P-256 key in a SubjectPublicKeyInfo (RFC 5480).
const SPKI: [u8; 26] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86,
    0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];

/// Makes a new key: `private`, which only this user can read, and `public`. Neither may be there.
pub fn new_key(private: &Path, public: &Path) -> Result<(), PairError> {
    for path in [private, public] {
        if path.exists() {
            return Err(PairError::Exists { path: path.to_owned() });
        }
    }
    let failed = |reason: &str| key_error(private, reason);
    let made = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &SystemRandom::new())
        .map_err(|_| failed("this machine gives no random numbers"))?;
    let key = key_pair(private, made.as_ref())?;
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(private)
        .map_err(PairError::io("made", private))?;
    file.write_all(pem(PRIVATE, made.as_ref()).as_bytes())
        .and_then(|()| file.sync_all())
        .map_err(PairError::io("written", private))?;
    let spki = [&SPKI[..], key.public_key().as_ref()].concat();
    write_file(public, pem(PUBLIC, &spki).as_bytes())
}

/// Signs a pair with a private key, in the place of an earlier signature.
pub fn sign(pair: &Pair, private: &Path) -> Result<(), PairError> {
    let signature = sign_bytes(private, &told(&pair.folder)?)?;
    write_file(&pair.folder.join(SIGNATURE), signature.as_bytes())
}

/// The signature of a private key over bytes, in DER and base64.
pub fn sign_bytes(private: &Path, bytes: &[u8]) -> Result<String, PairError> {
    let key = key_pair(private, &read_pem(private, PRIVATE)?)?;
    let signature = key
        .sign(&SystemRandom::new(), bytes)
        .map_err(|_| key_error(private, "this machine gives no random numbers"))?;
    Ok(BASE64.encode(signature.as_ref()))
}

/// Whether the owner of a public key made a signature, in DER and base64, over bytes.
///
/// # Errors
/// A key that cannot be used.
pub fn is_signature_of(public: &Path, bytes: &[u8], signature: &str) -> Result<bool, PairError> {
    let spki = read_pem(public, PUBLIC)?;
    let point = spki
        .strip_prefix(&SPKI[..])
        .filter(|point| point.len() == 65)
        .ok_or_else(|| key_error(public, "it is no key on the curve P-256"))?;
    let Ok(signature) = BASE64.decode(signature.trim()) else { return Ok(false) };
    let key = UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, point);
    Ok(key.verify(bytes, &signature).is_ok())
}

/// Checks that the owner of a public key signed the pair in `folder`.
pub fn check_signature(folder: &Path, public: &Path) -> Result<(), PairError> {
    let path = folder.join(SIGNATURE);
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            // A key that is none is said first.
            read_pem(public, PUBLIC)?;
            return Err(PairError::NotSigned);
        }
        Err(error) => return Err(PairError::io("read", &path)(error)),
    };
    match is_signature_of(public, &told(folder)?, &text)? {
        true => Ok(()),
        false => Err(PairError::Signature { key: public.to_owned() }),
    }
}

/// Whether somebody signed the pair in `folder`; not whether rightly.
pub fn is_signed(folder: &Path) -> bool {
    folder.join(SIGNATURE).exists()
}

/// What is signed.
fn told(folder: &Path) -> Result<Vec<u8>, PairError> {
    let path = folder.join(FILE);
    fs::read(&path).map_err(PairError::io("read", &path))
}

fn key_error(path: &Path, reason: &str) -> PairError {
    PairError::Key { path: path.to_owned(), reason: reason.to_owned() }
}

fn key_pair(path: &Path, pkcs8: &[u8]) -> Result<EcdsaKeyPair, PairError> {
    EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, pkcs8, &SystemRandom::new())
        .map_err(|_| key_error(path, "it is no private key on the curve P-256 in PKCS #8"))
}

fn read_pem(path: &Path, label: &str) -> Result<Vec<u8>, PairError> {
    let text = fs::read_to_string(path).map_err(PairError::io("read", path))?;
    let (begin, end) = (format!("-----BEGIN {label}-----"), format!("-----END {label}-----"));
    let body = text.split_once(&begin).and_then(|(_, rest)| rest.split_once(&end)).map(|(body, _)| body);
    if body.is_none() && ["ENCRYPTED SIGSTORE", "ENCRYPTED COSIGN"].iter().any(|word| text.contains(word)) {
        return Err(key_error(path, "it is encrypted as cosign does it, which this program does not read"));
    }
    let body = body.ok_or_else(|| key_error(path, &format!("it has no `{begin}` in it")))?;
    let digits: String = body.split_whitespace().collect();
    BASE64.decode(digits).map_err(|_| key_error(path, "it is no base64 between its lines"))
}

fn pem(label: &str, bytes: &[u8]) -> String {
    let text = BASE64.encode(bytes);
    let lines: Vec<_> = text.as_bytes().chunks(64).map(String::from_utf8_lossy).collect();
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", lines.join("\n"))
}
