//! What does the policy compute?

mod attention;
mod causal_lm;
mod config;
mod layer;
mod lora;
mod norm;
mod projection;
#[cfg(test)]
mod reference;
mod rope;

pub use causal_lm::CausalLm;
pub use config::{LoraConfig, ModelConfig};

pub(crate) use causal_lm::MASKED;
pub(crate) use rope::{RotaryTable, Rotation};
