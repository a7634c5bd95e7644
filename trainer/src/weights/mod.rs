//! Where do a policy's weights come from, and what is wrong when they do not come?
//!
//! Everything that is read ends in [`NamedTensors`]: Hugging Face names, Hugging
//! Face layout (`[out, in]`), f32 on the host. What a file format does differently
//! is undone here, once, so that no other room knows about it.

mod error;
mod gguf;
mod gguf_names;
mod quant;
mod safetensors;
mod tensors;

pub use error::WeightsError;
pub use gguf::{Gguf, Metadata};
pub use safetensors::{list_safetensors, read_safetensors, write_safetensors};
pub use tensors::{HostTensor, NamedTensors, StoredTensor, StoredType};
