//! What is shipped? A pair: a policy and a harness, with every component, its source and where it
//! came from, all named by digest.
//!
//! ```text
//! pair.json            what it is: digests of everything below, policy, provenance, evaluation, licences
//! harness.json         the canonical manifest; its SHA-256 is the harness digest
//! policy/              a folder that Hugging Face loads, or an adapter in PEFT's layout
//! start/               only beside an adapter: the one that the run began with, which goes on first
//! components/HEX.wasm  one for each plugin of the harness
//! sources/HEX.rs       the source of each plugin that the run built, with the ending of its language
//! pair.json.sig        a signature over pair.json, once somebody signed it
//! ```
//!
//! Skills are training only and never part of a pair.

mod commands;
mod contents;
mod diff;
mod error;
mod evaluation;
mod export;
mod files;
mod inspect;
mod layout1;
mod manifest;
pub mod oci;
mod open;
mod pack;
mod policy;
mod provenance;
mod signature;
mod unpack;

pub use commands::{Commands, runs};
pub use contents::Contents;
pub use diff::PairDiff;
pub use error::{COST, Mismatch, PairError};
pub use evaluation::{interval, interval_of_rate};
pub use export::export;
pub use files::Existing;
pub use manifest::PolicyForm;
pub use open::{Halves, Pair, Verified, open, verify};
pub use pack::pack;
pub use policy::{Chosen, adapter_digest, load as load_policy, named_digest, policy};
pub use signature::{check_signature, is_signed, new_key, sign};
pub use unpack::unpack;
