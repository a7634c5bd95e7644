//! How does source become a component?

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::store::Digest;

use super::component;
use super::componentize::{CONTRACT, componentize};
use super::error::ForgeError;
use super::kept::Kept;
use super::language::Language;
use super::languages::{self, Artifact, Job, Toolset};
use super::preview1;
use super::provenance::{Provenance, Tool};
use super::sandbox::Limits;
use super::source::{Loaded, Source, io};

/// Where the forge keeps what it prepared, and what a build may use.
#[derive(Clone, Debug)]
pub struct ForgeConfig {
    /// A folder that only this program writes to: SDKs, standard libraries, built components.
    pub cache_dir: PathBuf,
    /// The folder with the toolchains that `tandem plugin tools` installed, one folder a language.
    pub tools_dir: PathBuf,
    /// Wall time of one build.
    pub timeout: Duration,
    /// Bytes of memory of each process of a compiler.
    pub memory: u64,
    /// The Rust compiler; the name is looked up in `PATH`.
    pub rustc: PathBuf,
    /// Bubblewrap; the name is looked up in `PATH`.
    pub bwrap: PathBuf,
}

impl ForgeConfig {
    /// 30 seconds and 3 GiB; programs from `PATH`; toolchains in the user's cache folder.
    pub fn new(cache_dir: impl Into<PathBuf>) -> Self {
        Self {
            cache_dir: cache_dir.into(),
            tools_dir: users_cache().join("tandem/tools"),
            timeout: Duration::from_secs(30),
            memory: 3 << 30,
            rustc: "rustc".into(),
            bwrap: "bwrap".into(),
        }
    }

    pub(super) fn limits(&self) -> Limits {
        Limits { time: self.timeout, memory: self.memory, file: 64 << 20 }
    }
}

/// `XDG_CACHE_HOME` or `~/.cache`.
fn users_cache() -> PathBuf {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache"))).unwrap_or_else(std::env::temp_dir)
}

/// A component and where it came from.
#[derive(Clone, Debug)]
pub struct Built {
    pub component: Vec<u8>,
    pub provenance: Provenance,
    /// Interfaces of the contract that it exports, such as `on-submit`.
    pub exports: Vec<String>,
    /// Capabilities that it imports: the grants that it needs.
    pub grants: Vec<String>,
    /// Wall time of the build, for people.
    pub seconds: f64,
    /// Whether it was built before, from the same source by the same tools.
    pub reused: bool,
}

/// Turns source into components.
#[derive(Clone)]
pub struct Forge {
    config: ForgeConfig,
    kept: Kept,
    /// Compilers that were found already.
    found: Arc<Mutex<HashMap<Language, Arc<dyn Toolset>>>>,
}

impl fmt::Debug for Forge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Forge").field("config", &self.config).finish_non_exhaustive()
    }
}

impl Forge {
    /// Checks the sandbox. A compiler is looked for when its language is first built.
    ///
    /// # Errors
    /// [`ForgeError::Toolchain`] if bubblewrap is missing, with the command that installs it.
    pub fn new(config: ForgeConfig) -> Result<Self, ForgeError> {
        match std::process::Command::new(&config.bwrap).arg("--version").output() {
            Ok(output) if output.status.success() => {}
            _ => {
                return Err(ForgeError::Toolchain {
                    what: format!(
                        "bubblewrap (`{}`), the build sandbox, cannot be run",
                        config.bwrap.display()
                    ),
                    help: "apt-get install bubblewrap".into(),
                });
            }
        }
        let cache = &config.cache_dir;
        std::fs::create_dir_all(cache).map_err(|error| io("make", cache, error))?;
        Ok(Self { kept: Kept::at(cache), config, found: Arc::default() })
    }

    /// What builds `language` here. Prepares it the first time, which takes a second for Rust.
    ///
    /// # Errors
    /// [`ForgeError::Toolchain`] names what is missing and the command that installs it.
    pub fn tools(&self, language: Language) -> Result<Vec<Tool>, ForgeError> {
        Ok(self.toolset(language)?.tools().to_vec())
    }

    /// Installs what builds `language` where that comes from pinned packages, and returns its folder;
    /// none for a language whose compiler the machine has to have. Needs the network.
    ///
    /// # Errors
    /// [`ForgeError::Toolchain`] names what is missing or failed.
    pub fn install(&self, language: Language) -> Result<Option<PathBuf>, ForgeError> {
        languages::install(language, &self.config)
    }

    fn toolset(&self, language: Language) -> Result<Arc<dyn Toolset>, ForgeError> {
        // Two threads may look at once; what they prepare is the same.
        let lock = || self.found.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(toolset) = lock().get(&language) {
            return Ok(toolset.clone());
        }
        let toolset = languages::find(language, &self.config)?;
        lock().insert(language, toolset.clone());
        Ok(toolset)
    }

    /// Builds a component. The same source and tools give the same bytes, and are built once.
    /// Blocks until the compiler ends; from async code use a blocking thread.
    ///
    /// # Errors
    /// [`ForgeError`], whose text a model can act on.
    pub fn build(&self, source: &Source) -> Result<Built, ForgeError> {
        let start = Instant::now();
        let source = source.load()?;
        let toolset = self.toolset(source.language)?;
        let key = key(&source, toolset.tools());
        if let Some(built) = self.kept.get(key) {
            return Ok(Built { seconds: start.elapsed().as_secs_f64(), ..built });
        }

        let cache = &self.config.cache_dir;
        let work = tempfile::tempdir_in(cache).map_err(|error| io("make a folder in", cache, error))?;
        let (input, output) = (work.path().join("input"), work.path().join("output"));
        write_source(&source, &input)?;
        std::fs::create_dir(&output).map_err(|error| io("make", &output, error))?;
        let job = Job { source: &source, input: &input, output: &output, limits: self.config.limits() };
        let made = match toolset.compile(&job)? {
            Artifact::Core(core) => componentize(&core),
            Artifact::Component(component) => component::inspect(component),
        };
        let made = made.map_err(|error| match error {
            ForgeError::NoExports { .. } => ForgeError::NoExports { help: source.language.exporting() },
            other => other,
        })?;

        let provenance = Provenance {
            component: Digest::of(&made.component),
            language: source.language,
            source: source.digest(),
            contract: Digest::of(CONTRACT.as_bytes()),
            forge: env!("CARGO_PKG_VERSION").into(),
            tools: toolset.tools().to_vec(),
        };
        let built = Built {
            component: made.component,
            provenance,
            exports: made.exports,
            grants: made.grants,
            seconds: start.elapsed().as_secs_f64(),
            reused: false,
        };
        self.kept.put(key, &built)?;
        Ok(built)
    }
}

/// What a component depends on: the source, the contract, this forge, the tools.
fn key(source: &Loaded, tools: &[Tool]) -> Digest {
    let (contract, adapter) = (Digest::of(CONTRACT.as_bytes()), Digest::of(preview1::ADAPTER));
    let mut text = format!("{}\n{contract}\n{adapter}\n{}\n", source.digest(), env!("CARGO_PKG_VERSION"));
    for Tool { name, version, digest } in tools {
        text += &format!("{name} {version} {digest}\n");
    }
    Digest::of(text.as_bytes())
}

fn write_source(source: &Loaded, dir: &Path) -> Result<(), ForgeError> {
    for (name, content) in &source.files {
        let path = dir.join(name);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).map_err(|error| io("make", parent, error))?;
        }
        std::fs::write(&path, content).map_err(|error| io("write", &path, error))?;
    }
    Ok(())
}
