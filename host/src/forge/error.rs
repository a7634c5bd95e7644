//! What can go wrong in a build, in words that an author or a model can act on.

use std::path::PathBuf;

use super::diagnostics::{Diagnostic, list};

/// Why no component came out.
#[derive(Debug, thiserror::Error)]
pub enum ForgeError {
    /// The compiler refused the source.
    #[error("{total} compile {}:\n{}", plural(*total, "error"), list(diagnostics, *total))]
    Rejected {
        /// The first ten, in the order of file and line.
        diagnostics: Vec<Diagnostic>,
        total: usize,
    },
    #[error(
        "the build was stopped after {seconds:.1} s; the limit is {limit_s:.1} s\n\
         help: leave out endless loops outside of functions, endless constant evaluation, endless macros \
         and very large types"
    )]
    TimedOut { seconds: f64, limit_s: f64 },
    #[error(
        "the compiler asked for {} of memory; the limit is {} MiB\n\
         help: leave out large statics, large macros and large constants",
        asked.map_or("more".to_owned(), |bytes| format!("{} MiB", bytes.div_ceil(1 << 20))), limit >> 20
    )]
    OutOfMemory {
        /// Bytes that the refused request was for, when the compiler said so.
        asked: Option<u64>,
        /// Bytes.
        limit: u64,
    },
    /// The source could not be taken as it is.
    #[error("{what}\nhelp: {help}")]
    Source { what: String, help: String },
    /// A program that the forge needs is not there.
    #[error("{what}\nhelp: {help}")]
    Toolchain { what: String, help: String },
    #[error(
        "the plugin imports `{function}` of `{module}`, which is not part of the contract\n\
         help: import only tandem:harness capabilities; of WASI only cli, io, clocks and random are \
         linked{}",
        instead(module)
    )]
    Import { module: String, function: String },
    #[error("the plugin exports `{name}`, which is not part of the contract\nhelp: {help}")]
    Export { name: String, help: String },
    #[error("the plugin exports no hook point and no tools\nhelp: {help}")]
    NoExports { help: &'static str },
    #[error("the core module does not fit the contract: {reason}\nhelp: {help}")]
    Encode { reason: String, help: String },
    #[error("the compiler failed without a message of its own ({status})\n{stderr}\nhelp: {help}")]
    Compiler { status: String, stderr: String, help: String },
    #[error("cannot {action} `{}`: {error}\nhelp: {}", path.display(), io_help(error))]
    Io { action: &'static str, path: PathBuf, error: std::io::Error },
}

fn plural(count: usize, noun: &str) -> String {
    if count == 1 { noun.to_owned() } else { format!("{noun}s") }
}

fn instead(module: &str) -> &'static str {
    if module.starts_with("wasi:filesystem") {
        "; use `workspace::read` and `workspace::write` instead of `std::fs`"
    } else if module.starts_with("wasi:sockets") || module.starts_with("wasi:http") {
        "; a plugin has no network"
    } else {
        ""
    }
}

fn io_help(error: &std::io::Error) -> &'static str {
    match error.kind() {
        std::io::ErrorKind::StorageFull => "free some disk space, or choose another cache folder",
        std::io::ErrorKind::PermissionDenied => "give this user access, or choose another folder",
        std::io::ErrorKind::NotFound => "check the path",
        _ => "check the folder and the disk",
    }
}
