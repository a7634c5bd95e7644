//! How does a recorded episode look to other programs?
//!
//! Each format is written from the record alone. Text that a hook or a skill put in stays where the
//! policy read it, and its place and origin are named beside it; effects that leave no text are
//! listed with the turn in which they happened.

mod atif;
mod chat;
mod exchange;
#[cfg(test)]
mod tests;
mod traj;

pub use atif::atif;
pub use chat::chat;
pub use traj::traj;
