//! Which operations does the trainer compute otherwise than Burn, where that is faster?
//!
//! On an NVIDIA GPU: matrix products by cuBLAS, attention of whole sequences and the decoding of
//! one token a sequence by own kernels (`kernels.cu`). The libraries are loaded when a device is
//! first used; without them, and on any other device, Burn computes the same.

#[cfg(feature = "cuda")]
mod cube;
#[cfg(feature = "cuda")]
mod cuda;
#[cfg(feature = "cuda")]
mod flash;
#[cfg(feature = "cuda")]
mod head_ops;
#[cfg(feature = "cuda")]
mod layer_ops;
#[cfg(feature = "cuda")]
mod lora_ops;
mod ops;
#[cfg(test)]
mod tests;

#[cfg(feature = "cuda")]
pub(crate) use cuda::{Decoder, DeviceCache, DeviceMoments, Drawing, Rates, Step, Stepped, squared_norm};
#[cfg(feature = "cuda")]
pub(crate) use head_ops::{logits_gradient, pulled, read_logits};
#[cfg(feature = "cuda")]
pub(crate) use layer_ops::{Turn, attend, rms_norm, rows, swiglu};
#[cfg(feature = "cuda")]
pub(crate) use lora_ops::{Columns, add_low_rank};
pub(crate) use ops::{causal_attention, fuses_attention, matmul, matmul_wide};
#[cfg(feature = "cuda")]
pub(crate) use ops::{has_own_kernels, on_gpu};
