//! Which parts does the own computing on an NVIDIA GPU have?

mod cache;
mod context;
mod decode;
mod library;
mod update;

pub(crate) use cache::DeviceCache;
pub(super) use context::{Argument, Gpu, Matrix, Pointer, Strides, Work, pointer};
pub(crate) use decode::{Decoder, Drawing, Step};
pub(super) use library::available;
pub(crate) use update::{DeviceMoments, Rates, Stepped, squared_norm};
