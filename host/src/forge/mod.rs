//! From source to component: what did the compiler say, and what came out?
//!
//! Nothing of a plugin runs in a build: no build script, no procedural macro, no
//! cargo configuration. `rustc` reads the source in a sandbox without network,
//! and the component is put together in this process.

mod build;
mod componentize;
mod diagnostics;
mod error;
mod sandbox;
mod sdk;
mod source;
mod toolchain;

pub use build::{Built, Forge, ForgeConfig};
pub use componentize::{Componentized, componentize};
pub use diagnostics::{Diagnostic, Level};
pub use error::ForgeError;
pub use source::Source;
