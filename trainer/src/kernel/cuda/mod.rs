//! Which parts does the own computing on an NVIDIA GPU have?

mod context;
mod decode;
mod library;

pub(super) use context::{Argument, Gpu, Matrix, Pointer, Work, pointer};
pub(crate) use decode::{Decoder, Step};
