//! What went wrong inside a plugin? Always a fault, never a decision (contract rule 3).

use std::time::Duration;

use wasmtime::Trap;
use wasmtime_wasi::I32Exit;

use super::state::PluginState;

/// A fault of a plugin in one call. The text goes on after "it".
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PluginFault {
    #[error("ran out of fuel: it used all of its {limit} units in one call")]
    Fuel { limit: u64 },
    #[error("ran too long: {} ms of its own time in one call, limit {} ms", .used.as_millis(), .limit.as_millis())]
    Deadline { used: Duration, limit: Duration },
    #[error("did not come back: its call was cut off after {} s of wall-clock time", .limit.as_secs())]
    Wall { limit: Duration },
    #[error("asked for too much memory: {asked} bytes, limit {limit} bytes")]
    Memory { asked: usize, limit: usize },
    #[error("asked for too large a table: {asked} elements, limit {limit} elements")]
    Table { asked: usize, limit: usize },
    #[error("handed over too much at once: more than {limit} bytes")]
    Output { limit: usize },
    #[error("made too many host calls: {made} in one call, limit {limit}")]
    HostCalls { made: u32, limit: u32 },
    #[error("waited too long for `{call}`: the host gave up after {} ms", .limit.as_millis())]
    HostCall { call: &'static str, limit: Duration },
    #[error("made too many WASI calls: more than {limit} in one call")]
    WasiCalls { limit: u32 },
    #[error("opened too many handles: more than {limit} at once")]
    Handles { limit: usize },
    #[error("could not be served: `{call}` of the host broke down")]
    Host { call: &'static str },
    #[error("exited with code {code}{}", said(.output))]
    Exit { code: i32, output: String },
    #[error("trapped: {trap}{}", said(.output))]
    Trap { trap: String, output: String },
    #[error("returned a wrong value: {what}")]
    WrongValue { what: String },
    #[error("does not export `{point}`")]
    NotExported { point: &'static str },
    #[error("could not be started: {why}")]
    Start { why: String },
}

/// Characters of what a plugin says of its own failure.
const EXPLANATION: usize = 2_000;

/// What it said of its failure, or the end of what it wrote to standard error: most languages put
/// their panic message there. Rust's asks for a variable that no plugin can have.
fn said(output: &str) -> String {
    let asks = |line: &&str| !line.starts_with("note: run with `RUST_BACKTRACE=");
    match output.lines().filter(asks).collect::<Vec<_>>().join("\n").trim() {
        "" => String::new(),
        text => format!("; it wrote: {text}"),
    }
}

impl PluginFault {
    /// Its kind in one word, for metrics.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Fuel { .. } => "fuel",
            Self::Deadline { .. } => "deadline",
            Self::Wall { .. } => "wall",
            Self::Memory { .. } => "memory",
            Self::Table { .. } => "table",
            Self::Output { .. } => "output",
            Self::HostCalls { .. } => "host-calls",
            Self::WasiCalls { .. } => "wasi-calls",
            Self::Handles { .. } => "handles",
            Self::HostCall { .. } => "host-call",
            Self::Host { .. } => "host",
            Self::Exit { .. } => "exit",
            Self::Trap { .. } => "trap",
            Self::WrongValue { .. } => "wrong-value",
            Self::NotExported { .. } => "not-exported",
            Self::Start { .. } => "start",
        }
    }

    /// What an author can do about it.
    pub fn help(&self) -> &'static str {
        match self {
            Self::Fuel { .. } | Self::Deadline { .. } | Self::Wall { .. } => {
                "do less in one call; look for a loop that does not end"
            }
            Self::Memory { .. } | Self::Table { .. } => {
                "keep less in memory; look for a buffer that only grows"
            }
            Self::Output { .. } => "return less; cut long text before it is returned",
            Self::HostCalls { .. } | Self::WasiCalls { .. } => "ask for more at once; keep what was read",
            Self::Handles { .. } => "drop streams and pollables that are no longer needed",
            Self::Host { .. } => {
                "this is a fault of the host, not of the plugin; its standard error says where"
            }
            Self::HostCall { .. } => "ask for less in one host call, or give `exec` a shorter time",
            Self::Exit { .. } => "return from the function; a plugin does not exit",
            Self::Trap { .. } => {
                "handle every input, an empty workspace and missing files too, and return instead of panicking"
            }
            Self::WrongValue { .. } => "return a value of the form that the contract in `wit/` asks for",
            Self::NotExported { .. } => "call a point that the plugin exports",
            Self::Start { .. } => "build the plugin against the contract in `wit/` again",
        }
    }
}

/// At most `chars` characters of a name that a guest wrote, on one line and in ASCII, so that
/// nothing in it looks like something else.
pub(super) fn spelled(name: &str, chars: usize) -> String {
    let ascii = |c: char| match c {
        '\n' => " ".to_owned(),
        ' '..='~' => c.to_string(),
        _ => c.escape_unicode().to_string(),
    };
    let mut shown: String = name.chars().take(chars).map(ascii).collect();
    if name.chars().nth(chars).is_some() {
        shown.push('…');
    }
    shown
}

/// A text that a guest wrote, fit to be shown: without what moves the cursor of a terminal or
/// turns the direction of text.
pub(super) fn tame(text: &str) -> String {
    let turns = |c| matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let unsafe_ = |c: char| (c.is_control() && c != '\n' && c != '\t') || turns(c);
    let tamed = |c| if unsafe_(c) { '\u{fffd}' } else { c };
    text.chars().map(tamed).collect()
}

/// Faults that the host itself raises while the guest runs; they travel as an error through
/// the engine.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct Raised(pub PluginFault);

/// What an error of the engine means. `fuel` is what the call was given.
pub(super) fn classify(error: &wasmtime::Error, state: &PluginState, fuel: u64) -> PluginFault {
    if let Some(Raised(fault)) = error.downcast_ref() {
        return fault.clone();
    }
    if let Some(fault) = state.own_time.flood() {
        return fault;
    }
    let trap = error.downcast_ref::<Trap>();
    if trap == Some(&Trap::OutOfFuel) {
        return PluginFault::Fuel { limit: fuel };
    }
    if let Some(fault) = state.limiter.refused() {
        return fault;
    }
    let output = match &state.explained {
        Some(text) => tame(&text.chars().take(EXPLANATION).collect::<String>()),
        None => state.stdio.tail(),
    };
    if let Some(I32Exit(code)) = error.downcast_ref() {
        return PluginFault::Exit { code: *code, output };
    }
    if let Some(trap) = trap {
        let trap = trap.to_string();
        let trap = trap.strip_prefix("wasm trap: ").unwrap_or(&trap).to_owned();
        return PluginFault::Trap { trap, output };
    }
    // The engine's type for this one is private.
    let cause = error.root_cause().to_string();
    if cause.contains("fuel allocated for hostcalls has been exhausted") {
        return PluginFault::Output { limit: state.limits.output_bytes };
    }
    if cause.contains("store handle limit exceeded") || cause.contains("resource table has no free keys") {
        return PluginFault::Handles { limit: state.limits.handles };
    }
    PluginFault::WrongValue { what: spelled(&cause, 500) }
}
