//! Several devices of one host: who computes which piece, how gradients are added up, how a module
//! gets to another device.
//!
//! It knows nothing of samples or losses: a piece of work is a number, its cost another.

mod error;
mod exchange;
mod link;
mod meeting;
mod moved;
mod split;

pub use error::ParallelError;
pub use exchange::Exchange;
pub(crate) use link::{Link, connect};
pub(crate) use moved::moved;
pub(crate) use split::split;
