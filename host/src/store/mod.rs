//! Content-addressed blobs: what bytes does this digest name?

mod digest;

pub use digest::{Digest, ParseDigestError};
