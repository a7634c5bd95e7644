//! Checkpoints: the policy on disk, as Hugging Face `transformers` and PEFT read it.

mod adapter;
mod error;
mod folder;
mod hf;
mod inspect;
mod load;
mod manifest;
mod moments;
mod save;
#[cfg(test)]
mod tests;

pub(crate) use adapter::{read_adapter, write_adapter};
pub use error::CheckpointError;
pub(crate) use folder::write_folder;
pub(crate) use hf::write_json;
pub use inspect::{PolicyFacts, inspect_policy};
pub use load::{Policy, load_policy, load_policy_as};
pub use manifest::{CheckpointInfo, CheckpointKind, Manifest, manifest_of};
pub(crate) use manifest::{digests_of, verify_digests};
pub use moments::tell_moments;
pub use save::{save_adapter, save_policy};
