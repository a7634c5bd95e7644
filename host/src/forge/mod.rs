//! From source to component: what did the compiler say, and what came out?
//!
//! Nothing of a plugin runs on this machine in a build: no build script, no procedural macro, no
//! configuration of a build tool. A compiler reads the source in a sandbox without network, and the
//! component is put together in this process. Each language is a module of `languages`.

mod build;
mod component;
mod componentize;
mod diagnostics;
mod error;
mod files;
mod kept;
mod language;
mod languages;
mod preview1;
mod provenance;
mod sandbox;
mod source;

pub use build::{Built, Forge, ForgeConfig};
pub use componentize::{Componentized, componentize};
pub use diagnostics::{Diagnostic, Level};
pub use error::ForgeError;
pub use language::Language;
pub use provenance::{Provenance, Tool};
pub use source::Source;
