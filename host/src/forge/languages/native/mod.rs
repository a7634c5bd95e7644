//! How do C, C++ and Zig become a core module? One toolchain builds all three: the Zig compiler,
//! which carries clang, lld and the sources of the C and C++ libraries.
//!
//! No build file of the author is read, and nothing of a plugin runs: each compiler reads one file
//! in the sandbox, and the linker puts it together with the libraries that were built once.

mod clang;
mod libraries;
mod messages;
mod sdk;
mod toolchain;
mod zig;

use std::path::PathBuf;

use super::{Artifact, Job, Toolset};
use crate::forge::build::ForgeConfig;
use crate::forge::error::ForgeError;
use crate::forge::files;
use crate::forge::language::Language;
use crate::forge::provenance::Tool;
use crate::forge::source::io;

use toolchain::Toolchain;

/// The toolchain, and what it prepared for one language.
pub(super) struct NativeTools {
    language: Language,
    toolchain: Toolchain,
    /// The SDK and the libraries, to be shown at `/sdk`.
    prepared: PathBuf,
    tools: Vec<Tool>,
}

impl NativeTools {
    pub fn find(language: Language, config: &ForgeConfig) -> Result<Self, ForgeError> {
        let toolchain = Toolchain::find(language, config)?;
        let compiler = files::digest(&toolchain.files()?, &config.cache_dir)?;
        let prepared = libraries::prepared(language, &toolchain, compiler, config)?;
        let archives = libraries::archives(&prepared)?;
        let tools = vec![
            Tool { name: "zig".into(), version: toolchain::VERSION.into(), digest: compiler },
            Tool {
                name: "libraries".into(),
                version: toolchain::VERSION.into(),
                digest: files::digest(&archives, &config.cache_dir)?,
            },
            Tool {
                name: format!("tandem-{language}"),
                version: env!("CARGO_PKG_VERSION").into(),
                digest: sdk::digest(language),
            },
        ];
        Ok(Self { language, toolchain, prepared, tools })
    }
}

/// Installs the compiler of all three.
pub(super) fn install(config: &ForgeConfig) -> Result<PathBuf, ForgeError> {
    Toolchain::install(config)
}

impl Toolset for NativeTools {
    fn tools(&self) -> &[Tool] {
        &self.tools
    }

    fn compile(&self, job: &Job<'_>) -> Result<Artifact, ForgeError> {
        match self.language {
            Language::Zig => zig::compile(&self.toolchain, &self.prepared, job)?,
            language => clang::compile(&self.toolchain, &self.prepared, language, job)?,
        }
        let core = job.output.join("plugin.wasm");
        std::fs::read(&core).map(Artifact::Core).map_err(|error| io("read", &core, error))
    }
}
