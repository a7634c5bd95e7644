//! How does C or C++ become a core module? clang compiles the one file, lld links it.

use std::path::Path;

use crate::forge::diagnostics::{Diagnostic, Level};
use crate::forge::error::ForgeError;
use crate::forge::language::Language;
use crate::forge::sandbox::Ended;
use crate::forge::source::io;

use super::super::Job;
use super::messages;
use super::toolchain::{Toolchain, ZIG};

/// Small code; no exceptions, which plugins have no use for: a failure ends the call. Errors are
/// warnings that are faults whenever they are right.
const FLAGS: &[&str] = &[
    "--target=wasm32-wasip1",
    "-Os",
    "-ffunction-sections",
    "-fdata-sections",
    "-fvisibility=hidden",
    "-fno-exceptions",
    "-fno-color-diagnostics",
    "-fno-caret-diagnostics",
    "-fno-crash-diagnostics",
    "-Wno-everything",
    "-Werror=return-type",
    "-Werror=format",
    "-Werror=incompatible-pointer-types",
    "-nostdinc",
    "-I/sdk",
];

const C_HEADERS: &[&str] = &[
    "-isystem/zig/lib/include",
    "-isystem/zig/lib/libc/include/wasm-wasi-musl",
    "-isystem/zig/lib/libc/include/generic-musl",
];

/// What the toolchain defines when it compiles with its C++ library, which it also built so.
const CPP_HEADERS: &[&str] = &[
    "-isystem/zig/lib/libcxx/include",
    "-isystem/zig/lib/libcxxabi/include",
    "-D_LIBCPP_ABI_VERSION=1",
    "-D_LIBCPP_ABI_NAMESPACE=__1",
    "-D_LIBCPP_HAS_THREADS=0",
    "-D_LIBCPP_HAS_MONOTONIC_CLOCK",
    "-D_LIBCPP_HAS_TERMINAL",
    "-D_LIBCPP_HAS_MUSL_LIBC=1",
    "-D_LIBCXXABI_DISABLE_VISIBILITY_ANNOTATIONS",
    "-D_LIBCPP_DISABLE_VISIBILITY_ANNOTATIONS",
    "-D_LIBCPP_HAS_VENDOR_AVAILABILITY_ANNOTATIONS=0",
    "-D_LIBCPP_HAS_FILESYSTEM=0",
    "-D_LIBCPP_HAS_RANDOM_DEVICE",
    "-D_LIBCPP_HAS_LOCALIZATION",
    "-D_LIBCPP_HAS_UNICODE",
    "-D_LIBCPP_HAS_WIDE_CHARACTERS",
    "-D_LIBCPP_HAS_NO_STD_MODULES",
    "-D_LIBCPP_PSTL_BACKEND_SERIAL",
    // Mistakes that can be seen cheaply end the call, such as an index past the end.
    "-D_LIBCPP_HARDENING_MODE=_LIBCPP_HARDENING_MODE_FAST",
    "-D_LIBCPP_ASSERTION_SEMANTIC_DEFAULT=_LIBCPP_ASSERTION_SEMANTIC_ENFORCE",
];

/// The headers of the SDK and the library, read once.
const PRECOMPILED: &str = "/sdk/tandem.pch";

/// The command that makes the toolchain build its libraries for `language`, by linking nothing.
pub(super) fn libraries(language: Language) -> Vec<&'static str> {
    let (driver, kind) = if language == Language::Cpp { ("c++", "c++") } else { ("cc", "c") };
    let mut command = vec![ZIG, driver, "-target", "wasm32-wasi", "-mexec-model=reactor", "-Os"];
    command.extend(["-x", kind, "/dev/null", "-o", "/out/nothing.wasm"]);
    command
}

/// The compiler for `language`, without what it compiles.
pub(super) fn compiler(language: Language) -> Vec<&'static str> {
    let mut command = vec![ZIG, "clang"];
    match language {
        Language::Cpp => command.extend(["--driver-mode=g++", "-std=gnu++23", "-fno-rtti"]),
        _ => command.extend(["-std=gnu23"]),
    }
    command.extend(FLAGS);
    if language == Language::Cpp {
        command.extend(CPP_HEADERS);
    }
    command.extend(C_HEADERS);
    command
}

/// The command that reads the C++ headers once. Without times, which are of this machine.
pub(super) fn precompile() -> Vec<&'static str> {
    let mut command = compiler(Language::Cpp);
    command.extend(["-Xclang", "-fno-pch-timestamp", "-x", "c++-header", "tandem.hpp", "-o", PRECOMPILED]);
    command
}

pub(super) fn compile(
    toolchain: &Toolchain,
    prepared: &Path,
    language: Language,
    job: &Job<'_>,
) -> Result<(), ForgeError> {
    let mut sandbox = toolchain.sandbox(job.limits, job.output);
    sandbox.read_only(prepared, "/sdk").read_only(job.input, "/plugin");
    let (file, source) = messages::plugin(job);
    let failed = |ended: &Ended| Err(messages::failure(ended, job.limits, Some(&source)));

    let mut command = compiler(language);
    if language == Language::Cpp {
        command.extend(["-include-pch", PRECOMPILED, "-x", "c++"]);
    }
    command.extend(["-c", &file, "-o", "/out/plugin.o"]);
    let noting = [&command[..], &["-MD", "-MF/out/read"]].concat();
    let ended = sandbox.run("/plugin", &noting)?;
    if !ended.status.success() {
        return failed(&ended);
    }
    let read = job.output.join("read");
    if !read.is_file() {
        // While it notes what it reads, clang passes over an `#embed` of a file that is not there.
        return failed(&sandbox.run("/plugin", &command)?);
    }
    check_what_was_read(&read, &file, &source)?;

    let mut command = vec![ZIG, "wasm-ld"];
    command.extend(LINK);
    // `_initialize` runs the constructors of statics, once.
    command.extend(["--entry=_initialize", "/sdk/lib/crt1-reactor.o", "/out/plugin.o"]);
    command.push("/sdk/lib/libtandem.a");
    if language == Language::Cpp {
        command.extend(["/sdk/lib/libc++.a", "/sdk/lib/libc++abi.a"]);
    }
    command.extend(["/sdk/lib/libc.a", "/sdk/lib/libzigc.a", "/sdk/lib/libcompiler_rt.a"]);
    let ended = sandbox.run("/out", &command)?;
    if ended.status.success() { Ok(()) } else { failed(&ended) }
}

/// Flags of the linker: the stack below everything else, where running over it traps.
pub(super) const LINK: &[&str] = &[
    "--error-limit=0",
    "--strip-all",
    "--stack-first",
    "-zstack-size=1048576",
    "--build-id=none",
    "-o/out/plugin.wasm",
];

/// `#embed` and `#include` take any path of the sandbox. There is nothing of this machine to read
/// but devices and the C library of the compiler, yet with these the same source would not give
/// the same bytes everywhere.
fn check_what_was_read(list: &Path, file: &str, source: &messages::Plugin<'_>) -> Result<(), ForgeError> {
    let text = std::fs::read_to_string(list).map_err(|error| io("read", list, error))?;
    let text = text.replace("\\\n", " ");
    let Some((_, paths)) = text.split_once(": ") else { return Ok(()) };
    let own = |path: &str| path == file || path.starts_with("/zig/") || path.starts_with("/sdk/");
    let Some(other) = paths.split_whitespace().find(|path| !own(path) || path.contains("/../")) else {
        return Ok(());
    };
    let line = source.line_with(other);
    let diagnostic = Diagnostic {
        file: source.name.to_owned(),
        line,
        column: u32::from(line > 0),
        level: Level::Error,
        code: None,
        message: format!("`{other}` is no part of the plugin"),
        help: Some("include the headers of the SDK and of the standard library only".into()),
        snippet: source.line(line),
    };
    Err(ForgeError::Rejected { diagnostics: vec![diagnostic], total: 1 })
}
