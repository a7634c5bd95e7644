//! What does the policy compute?

#[cfg(test)]
mod architectures;
mod attention;
mod causal_lm;
mod compute;
mod config;
mod feed_forward;
mod gguf_config;
mod hugging_face;
mod inputs;
mod layer;
mod lora;
mod norm;
mod projection;
mod random;
#[cfg(test)]
mod reference;
mod rope;
mod shapes;
mod targets;

pub use causal_lm::CausalLm;
pub use compute::ComputeType;
pub use config::{Biases, ExpertsConfig, Family, LoraConfig, ModelConfig, SlidingWindow};
pub use rope::RopeScaling;
pub use targets::{LoraTargets, TargetError};

pub(crate) use causal_lm::pick_rows;
#[cfg(test)]
pub(crate) use config::tests::tiny_of;
pub(crate) use inputs::{LayerInputs, MASKED};
#[cfg(feature = "cuda")]
pub(crate) use layer::PlainParts;
pub(crate) use lora::gaussian;
pub(crate) use norm::RmsNorm;
#[cfg(test)]
pub(crate) use projection::host as projection_host;
pub(crate) use rope::{RotaryTable, Rotation};
