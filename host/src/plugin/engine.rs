//! How is WebAssembly compiled and run here? One engine for a host.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use wasmtime::{Config, Strategy};

use super::admission::Admitted;
use super::grants::Grants;
use super::limits::PluginLimits;
use super::state::lock;
use crate::store::Digest;

/// Length of one tick of the engine's clock. A guest gives way to others after each, and its
/// own time is counted in them.
pub(super) const TICK: Duration = Duration::from_millis(2);

/// Admitted components that are kept although no generation holds them.
const RECENT: usize = 16;

/// This machine cannot run the engine.
#[derive(Debug, thiserror::Error)]
#[error(
    "cannot start the WebAssembly engine: {0}\nhelp: Tandem runs on 64-bit x86 Linux; look at the limits on address space (`ulimit -v`) and threads"
)]
pub struct EngineError(String);

/// Compiles and runs plugins. Cheap to clone; all clones share compiled components and the one
/// thread that ticks.
#[derive(Clone)]
pub struct Engine(Arc<Inner>);

struct Inner {
    wasm: wasmtime::Engine,
    limits: Arc<PluginLimits>,
    cache: Mutex<Cache>,
    compiled: AtomicU64,
}

impl Engine {
    /// An engine with these limits. Starts one thread, which ends with the engine.
    pub fn new(limits: PluginLimits) -> Result<Self, EngineError> {
        let failed = |error: &dyn std::fmt::Display| EngineError(error.to_string());
        let wasm = wasmtime::Engine::new(&config()).map_err(|error| failed(&error))?;
        let clock = wasm.weak();
        std::thread::Builder::new()
            .name("plugin-clock".to_owned())
            .spawn(move || {
                while let Some(engine) = clock.upgrade() {
                    engine.increment_epoch();
                    drop(engine);
                    std::thread::sleep(TICK);
                }
            })
            .map_err(|error| failed(&error))?;
        Ok(Self(Arc::new(Inner {
            wasm,
            limits: Arc::new(limits),
            cache: Mutex::default(),
            compiled: AtomicU64::new(0),
        })))
    }

    /// The limits of every plugin.
    pub fn limits(&self) -> &PluginLimits {
        &self.0.limits
    }

    /// How many components were compiled so far, for people and tests.
    pub fn compiled(&self) -> u64 {
        self.0.compiled.load(Ordering::Relaxed)
    }

    pub(super) fn shared_limits(&self) -> Arc<PluginLimits> {
        self.0.limits.clone()
    }

    pub(super) fn wasm(&self) -> &wasmtime::Engine {
        &self.0.wasm
    }

    pub(super) fn count_compiled(&self) {
        self.0.compiled.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn cached(&self, digest: Digest, grants: &Grants) -> Option<Arc<Admitted>> {
        lock(&self.0.cache).get(&(digest, grants.clone()))
    }

    pub(super) fn keep(&self, admitted: &Arc<Admitted>) {
        lock(&self.0.cache).put(admitted);
    }
}

/// What was admitted, by digest and grants. Whoever uses a component keeps it alive; the last
/// few are kept besides, for the time between admission and publishing.
#[derive(Default)]
struct Cache {
    alive: HashMap<(Digest, Grants), Weak<Admitted>>,
    recent: VecDeque<Arc<Admitted>>,
}

impl Cache {
    fn get(&self, key: &(Digest, Grants)) -> Option<Arc<Admitted>> {
        self.alive.get(key)?.upgrade()
    }

    fn put(&mut self, admitted: &Arc<Admitted>) {
        self.alive.retain(|_, weak| weak.strong_count() > 0);
        let key = (admitted.digest(), admitted.grants().clone());
        self.alive.insert(key, Arc::downgrade(admitted));
        self.recent.push_back(admitted.clone());
        if self.recent.len() > RECENT {
            self.recent.pop_front();
        }
    }
}

/// The settings of the engine. Code compiled under other settings does not load, so the child
/// process that compiles uses the same.
pub(super) fn config() -> Config {
    let mut config = Config::new();
    config
        .strategy(Strategy::Cranelift)
        // Fuel decides, the same on every machine; epochs let others run and stop what fuel
        // cannot see.
        .consume_fuel(true)
        .epoch_interruption(true)
        .max_wasm_stack(512 << 10)
        .async_stack_size(2 << 20)
        // One answer on every machine (contract rule 9).
        .cranelift_nan_canonicalization(true)
        .relaxed_simd_deterministic(true)
        // No async in the contract, and a call costs less than half without it.
        .concurrency_support(false)
        .wasm_component_model(true)
        .wasm_multi_memory(false)
        .wasm_memory64(false)
        // Without debug information a trap costs less and says as much.
        .generate_address_map(false)
        .memory_init_cow(true);
    config
}
