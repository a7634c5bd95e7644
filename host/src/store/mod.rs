//! What bytes does this digest name, and how is a file written whole?

mod blobs;
mod digest;
mod moments;
mod own;
mod whole;

pub use blobs::{BlobStore, StoreError};
pub use digest::{Digest, ParseDigestError};
pub use moments::{DIE_AT, moment, named_moment};
pub use own::own_folder;
pub use whole::write_whole;
