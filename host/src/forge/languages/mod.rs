//! What does the forge ask of a language? Each module answers for one compiler.

mod go;
mod javascript;
mod native;
mod python;
mod rust;
mod script;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::build::ForgeConfig;
use super::error::ForgeError;
use super::language::Language;
use super::provenance::Tool;
use super::sandbox::Limits;
use super::source::Loaded;

/// A compiler that was found on this machine, with all that it needs.
pub(super) trait Toolset: Send + Sync {
    /// Everything that its output depends on beside the source, in the order of a record.
    fn tools(&self) -> &[Tool];

    /// Compiles in the sandbox. Must give the same bytes for the same source and tools.
    ///
    /// # Errors
    /// [`ForgeError`], with the author's own file and line where there is one.
    fn compile(&self, job: &Job<'_>) -> Result<Artifact, ForgeError>;
}

/// One build.
pub(super) struct Job<'a> {
    pub source: &'a Loaded,
    /// The folder on this machine into which the source was written, to be shown at `/plugin`.
    pub input: &'a Path,
    /// An empty folder for what comes out, to be shown at `/out`.
    pub output: &'a Path,
    pub limits: Limits,
}

/// What came out of a compiler.
pub(super) enum Artifact {
    /// A core module after the canonical ABI; the forge makes the component.
    Core(Vec<u8>),
    /// A whole component.
    Component(Vec<u8>),
}

/// Finds the compiler of `language`, and prepares once what it needs.
///
/// # Errors
/// [`ForgeError::Toolchain`] names what is missing and the command that installs it.
pub(super) fn find(language: Language, config: &ForgeConfig) -> Result<Arc<dyn Toolset>, ForgeError> {
    match language {
        Language::Rust => Ok(Arc::new(rust::RustTools::find(config)?)),
        Language::C | Language::Cpp | Language::Zig => {
            Ok(Arc::new(native::NativeTools::find(language, config)?))
        }
        Language::JavaScript | Language::TypeScript => {
            Ok(Arc::new(javascript::JavaScriptTools::find(config)?))
        }
        Language::Python => Ok(Arc::new(python::PythonTools::find(config)?)),
        Language::Go => Ok(Arc::new(go::GoTools::find(config)?)),
    }
}

/// Installs what builds `language`, from pinned packages, into a folder of `config.tools_dir`; the
/// folder, or none where nothing of ours is to be installed. Needs the network.
///
/// # Errors
/// [`ForgeError::Toolchain`] names what is missing or failed.
pub(super) fn install(language: Language, config: &ForgeConfig) -> Result<Option<PathBuf>, ForgeError> {
    match language {
        Language::JavaScript | Language::TypeScript => javascript::install(config).map(Some),
        Language::Python => python::install(config).map(Some),
        Language::C | Language::Cpp | Language::Zig => native::install(config).map(Some),
        Language::Go => go::install(config).map(Some),
        Language::Rust => Ok(None),
    }
}

/// The program `name` in `PATH`.
pub(super) fn in_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(name)).find(|file| file.is_file())
}
