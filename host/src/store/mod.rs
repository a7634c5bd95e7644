//! Content-addressed blobs: what bytes does this digest name?

mod blobs;
mod digest;

pub use blobs::{BlobStore, StoreError};
pub use digest::{Digest, ParseDigestError};
