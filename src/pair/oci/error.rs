//! Why does a pair not travel?

use std::path::PathBuf;

use tandem_host::store::Digest;

use crate::pair::PairError;

/// Why a pair was not pushed or not pulled.
#[derive(Debug, thiserror::Error)]
pub enum OciError {
    #[error(
        "`{text}` names no place for a pair: {reason}\nhelp: write HOST/NAME:TAG for a registry, such as `registry.example.com/team/agent:1`, or oci:DIR:TAG for a folder"
    )]
    Reference { text: String, reason: &'static str },
    #[error(
        "{host} cannot be reached\nhelp: check the name and the network; a registry of this machine without TLS is written `localhost:PORT/NAME:TAG`"
    )]
    Unreachable { host: String, source: reqwest::Error },
    #[error(
        "{host} sends a file of the pair too slowly: {have} of {size} bytes came\nhelp: check the network and try again; what came is kept, and the same command goes on from there"
    )]
    Slow { host: String, have: u64, size: u64 },
    #[error("{host} answered {status} to {what}{told}\nhelp: {help}", help = advice(*.status))]
    Answer { host: String, what: String, status: u16, told: String },
    #[error("{place} has no `{tag}`\nhelp: check the spelling; `tandem pair push` puts a pair there")]
    NotThere { place: String, tag: String },
    #[error(
        "{what} is {found}, and {expected} was asked for\nhelp: whoever keeps it changed it or it was damaged on the way; do not use it, and tell its owner"
    )]
    Digest { what: String, expected: Digest, found: Digest },
    #[error(
        "{what} has {found} bytes, and {limit} are allowed\nhelp: this is no pair of this program; check the reference"
    )]
    TooLarge { what: String, found: u64, limit: u64 },
    #[error(
        "{reference} is no pair: {reason}\nhelp: check the reference; `tandem pair push` makes such an artefact"
    )]
    NotAPair { reference: String, reason: String },
    #[error(
        "{reference} ({digest}) is not signed, and a signature is asked for\nhelp: ask its owner to sign it with `tandem pair push --sign KEY`, or with cosign"
    )]
    NotSigned { reference: String, digest: Digest },
    #[error(
        "no signature of {reference} ({digest}) is one of {keys}{detail}\nhelp: use no pair that you do not know who vouches for; ask its owner for the right key or pair"
    )]
    WrongKey { reference: String, digest: Digest, keys: String, detail: String },
    #[error(
        "the signature of {reference} is for {signed}, and what is there is {found}\nhelp: somebody put another artefact under a signature that was made for the first; do not use it"
    )]
    OtherArtefact { reference: String, signed: String, found: Digest },
    #[error(
        "the signature of {reference} ({digest}) for the pair {pair} was good until {until}, and it is {now}\nhelp: ask its owner to sign it again"
    )]
    Expired { reference: String, digest: Digest, pair: String, until: String, now: String },
    #[error("no rule of {policy} allows {reference}\nhelp: add one that says whose signature is needed, if you trust that source", policy = .policy.display())]
    NoRule { reference: String, policy: PathBuf },
    #[error("{path} is no policy for pairs: {reason}\nhelp: docs/pair.md has an example", path = .path.display())]
    Policy { path: PathBuf, reason: String },
    #[error(
        "the credentials for {host} cannot be had: {reason}\nhelp: log in again with `docker login {host}` or `podman login {host}`, or set TANDEM_REGISTRY_USER and TANDEM_REGISTRY_PASSWORD"
    )]
    Credentials { host: String, reason: String },
    #[error("{path} is no OCI layout: {reason}\nhelp: give a folder that such a layout is in, or one that is not there yet", path = .path.display())]
    Layout { path: PathBuf, reason: String },
    #[error(transparent)]
    Pair(#[from] PairError),
}

fn advice(status: u16) -> &'static str {
    match status {
        401 | 403 => "log in with `docker login` or `podman login`, and check that you may do this there",
        404 => "check the name; some registries want a repository to be made first",
        413 => "the registry takes no file of this size",
        429 => "the registry asks for fewer requests; try again later",
        500.. => "the registry has trouble of its own; try again later",
        _ => "check that it is an OCI registry",
    }
}

impl OciError {
    /// Whether the answer is no, and nothing is broken here.
    pub fn is_refusal(&self) -> bool {
        match self {
            Self::Digest { .. }
            | Self::NotAPair { .. }
            | Self::NotSigned { .. }
            | Self::WrongKey { .. }
            | Self::OtherArtefact { .. }
            | Self::Expired { .. }
            | Self::NoRule { .. }
            | Self::TooLarge { .. } => true,
            Self::Pair(error) => error.is_refusal(),
            _ => false,
        }
    }
}
