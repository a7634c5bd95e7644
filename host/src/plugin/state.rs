//! What does the host hold for one instance while it lives?

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Serialize;
use wasmtime::component::ResourceTable;
use wasmtime::{ResourceLimiter, UpdateDeadline};
use wasmtime_wasi::WasiCtx;

use super::clock::{Clock, TICK};
use super::fault::{PluginFault, Raised};
use super::limits::PluginLimits;
use super::wasi::{Random, Stdio, VirtualClock};
use super::workspace_access::WorkspaceAccess;

/// The data of one store. It is dropped with the store after any fault; what has to outlive
/// a fault is in [`Kept`].
pub(super) struct PluginState {
    pub limits: Arc<PluginLimits>,
    pub limiter: Limiter,
    pub table: ResourceTable,
    pub wasi: WasiCtx,
    pub stdio: Stdio,
    pub wasi_clock: VirtualClock,
    pub wasi_random: Random,
    /// Behind the capability `random`.
    pub random: Random,
    /// Behind the capability `clock`: milliseconds since the episode started.
    pub now_ms: u64,
    pub settings: Arc<str>,
    pub workspace: Arc<dyn WorkspaceAccess>,
    pub kept: Arc<Mutex<Kept>>,
    pub clock: Arc<Clock>,
    pub own_time: Arc<OwnTime>,
    pub host_calls: u32,
    pub wasi_calls: u32,
    /// What the plugin says of its failure in this call.
    pub explained: Option<String>,
}

impl PluginState {
    /// Starts the account of one call.
    pub fn begin_call(&mut self, now_ms: u64, deadline: Duration) {
        self.now_ms = now_ms;
        self.wasi_clock.call_at(now_ms);
        self.host_calls = 0;
        self.wasi_calls = 0;
        self.explained = None;
        self.own_time.begin(deadline);
    }

    /// Counts a host call; the one over the limit is a fault.
    pub fn count_host_call(&mut self) -> wasmtime::Result<()> {
        self.host_calls += 1;
        let limit = self.limits.host_calls;
        if self.host_calls > limit {
            let fault = PluginFault::HostCalls { made: self.host_calls, limit };
            return Err(Raised(fault).into());
        }
        Ok(())
    }

    /// Counts WASI calls. They are served by code that cannot refuse, so the one over the limit
    /// is stopped at the next tick or when the call ends, whichever is first: a fault either way.
    pub fn count_wasi_calls(&mut self, calls: u32) {
        self.wasi_calls = self.wasi_calls.saturating_add(calls);
        if self.wasi_calls > self.limits.wasi_calls {
            self.own_time.flooded(self.limits.wasi_calls);
        }
    }

    pub fn kept(&self) -> MutexGuard<'_, Kept> {
        lock(&self.kept)
    }
}

/// The lock, whatever a thread that held it did: what is inside is valid at every moment.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What an entry of `state` or a message costs the host beside its bytes; without it a flood of
/// empty ones would be free.
const ENTRY_BYTES: usize = 64;

/// What a plugin has in one episode, over faults and new instances.
#[derive(Debug, Default)]
pub(super) struct Kept {
    state: BTreeMap<String, Vec<u8>>,
    state_bytes: usize,
    log: Vec<LogLine>,
    log_bytes: usize,
    log_dropped: usize,
}

/// One message of a plugin for its author.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LogLine {
    /// `debug`, `info` or `warn`.
    pub level: &'static str,
    pub message: String,
}

impl Kept {
    pub fn get(&self, key: &str) -> Option<Vec<u8>> {
        self.state.get(key).cloned()
    }

    /// Keeps a value, unless keys and values together would pass `limit` bytes.
    pub fn set(&mut self, key: String, value: Vec<u8>, limit: usize) -> Result<(), String> {
        let cost = |value: &[u8]| ENTRY_BYTES + key.len() + value.len();
        let before = self.state.get(&key).map_or(0, |old| cost(old));
        let after = self.state_bytes - before + cost(&value);
        if after > limit {
            return Err(format!("the state would hold {after} bytes, limit {limit} bytes"));
        }
        self.state_bytes = after;
        self.state.insert(key, value);
        Ok(())
    }

    pub fn log(&mut self, level: &'static str, message: String, limit: usize) {
        let cost = ENTRY_BYTES + message.len();
        if self.log_bytes + cost > limit {
            self.log_dropped += 1;
            return;
        }
        self.log_bytes += cost;
        self.log.push(LogLine { level, message });
    }

    /// The messages since the last time, with a word on those that had no room.
    pub fn take_log(&mut self) -> Vec<LogLine> {
        let mut lines = std::mem::take(&mut self.log);
        if self.log_dropped > 0 {
            let message = format!("{} messages had no room and were dropped", self.log_dropped);
            lines.push(LogLine { level: "warn", message });
            self.log_dropped = 0;
        }
        lines
    }
}

/// Sums memory and tables over a whole instance and remembers what it refused, since a guest
/// that gets no memory most often traps with a message that says nothing.
pub(super) struct Limiter {
    memory: Count,
    table: Count,
}

struct Count {
    used: usize,
    last_growth: usize,
    limit: usize,
    refused: Option<usize>,
}

impl Count {
    fn new(limit: usize) -> Self {
        Self { used: 0, last_growth: 0, limit, refused: None }
    }

    fn grow(&mut self, current: usize, desired: usize) -> bool {
        let growth = desired.saturating_sub(current);
        let total = self.used.saturating_add(growth);
        if total > self.limit {
            self.refused = Some(total);
            return false;
        }
        self.used = total;
        self.last_growth = growth;
        true
    }

    fn grow_failed(&mut self) {
        self.used -= std::mem::take(&mut self.last_growth);
    }
}

impl Limiter {
    pub fn new(limits: &PluginLimits) -> Self {
        Self { memory: Count::new(limits.memory_bytes), table: Count::new(limits.table_elements) }
    }

    /// The fault behind a trap, if memory or a table was refused before it.
    pub fn refused(&self) -> Option<PluginFault> {
        let memory = self.memory.refused.map(|asked| {
            let limit = self.memory.limit;
            PluginFault::Memory { asked, limit }
        });
        let table = self.table.refused.map(|asked| {
            let limit = self.table.limit;
            PluginFault::Table { asked, limit }
        });
        memory.or(table)
    }
}

impl ResourceLimiter for Limiter {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        Ok(self.memory.grow(current, desired))
    }

    fn memory_grow_failed(&mut self, _error: wasmtime::Error) -> wasmtime::Result<()> {
        self.memory.grow_failed();
        Ok(())
    }

    fn table_growing(
        &mut self,
        current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        Ok(self.table.grow(current, desired))
    }

    fn table_grow_failed(&mut self, _error: wasmtime::Error) -> wasmtime::Result<()> {
        self.table.grow_failed();
        Ok(())
    }

    fn instances(&self) -> usize {
        64
    }

    fn tables(&self) -> usize {
        64
    }

    fn memories(&self) -> usize {
        16
    }
}

/// The guest's own time in a call, in ticks of the engine's clock. A tick counts only when the
/// guest ran for the whole of it, so waiting for the executor or in a host call is free.
#[derive(Default)]
pub(super) struct OwnTime {
    ticks: AtomicU64,
    limit: AtomicU64,
    waited: AtomicBool,
    /// The limit on WASI calls that was passed; 0 when none was.
    flooded: AtomicU32,
}

impl OwnTime {
    fn begin(&self, deadline: Duration) {
        let limit = deadline.as_nanos() / TICK.as_nanos();
        self.ticks.store(0, Ordering::Relaxed);
        self.limit.store(u64::try_from(limit).unwrap_or(u64::MAX).max(1), Ordering::Relaxed);
        self.waited.store(false, Ordering::Relaxed);
        self.flooded.store(0, Ordering::Relaxed);
    }

    /// More WASI calls were made than `limit`.
    fn flooded(&self, limit: u32) {
        self.flooded.store(limit.max(1), Ordering::Relaxed);
    }

    /// The fault of a call that made too many WASI calls.
    pub fn flood(&self) -> Option<PluginFault> {
        match self.flooded.load(Ordering::Relaxed) {
            0 => None,
            limit => Some(PluginFault::WasiCalls { limit }),
        }
    }

    /// A host call waited: the tick in which it came back is not the guest's.
    pub fn waited(&self) {
        self.waited.store(true, Ordering::Relaxed);
    }

    /// One tick has passed while the guest ran: go on after others had their turn, or stop.
    pub fn tick(&self) -> wasmtime::Result<UpdateDeadline> {
        if let Some(fault) = self.flood() {
            return Err(Raised(fault).into());
        }
        if !self.waited.swap(false, Ordering::Relaxed) {
            let ticks = self.ticks.fetch_add(1, Ordering::Relaxed) + 1;
            let limit = self.limit.load(Ordering::Relaxed);
            if ticks > limit {
                let time = |ticks| TICK * u32::try_from(ticks).unwrap_or(u32::MAX);
                let fault = PluginFault::Deadline { used: time(ticks), limit: time(limit) };
                return Err(Raised(fault).into());
            }
        }
        // Tokio's own yield: timers and input of others are served before this guest goes on. One
        // that only wakes itself would keep them waiting for dozens of ticks.
        Ok(UpdateDeadline::YieldCustom(1, Box::pin(tokio::task::yield_now())))
    }
}
