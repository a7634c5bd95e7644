//! How are replies sampled, many at a time, from one copy of the policy?
//!
//! One worker thread owns the inference copy of the policy and the key-value cache.
//! Each open sequence may hold a slot of the cache; a request appends tokens to its
//! sequence and samples a reply. Requests join and leave the running batch at every
//! step (continuous batching, Yu et al. 2022, Orca).

mod cache;
mod error;
mod forward;
mod generator;
mod job;
mod nucleus;
mod sampler;
mod slots;
mod stop;
#[cfg(test)]
mod tests;
mod worker;

pub use error::GenerateError;
pub(crate) use forward::replayed_logits;
pub use generator::{Generator, GeneratorConfig, Sequence};
pub use job::{Cancel, Finish, OnToken, SampleRequest, Sampled, SampledToken, StopWhen};
pub use stop::stop_at_texts;
pub(crate) use worker::panic_text;
