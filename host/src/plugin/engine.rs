//! How is WebAssembly compiled and run here? One engine for a host.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};

use wasmtime::{
    Config, Enabled, InstanceAllocationStrategy, PoolConcurrencyLimitError, PoolingAllocationConfig, Strategy,
};

use super::admission::Admitted;
use super::clock::Clock;
use super::code_cache::CodeCache;
use super::grants::Grants;
use super::limits::PluginLimits;
use super::state::lock;
use crate::store::Digest;

/// Admitted components that are kept although no generation holds them.
const RECENT: usize = 16;

/// This machine cannot run the engine.
#[derive(Debug, thiserror::Error)]
#[error(
    "cannot start the WebAssembly engine: {0}\nhelp: Tandem runs on 64-bit x86 Linux; look at the limits on address space (`ulimit -v`) and threads"
)]
pub struct EngineError(String);

/// How an engine is made.
#[derive(Clone, Debug)]
pub struct EngineConfig {
    /// The limits of every plugin.
    pub limits: PluginLimits,
    /// Plugin instances that have a place prepared for them, which makes their start several
    /// times faster. More than these can live at once; they start on demand. Each place reserves
    /// 4 GiB of address space and no memory. 0 starts all of them on demand. Default 1,000.
    pub pooled_instances: u32,
    /// Where compiled code is kept between runs of the program. Default nowhere.
    pub code_cache: Option<CodeCache>,
    /// Whether the time and fuel of every call go to the `metrics` facade. It costs a tenth of a
    /// microsecond a call; faults and instances are counted always. Default no.
    pub meter_calls: bool,
}

impl Default for EngineConfig {
    fn default() -> Self {
        Self {
            limits: PluginLimits::default(),
            pooled_instances: 1_000,
            code_cache: None,
            meter_calls: false,
        }
    }
}

/// Compiles and runs plugins. Cheap to clone; all clones share compiled components and the one
/// thread that ticks.
#[derive(Clone)]
pub struct Engine(Arc<Inner>);

struct Inner {
    /// None where the address space has no room for it.
    pooled: Option<wasmtime::Engine>,
    on_demand: wasmtime::Engine,
    limits: Arc<PluginLimits>,
    clock: Arc<Clock>,
    code_cache: Option<CodeCache>,
    meter_calls: bool,
    cache: Mutex<Cache>,
    compiled: AtomicU64,
}

impl Engine {
    /// An engine with these limits and the default configuration for the rest.
    pub fn new(limits: PluginLimits) -> Result<Self, EngineError> {
        Self::with(EngineConfig { limits, ..EngineConfig::default() })
    }

    /// An engine with this configuration. Starts one thread, which ends with the engine.
    pub fn with(config: EngineConfig) -> Result<Self, EngineError> {
        let failed = |error: &dyn std::fmt::Display| EngineError(error.to_string());
        let on_demand = wasmtime::Engine::new(&base_config()).map_err(|error| failed(&error))?;
        let pooled = match config.pooled_instances {
            0 => None,
            places => wasmtime::Engine::new(&pooled_config(places, &config.limits))
                .inspect_err(|error| {
                    tracing::warn!(
                        "no places for {places} plugin instances: {error:#}; they start on demand"
                    );
                })
                .ok(),
        };
        let engines = pooled.iter().chain([&on_demand]).map(wasmtime::Engine::weak).collect();
        let clock = Clock::start(engines).map_err(|error| failed(&error))?;
        Ok(Self(Arc::new(Inner {
            pooled,
            on_demand,
            limits: Arc::new(config.limits),
            clock: Arc::new(clock),
            code_cache: config.code_cache,
            meter_calls: config.meter_calls,
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

    pub(super) fn clock(&self) -> &Arc<Clock> {
        &self.0.clock
    }

    pub(super) fn pooled(&self) -> Option<&wasmtime::Engine> {
        self.0.pooled.as_ref()
    }

    pub(super) fn on_demand(&self) -> &wasmtime::Engine {
        &self.0.on_demand
    }

    pub(super) fn code_cache(&self) -> Option<&CodeCache> {
        self.0.code_cache.as_ref()
    }

    pub(super) fn meter_calls(&self) -> bool {
        self.0.meter_calls
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

/// The settings of the engine but for the places of instances. Code compiled under other
/// settings does not load, so the child process that compiles uses the same.
pub(super) fn base_config() -> Config {
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
        // For the engine itself: between the parts of a composed component, such as one with
        // JavaScript inside, it puts code that sees the memories of both. What a guest brings
        // is validated without it.
        .wasm_multi_memory(true)
        .wasm_memory64(false)
        // Without debug information a trap costs less and says as much.
        .generate_address_map(false)
        .memory_init_cow(true);
    config
}

/// Core instances, tables and memories that a plugin's component has at most on average: the
/// module itself, and the two that carry its imports. Interpreters have more.
const CORE_INSTANCES: u32 = 4;
const TABLES: u32 = 3;
/// Every instance keeps the stack of its last call; these are for the ones that are starting.
const STARTING: u32 = 64;

fn pooled_config(places: u32, limits: &PluginLimits) -> Config {
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(places)
        .total_core_instances(places.saturating_mul(CORE_INSTANCES))
        .total_memories(places)
        .total_tables(places.saturating_mul(TABLES))
        .total_stacks(places.saturating_add(STARTING))
        .max_memory_size(limits.memory_bytes)
        .table_elements(limits.table_elements)
        .max_tables_per_module(4)
        .max_memories_per_module(1)
        // A place that is used again is cleaned by writing zeros over what is small, which
        // is faster than giving the pages back and faulting them in again.
        .linear_memory_keep_resident(KEEP_RESIDENT)
        .table_keep_resident(KEEP_RESIDENT)
        .pagemap_scan(Enabled::Auto)
        .max_unused_warm_slots(places.min(256));
    let mut config = base_config();
    config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool));
    config
}

const KEEP_RESIDENT: usize = 64 << 10;

/// Whether an instance found no free place.
pub(super) fn is_full(error: &wasmtime::Error) -> bool {
    error.is::<PoolConcurrencyLimitError>()
}

#[cfg(test)]
mod tests {
    use super::super::testkit::notes;
    use super::super::{AdmissionOptions, admit};
    use super::*;

    #[tokio::test]
    async fn an_engine_ends_with_its_last_user_although_it_keeps_what_was_admitted() {
        let engine = Engine::new(PluginLimits::default()).unwrap();
        let inner = Arc::downgrade(&engine.0);
        let options = AdmissionOptions::default();
        drop(admit(&engine, &notes("kept"), &Grants::none(), &options).await.unwrap());
        assert_eq!(inner.strong_count(), 1);
        drop(engine);
        assert_eq!(inner.strong_count(), 0);
    }

    /// Componentizers of JavaScript make such components: one part hands a string to another.
    #[test]
    fn a_component_of_several_parts_compiles() {
        let text = r#"(component
            (component $callee
                (core module $m
                    (memory (export "memory") 1)
                    (func (export "realloc") (param i32 i32 i32 i32) (result i32) (i32.const 8))
                    (func (export "take") (param i32 i32)))
                (core instance $i (instantiate $m))
                (func (export "take") (param "text" string)
                    (canon lift (core func $i "take") (memory (core memory $i "memory"))
                        (realloc (core func $i "realloc")))))
            (component $caller
                (import "take" (func $take (param "text" string)))
                (core module $m (memory (export "memory") 1))
                (core instance $i (instantiate $m))
                (core func $lowered (canon lower (func $take) (memory (core memory $i "memory"))))
                (core module $user (import "" "take" (func (param i32 i32))))
                (core instance (instantiate $user (with "" (instance (export "take" (func $lowered)))))))
            (instance $callee (instantiate $callee))
            (instance (instantiate $caller (with "take" (func $callee "take")))))"#;
        let engine = wasmtime::Engine::new(&base_config()).unwrap();
        engine.precompile_component(&wat::parse_str(text).unwrap()).unwrap();
    }
}
