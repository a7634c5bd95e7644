//! What does the engine itself cost, without the host around it? The same component through
//! typed bindings, with no state, no account of a call, no timer.

use std::hint::black_box;
use std::path::Path;

use measure::{Figure, Unit, batches, memory, nanoseconds, tell};
use tandem_host::plugin::compile_child;
use wasmtime::component::{Component, InstancePre, Linker, ResourceTable};
use wasmtime::error::Context as _;
use wasmtime::{Config, Engine, InstanceAllocationStrategy, PoolingAllocationConfig, Result, Store};
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView, p2};

use crate::guests::{Guests, LANGUAGES, now};

mod asynchronous {
    wasmtime::component::bindgen!({
        path: ["../../wit", "guests/wit"],
        world: "bench:guests/hook",
        exports: { default: async },
    });
}

mod synchronous {
    wasmtime::component::bindgen!({
        path: ["../../wit", "guests/wit"],
        world: "bench:guests/hook",
    });
}

const POOLED: &str = "bare wasmtime";
const SYNC: &str = "bare wasmtime, sync";

/// The settings of `host/src/plugin/engine.rs`. Those that code depends on are checked: native
/// code that the host compiled would not load under others.
fn engine() -> Result<Engine> {
    let mut pool = PoolingAllocationConfig::new();
    pool.total_core_instances(10_000).total_component_instances(3000).total_tables(10_000);
    pool.table_elements(100_000).max_tables_per_module(4).total_stacks(3000).total_memories(3000);
    pool.linear_memory_keep_resident(64 << 10).table_keep_resident(64 << 10);
    let mut config = Config::new();
    config
        .consume_fuel(true)
        .epoch_interruption(true)
        .max_wasm_stack(512 << 10)
        .async_stack_size(2 << 20)
        .cranelift_nan_canonicalization(true)
        .relaxed_simd_deterministic(true)
        .concurrency_support(false)
        .wasm_component_model(true)
        .wasm_multi_memory(true)
        .wasm_memory64(false)
        .generate_address_map(false)
        .memory_init_cow(true)
        .allocation_strategy(InstanceAllocationStrategy::Pooling(pool));
    Engine::new(&config)
}

/// A component that the host's own compiler made.
fn load(engine: &Engine, path: &Path) -> Result<Component> {
    let dir = tempfile::tempdir()?;
    let native = dir.path().join("native");
    compile_child(path, &native, None).map_err(wasmtime::Error::msg)?;
    // SAFETY: the file is what the compiler just made, in a folder of ours.
    let component = unsafe { Component::deserialize_file(engine, &native) };
    component.context("the settings of the baseline are not those of the host")
}

/// The standard library of the guests imports WASI.
#[derive(Default)]
struct State {
    wasi: WasiCtx,
    table: ResourceTable,
}

impl WasiView for State {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView { ctx: &mut self.wasi, table: &mut self.table }
    }
}

fn store(engine: &Engine) -> Result<Store<State>> {
    let mut store = Store::new(engine, State::default());
    store.set_fuel(u64::MAX)?;
    store.set_epoch_deadline(1 << 40);
    Ok(store)
}

pub fn run(guests: &Guests) -> Result<()> {
    let engine = engine()?;
    // The capabilities are not linked: the measured guests import none.
    let (mut linker, mut linker_sync) = (Linker::new(&engine), Linker::new(&engine));
    p2::add_to_linker_async(&mut linker)?;
    p2::add_to_linker_sync(&mut linker_sync)?;
    let rust = load(&engine, &guests.path("rust-0"))?;
    calls(&engine, &linker.instantiate_pre(&rust)?)?;
    calls_sync(&engine, &linker_sync.instantiate_pre(&rust)?)?;
    for language in LANGUAGES {
        let path = guests.path(if language == "rust" { "rust-0" } else { language });
        if path.exists() {
            starts(&engine, &linker.instantiate_pre(&load(&engine, &path)?)?, language)?;
        }
    }
    Ok(())
}

fn calls(engine: &Engine, pre: &InstancePre<State>) -> Result<()> {
    use asynchronous::tandem::harness::types::{Budget, Context, ToolCall, Usage};
    let context = Context {
        turn: 48,
        budget: Budget {
            turns: Usage { used: 47, limit: Some(50) },
            tokens: Usage { used: 12_345, limit: None },
            seconds: Usage { used: 90, limit: Some(600) },
        },
    };
    let mut store = store(engine)?;
    let hook = now(asynchronous::HookPre::new(pre.clone())?.instantiate_async(&mut store))?;
    let guest = hook.tandem_harness_on_model_call();
    let answer = now(guest.call_on_model_call(&mut store, context))?;
    wasmtime::ensure!(answer.is_some(), "the guest said nothing");
    tell(&batches("call/on-model-call", POOLED, 5000, 100, || {
        black_box(now(guest.call_on_model_call(&mut store, context))).ok();
    }));
    let guest = hook.tandem_harness_on_tool_call();
    let call = ToolCall {
        id: "c1".into(),
        name: "bash".into(),
        arguments: r#"{"command":"rm -rf / --no-preserve-root"}"#.into(),
    };
    tell(&batches("call/on-tool-call", POOLED, 5000, 100, || {
        black_box(now(guest.call_on_tool_call(&mut store, context, &call))).ok();
    }));
    Ok(())
}

fn calls_sync(engine: &Engine, pre: &InstancePre<State>) -> Result<()> {
    use synchronous::tandem::harness::types::{Budget, Context, Usage};
    let context = Context {
        turn: 48,
        budget: Budget {
            turns: Usage { used: 47, limit: Some(50) },
            tokens: Usage { used: 12_345, limit: None },
            seconds: Usage { used: 90, limit: Some(600) },
        },
    };
    let mut store = store(engine)?;
    let hook = synchronous::HookPre::new(pre.clone())?.instantiate(&mut store)?;
    let guest = hook.tandem_harness_on_model_call();
    tell(&batches("call/on-model-call", SYNC, 5000, 100, || {
        black_box(guest.call_on_model_call(&mut store, context)).ok();
    }));
    Ok(())
}

fn starts(engine: &Engine, pre: &InstancePre<State>, language: &str) -> Result<()> {
    let count = if language == "rust" { 5000 } else { 1000 };
    let mut samples = Vec::new();
    for round in 0..count + count / 5 {
        let mut store = store(engine)?;
        let (instance, time) = nanoseconds(|| now(pre.instantiate_async(&mut store)));
        instance?;
        if round >= count / 5 {
            samples.push(time);
        }
    }
    let id = format!("start/{language}");
    tell(&Figure::of(&id, POOLED, Unit::Nanoseconds, samples, &format!("{count} instances")));
    if language == "rust" {
        let figure = memory("memory/rust", POOLED, 1000, |_| {
            let mut store = store(engine).ok()?;
            let instance = now(pre.instantiate_async(&mut store)).ok()?;
            Some((store, instance))
        });
        figure.iter().for_each(tell);
    }
    Ok(())
}
