//! Tandem's host: runs plugins, harness generations, the agent loop, workspaces,
//! task sets and rollouts. It knows nothing of gradients.
//!
//! Rooms, from those that hold data to those that act: [`store`], [`policy`],
//! [`plugin`], [`harness`], [`forge`], [`workspace`], [`cases`], [`task`],
//! [`agent`], [`rollout`]. See ARCHITECTURE.md for what each one deliberately does not do.

pub mod agent;
pub mod cases;
pub mod forge;
pub mod harness;
pub mod plugin;
pub mod policy;
pub mod rollout;
pub mod store;
pub mod task;
pub mod workspace;
