//! What does a plugin get of WASI? Only cli, io, clocks and random, all of it tame: no
//! arguments or environment, seeded randomness, virtual time, output that is cut.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use tokio::io::AsyncWrite;
use wasmtime::component::{HasData, HasSelf, Linker, Resource, ResourceTable};
use wasmtime_wasi::WasiCtx;
use wasmtime_wasi::cli::{IsTerminal, StdoutStream, WasiCli, WasiCliCtxView};
use wasmtime_wasi::p2::bindings::{cli, clocks, random};
use wasmtime_wasi::p2::{DynPollable, OutputStream, Pollable, StreamError, StreamResult, subscribe};
use wasmtime_wasi_io::bindings::wasi::io;
use wasmtime_wasi_io::bytes::Bytes;

use super::fault::tame;
use super::state::{PluginState, lock};

/// The WASI interfaces that are linked, without version.
pub(super) const INTERFACES: [&str; 18] = [
    "wasi:cli/environment",
    "wasi:cli/exit",
    "wasi:cli/stdin",
    "wasi:cli/stdout",
    "wasi:cli/stderr",
    "wasi:cli/terminal-input",
    "wasi:cli/terminal-output",
    "wasi:cli/terminal-stdin",
    "wasi:cli/terminal-stdout",
    "wasi:cli/terminal-stderr",
    "wasi:io/error",
    "wasi:io/poll",
    "wasi:io/streams",
    "wasi:clocks/wall-clock",
    "wasi:clocks/monotonic-clock",
    "wasi:random/random",
    "wasi:random/insecure",
    "wasi:random/insecure-seed",
];

/// Links [`INTERFACES`].
pub(super) fn link(linker: &mut Linker<PluginState>) -> wasmtime::Result<()> {
    let l = linker;
    let cli: for<'a> fn(&'a mut PluginState) -> WasiCliCtxView<'a> = |state| {
        state.count_wasi_calls(1);
        WasiCliCtxView { ctx: state.wasi.cli(), table: &mut state.table }
    };
    cli::environment::add_to_linker::<_, WasiCli>(l, cli)?;
    cli::exit::add_to_linker::<_, WasiCli>(l, cli)?;
    cli::stdin::add_to_linker::<_, WasiCli>(l, cli)?;
    cli::stdout::add_to_linker::<_, WasiCli>(l, cli)?;
    cli::stderr::add_to_linker::<_, WasiCli>(l, cli)?;
    cli::terminal_input::add_to_linker::<_, WasiCli>(l, cli)?;
    cli::terminal_output::add_to_linker::<_, WasiCli>(l, cli)?;
    cli::terminal_stdin::add_to_linker::<_, WasiCli>(l, cli)?;
    cli::terminal_stdout::add_to_linker::<_, WasiCli>(l, cli)?;
    cli::terminal_stderr::add_to_linker::<_, WasiCli>(l, cli)?;

    // The way to the state is taken at every call, which is where calls are counted.
    let table: fn(&mut PluginState) -> &mut ResourceTable = |state| {
        state.count_wasi_calls(1);
        &mut state.table
    };
    io::error::add_to_linker::<_, Table>(l, table)?;
    io::poll::add_to_linker::<_, Table>(l, table)?;
    io::streams::add_to_linker::<_, Table>(l, table)?;

    let own: fn(&mut PluginState) -> &mut PluginState = |state| {
        state.count_wasi_calls(1);
        state
    };
    clocks::wall_clock::add_to_linker::<_, HasSelf<PluginState>>(l, own)?;
    clocks::monotonic_clock::add_to_linker::<_, HasSelf<PluginState>>(l, own)?;
    random::random::add_to_linker::<_, HasSelf<PluginState>>(l, own)?;
    random::insecure::add_to_linker::<_, HasSelf<PluginState>>(l, own)?;
    random::insecure_seed::add_to_linker::<_, HasSelf<PluginState>>(l, own)?;
    Ok(())
}

struct Table;

impl HasData for Table {
    type Data<'a> = &'a mut ResourceTable;
}

/// A context with nothing in it but `stdio`.
pub(super) fn context(stdio: &Stdio) -> WasiCtx {
    let mut builder = WasiCtx::builder();
    builder.stdout(stdio.clone()).stderr(stdio.clone());
    builder.allow_tcp(false).allow_udp(false);
    builder.build()
}

/// Standard output and error of an instance in one buffer: the first bytes up to a cap.
#[derive(Clone)]
pub(super) struct Stdio {
    buffer: Arc<Mutex<Vec<u8>>>,
    limit: usize,
}

impl Stdio {
    pub fn new(limit: usize) -> Self {
        Self { buffer: Arc::default(), limit }
    }

    /// The last lines, at most 500 bytes.
    pub fn tail(&self) -> String {
        let buffer = lock(&self.buffer);
        let start = buffer.len().saturating_sub(500);
        tame(String::from_utf8_lossy(&buffer[start..]).trim())
    }

    fn keep(&self, bytes: &[u8]) {
        let mut buffer = lock(&self.buffer);
        let room = self.limit.saturating_sub(buffer.len());
        buffer.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }
}

impl IsTerminal for Stdio {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdoutStream for Stdio {
    fn async_stream(&self) -> Box<dyn AsyncWrite + Send + Sync> {
        Box::new(self.clone())
    }

    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(self.clone())
    }
}

impl AsyncWrite for Stdio {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<std::io::Result<usize>> {
        self.keep(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[async_trait::async_trait]
impl Pollable for Stdio {
    async fn ready(&mut self) {}
}

impl OutputStream for Stdio {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        self.keep(&bytes);
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> Result<usize, StreamError> {
        Ok(1 << 16)
    }
}

/// Time as WASI shows it: it starts with the virtual time of the call, moves a microsecond with
/// each look, so that no wait for the next tick hangs, and jumps when the guest sleeps.
pub(super) struct VirtualClock {
    nanos: u64,
    /// Added to all times; admission varies it to find plugins that depend on the time of day.
    start: u64,
}

/// 2026-01-01T00:00:00Z, where every episode starts.
const EPISODE_START_SECONDS: u64 = 1_767_225_600;
const LOOK_NANOS: u64 = 1_000;

impl VirtualClock {
    pub fn new(start_seconds: u64) -> Self {
        Self { nanos: 0, start: start_seconds }
    }

    pub fn call_at(&mut self, now_ms: u64) {
        self.nanos = self.nanos.max(now_ms.saturating_mul(1_000_000));
    }

    fn look(&mut self) -> u64 {
        self.nanos = self.nanos.saturating_add(LOOK_NANOS);
        self.nanos
    }

    fn sleep(&mut self, nanos: u64) {
        self.nanos = self.nanos.saturating_add(nanos);
    }
}

impl clocks::wall_clock::Host for PluginState {
    fn now(&mut self) -> wasmtime::Result<clocks::wall_clock::Datetime> {
        let nanos = self.wasi_clock.look();
        Ok(clocks::wall_clock::Datetime {
            seconds: EPISODE_START_SECONDS + self.wasi_clock.start + nanos / 1_000_000_000,
            nanoseconds: (nanos % 1_000_000_000) as u32,
        })
    }

    fn resolution(&mut self) -> wasmtime::Result<clocks::wall_clock::Datetime> {
        Ok(clocks::wall_clock::Datetime { seconds: 0, nanoseconds: LOOK_NANOS as u32 })
    }
}

impl clocks::monotonic_clock::Host for PluginState {
    fn now(&mut self) -> wasmtime::Result<u64> {
        Ok(self.wasi_clock.look().saturating_add(self.wasi_clock.start * 1_000_000_000))
    }

    fn resolution(&mut self) -> wasmtime::Result<u64> {
        Ok(LOOK_NANOS)
    }

    fn subscribe_instant(&mut self, when: u64) -> wasmtime::Result<Resource<DynPollable>> {
        let now = clocks::monotonic_clock::Host::now(self)?;
        clocks::monotonic_clock::Host::subscribe_duration(self, when.saturating_sub(now))
    }

    fn subscribe_duration(&mut self, nanos: u64) -> wasmtime::Result<Resource<DynPollable>> {
        self.wasi_clock.sleep(nanos);
        let elapsed = self.table.push(Elapsed)?;
        subscribe(&mut self.table, elapsed)
    }
}

/// A sleep in virtual time is over at once.
struct Elapsed;

#[async_trait::async_trait]
impl Pollable for Elapsed {
    async fn ready(&mut self) {}
}

/// Seeded random numbers: SplitMix64 (Steele, Lea, Flood 2014). Not for secrets: a plugin has
/// none, and two runs of an episode must see the same numbers.
#[derive(Clone, Debug)]
pub(super) struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn bytes(&mut self, count: u64, limit: usize) -> wasmtime::Result<Vec<u8>> {
        let count = usize::try_from(count).ok().filter(|count| *count <= limit);
        let Some(count) = count else {
            return Err(wasmtime::Error::msg(format!("more than {limit} random bytes asked for")));
        };
        let words = std::iter::repeat_with(|| self.next().to_le_bytes());
        Ok(words.flatten().take(count).collect())
    }
}

/// Random bytes that one WASI call may ask for.
const RANDOM_BYTES: usize = 64 << 10;

impl PluginState {
    /// A kibibyte of random numbers takes the host as long as a call.
    fn count_random_bytes(&mut self, count: u64) {
        self.count_wasi_calls(u32::try_from(count >> 10).unwrap_or(u32::MAX));
    }
}

impl random::random::Host for PluginState {
    fn get_random_bytes(&mut self, count: u64) -> wasmtime::Result<Vec<u8>> {
        self.count_random_bytes(count);
        self.wasi_random.bytes(count, RANDOM_BYTES)
    }

    fn get_random_u64(&mut self) -> wasmtime::Result<u64> {
        Ok(self.wasi_random.next())
    }
}

impl random::insecure::Host for PluginState {
    fn get_insecure_random_bytes(&mut self, count: u64) -> wasmtime::Result<Vec<u8>> {
        self.count_random_bytes(count);
        self.wasi_random.bytes(count, RANDOM_BYTES)
    }

    fn get_insecure_random_u64(&mut self) -> wasmtime::Result<u64> {
        Ok(self.wasi_random.next())
    }
}

impl random::insecure_seed::Host for PluginState {
    fn insecure_seed(&mut self) -> wasmtime::Result<(u64, u64)> {
        Ok((self.wasi_random.next(), self.wasi_random.next()))
    }
}
