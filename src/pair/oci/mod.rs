//! How does a pair travel? Through OCI registries, and OCI layouts on disk.
//!
//! A pair is one OCI artefact: `pair.json` is its configuration, every other file a layer of its own
//! that is named by its path (`org.opencontainers.image.title`), components as `application/wasm`. The
//! same pair always gives the same manifest, so its digest names the pair in a registry too.
//!
//! The client is our own, over the HTTP client that is here already: `oci-client` turns on a feature of
//! it that streams bodies and would change it for the whole program, and the protocol is six requests.
//!
//! What this room deliberately does not do: it judges no pair. What comes is checked by `pair verify`
//! before its folder appears.

mod artefact;
mod cosign;
mod credentials;
mod error;
#[cfg(test)]
mod fuzz;
mod layout;
mod reference;
mod registry;
mod store;
mod transfer;
mod trust;

pub use cosign::Expiry;
pub use error::OciError;
pub use reference::Reference;
pub use transfer::{pull, push, sign_there};
pub use trust::Trust;
