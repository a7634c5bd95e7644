//! Which parts does the own computing on an NVIDIA GPU have?

mod cache;
mod context;
mod decode;
mod library;

pub(crate) use cache::DeviceCache;
pub(super) use context::{Argument, Gpu, Matrix, Pointer, Work, pointer};
pub(crate) use decode::{Decoder, Step};
pub(super) use library::available;
