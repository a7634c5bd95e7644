//! How do other programs use a policy or a harness? Servers, and what every listener keeps.

mod audit;
mod control;
mod drain;
mod listen;
pub mod mcp;
pub mod policy;
mod refusal;
mod stall;
mod token;

pub use audit::Audit;
pub use control::{Ask, ControlSocket, ask};
pub use drain::{Drain, Ended, until_signal};
pub use listen::{Limits, Listener};
pub use token::AccessToken;
