//! The name of exact bytes: `sha256:` and 64 hexadecimal digits.

use std::path::Path;
use std::str::FromStr;
use std::{fmt, fs, io};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// The SHA-256 of exact bytes, written `sha256:<64 hex digits>`; the same string
/// that an OCI registry uses for the layer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// The digest of `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// The digest of a file of any size.
    ///
    /// # Errors
    /// When it cannot be opened or read.
    pub fn of_file(path: &Path) -> io::Result<Self> {
        let mut hasher = Sha256::new();
        io::copy(&mut fs::File::open(path)?, &mut hasher)?;
        Ok(Self(hasher.finalize().into()))
    }

    /// The 64 hexadecimal digits without the prefix: a file name.
    pub fn hex(&self) -> String {
        hex::encode(self.0)
    }

    /// The first 12 hexadecimal digits, for people.
    pub fn short(&self) -> String {
        hex::encode(&self.0[..6])
    }

    /// The raw 32 bytes.
    pub fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", self.hex())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A text that is not `sha256:` and 64 hexadecimal digits.
#[derive(Debug, thiserror::Error)]
#[error("`{0}` is not a digest\nhelp: a digest is `sha256:` followed by 64 hexadecimal digits")]
pub struct ParseDigestError(String);

impl FromStr for Digest {
    type Err = ParseDigestError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bad = || ParseDigestError(text.to_owned());
        let digits = text.strip_prefix("sha256:").ok_or_else(bad)?;
        let bytes = hex::decode(digits).map_err(|_| bad())?;
        bytes.try_into().map(Self).map_err(|_| bad())
    }
}

impl Serialize for Digest {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}
