//! How does an agent of somebody else use the tools of a harness? As tools of the Model Context Protocol.
//!
//! A session is an episode: it leases one generation, has a workspace of its own and hooks with their
//! state, and a swap is seen by the next session.

mod http;
mod message;
mod server;
mod session;
mod stdio;
mod swap;
mod tools;

pub use http::{PATH, SessionLimits, router};
pub use server::{OpenSessions, Server, Setup, has_tools, needs_files};
pub use stdio::serve as serve_stdio;
pub use swap::Swapper;
pub use tools::not_expressible;
