//! Which plugins are measured, and where do they come from?

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, Result};
use pollster::block_on;
use tandem_host::forge::{Forge, ForgeConfig, Source};
use tandem_host::harness::{Generation, HarnessManifest, PluginEntry};
use tandem_host::plugin::{AdmissionOptions, Admitted, Engine, Grants, PluginLimits, admit};
use tandem_host::store::BlobStore;

/// The languages of the guests, as in the names of figures.
pub const LANGUAGES: [&str; 3] = ["rust", "quickjs", "python"];
/// The first-party plugins, in an order in which a harness would have them.
pub const FIRST_PARTY: [&str; 6] =
    ["budget-warning", "edit", "new-file-reminder", "check-names", "hold-empty-patch", "rescue-patch"];
/// What any of the guests asks for; a grant that is not used harms nobody.
const GRANTS: [&str; 3] = ["log", "workspace-read", "workspace-write"];
/// Components of the same logic and different bytes, for a chain.
pub const VARIANTS: usize = 6;

fn source_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("guests")
}

/// Builds everything that the forge can build into `dir`; the script `bench_guests.sh` adds the
/// guests of other toolchains.
pub fn build(dir: &Path) -> Result<()> {
    fs::create_dir_all(dir)?;
    let forge = Forge::new(ForgeConfig::new(dir.join("forge")))?;
    let text = fs::read_to_string(source_dir().join("hook.rs"))?;
    for variant in 0..VARIANTS {
        let text = text.replace("VARIANT: u64 = 0;", &format!("VARIANT: u64 = {variant};"));
        let built = forge.build(&Source::File { name: "hook.rs".into(), text })?;
        fs::write(dir.join(format!("rust-{variant}.wasm")), built.component)?;
    }
    let text = fs::read_to_string(source_dir().join("hostile.rs"))?;
    let built = forge.build(&Source::File { name: "hostile.rs".into(), text })?;
    fs::write(dir.join("hostile.wasm"), built.component)?;
    for name in FIRST_PARTY {
        let plugin = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../plugins").join(name);
        let built = forge.build(&Source::Crate { dir: plugin }).with_context(|| name.to_owned())?;
        fs::write(dir.join(format!("{name}.wasm")), built.component)?;
    }
    Ok(())
}

/// The folder of built guests.
pub struct Guests {
    dir: PathBuf,
}

impl Guests {
    pub fn at(dir: impl Into<PathBuf>) -> Result<Self> {
        let dir = dir.into();
        dir.join("rust-0.wasm").metadata().context("the guests are not built; `make bench-host` does it")?;
        Ok(Self { dir })
    }

    /// A guest's file.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.join(format!("{name}.wasm"))
    }

    /// A guest's component.
    pub fn component(&self, name: &str) -> Result<Vec<u8>> {
        let path = self.path(name);
        fs::read(&path).with_context(|| format!("cannot read `{}`", path.display()))
    }

    /// The hook in a language; none if its toolchain was not there.
    pub fn hook(&self, language: &str) -> Option<Vec<u8>> {
        let name = if language == "rust" { "rust-0" } else { language };
        fs::read(self.path(name)).ok()
    }
}

/// An engine as the program makes it.
pub fn engine() -> Result<Engine> {
    Ok(Engine::new(PluginLimits::default())?)
}

/// The executor of an agent loop. Calls of plugins need none; see [`now`].
pub fn runtime() -> Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_all().build()?)
}

/// Polls until it is ready, without an executor: what a call of a plugin costs by itself.
pub fn now<T>(work: impl Future<Output = T>) -> T {
    let mut work = std::pin::pin!(work);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    loop {
        if let std::task::Poll::Ready(value) = work.as_mut().poll(&mut context) {
            return value;
        }
    }
}

/// Admits a component with the grants that any guest asks for.
pub fn admitted(engine: &Engine, component: &[u8]) -> Result<Arc<Admitted>> {
    let grants = Grants::parse(&GRANTS.map(str::to_owned)).context("the grants of the benchmark")?;
    Ok(block_on(admit(engine, component, &grants, &AdmissionOptions::default()))?)
}

/// A harness with these guests, in this order, and its store of blobs.
pub fn generation(
    engine: &Engine,
    guests: &Guests,
    names: &[String],
    blobs: &BlobStore,
) -> Result<Arc<Generation>> {
    let mut manifest = HarnessManifest::bare();
    for name in names {
        let digest = blobs.put(&guests.component(name)?)?;
        let grants = GRANTS.map(str::to_owned).to_vec();
        let settings = serde_json::Map::new();
        manifest.plugins.push(PluginEntry { name: name.clone(), digest, grants, settings });
    }
    Ok(block_on(Generation::build(engine, manifest, blobs))?)
}

/// The names of a chain whose plugins all hook the same points.
pub fn variants() -> Vec<String> {
    (0..VARIANTS).map(|variant| format!("rust-{variant}")).collect()
}

/// The names of the first-party plugins.
pub fn first_party() -> Vec<String> {
    FIRST_PARTY.map(str::to_owned).to_vec()
}
