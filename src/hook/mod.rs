//! How do the hooks of a harness run inside an agent that is not ours?
//!
//! The agent starts `tandem hook AGENT EVENT` at its events (`client`), which asks a daemon that
//! holds the built harness (`daemon`, found by `place`). There each session of the agent has a lease
//! and plugins of its own (`session`); what they want is said in the agent's format (`answer`).
//!
//! What this room deliberately does not do: it decides nothing. Whatever goes wrong on the way means
//! "nothing happens" to the agent, and a line in the journal.

mod agent;
mod answer;
mod bench;
mod capabilities;
mod client;
mod daemon;
#[cfg(test)]
mod fuzz;
mod input;
mod install;
mod journal;
mod load;
mod ordered;
mod place;
mod session;
mod target;
#[cfg(test)]
mod tests;
mod wire;

pub use agent::Agent;
pub use bench::bench;
pub use capabilities::Capabilities;
pub use client::{control, quick};
pub use daemon::{Engines, serve};
pub use install::{Change, Plan, install, uninstall};
pub use place::Place;
pub use target::Target;
pub use wire::{Answered, Question};
