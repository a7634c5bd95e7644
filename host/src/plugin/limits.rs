//! How much may one plugin use?

use std::time::Duration;

/// The limits of a plugin. One set for a host; the defaults suit hooks and tools that read a
/// few files. Fuel gives the verdict, the same on every machine; times are backstops, wide
/// enough that fuel is always out first on a machine that is not overloaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginLimits {
    /// Size of the component's bytes. Default 32 MiB: a plugin with a whole Python inside fits.
    pub component_bytes: usize,
    /// Fuel, about one unit an instruction, to instantiate. Default 500 million.
    pub fuel_start: u64,
    /// Fuel of one call of a hook. Default 100 million, about 50 ms.
    pub fuel_hook: u64,
    /// Fuel of one call of a tool. Default 2 billion, about 1 s.
    pub fuel_tool: u64,
    /// The guest's own time in one call of a hook, instantiation included. Waiting in host
    /// calls is not counted. Default 5 s.
    pub deadline_hook: Duration,
    /// The guest's own time in one call of a tool. Default 30 s.
    pub deadline_tool: Duration,
    /// Wall-clock time of one call with everything in it, the last resort. Default 10 minutes.
    pub wall: Duration,
    /// Linear memory over all memories of an instance. Default 64 MiB.
    pub memory_bytes: usize,
    /// Elements over all tables of an instance. Default 100,000.
    pub table_elements: usize,
    /// Bytes that cross from the guest to the host at once: the result of one call, or the
    /// arguments of one host call. Default 8 MiB.
    pub output_bytes: usize,
    /// Host calls within one call of the plugin, WASI not counted. Default 10,000.
    pub host_calls: u32,
    /// WASI calls within one call of the plugin. Default 100,000: an interpreter that starts makes
    /// some thousands.
    pub wasi_calls: u32,
    /// Handles of WASI resources (streams, pollables) that an instance has open. Default 1,000.
    pub handles: usize,
    /// Wall-clock time of one host call other than `exec`. Default 30 s.
    pub host_call: Duration,
    /// Longest time that `exec` may ask for; a longer wish is cut to it. Default 60 s.
    pub exec: Duration,
    /// Keys and values that a plugin keeps in `state` in one episode, and 64 bytes for each entry.
    /// Default 256 KiB.
    pub state_bytes: usize,
    /// Messages that a plugin logs in one episode, and 64 bytes for each; what comes after is
    /// counted, not kept. Default 64 KiB.
    pub log_bytes: usize,
    /// Standard output and error of an instance, together; what comes after is dropped.
    /// Default 64 KiB.
    pub stdio_bytes: usize,
}

/// JSON text that the host parses at once: rewritten arguments, an input schema, a structured
/// answer. Parsed, hostile text takes a hundred times as much.
pub(super) const JSON_BYTES: usize = 256 << 10;

const MIB: usize = 1 << 20;

impl Default for PluginLimits {
    fn default() -> Self {
        Self {
            component_bytes: 32 * MIB,
            fuel_start: 500_000_000,
            fuel_hook: 100_000_000,
            fuel_tool: 2_000_000_000,
            deadline_hook: Duration::from_secs(5),
            deadline_tool: Duration::from_secs(30),
            wall: Duration::from_secs(600),
            memory_bytes: 64 * MIB,
            table_elements: 100_000,
            output_bytes: 8 * MIB,
            host_calls: 10_000,
            wasi_calls: 100_000,
            handles: 1_000,
            host_call: Duration::from_secs(30),
            exec: Duration::from_secs(60),
            state_bytes: 256 << 10,
            log_bytes: 64 << 10,
            stdio_bytes: 64 << 10,
        }
    }
}
