//! How does Zig become a core module? The compiler makes an object of the plugin and the SDK, with
//! checks in the code that end the call; lld links it.

use std::path::Path;

use crate::forge::error::ForgeError;

use super::super::Job;
use super::clang::LINK;
use super::libraries::copy_all;
use super::messages;
use super::toolchain::{Toolchain, ZIG};

/// The command that makes the toolchain build the one library that Zig code needs.
pub(super) const LIBRARIES: &[&str] = &[
    ZIG,
    "build-exe",
    "-target",
    "wasm32-freestanding",
    "-OReleaseSmall",
    "-fno-entry",
    "-Mroot=/sdk/imports.zig",
    "-femit-bin=/out/nothing.wasm",
];

/// A plugin without anything, for [`check_of_the_sdk`].
pub(super) const EMPTY: &str = "empty.zig";

/// The part of the compiler's cache with what it knows of source files.
pub(super) const KNOWN: &str = "cache/z";

/// Code without a system. `ReleaseSafe` ends the call on what would be undefined.
const OBJECT: &[&str] = &[
    ZIG,
    "build-obj",
    "-target",
    "wasm32-freestanding",
    "-OReleaseSafe",
    "-fstrip",
    "-fsingle-threaded",
    "-fno-compiler-rt",
    "--color",
    "off",
    "-femit-bin=/out/plugin.o",
    "--dep",
    "tandem",
    "--dep",
    "plugin",
    "-Mroot=/sdk/root.zig",
    "--dep",
    "tandem",
];

/// The names that the linker takes over into the component, if the plugin has them.
const EXPORTS: &[&str] = &[
    "cabi_realloc",
    "tandem:harness/tools@0.1.0#definitions",
    "tandem:harness/tools@0.1.0#call",
    "tandem:harness/settings-schema@0.1.0#settings-schema",
    "tandem:harness/on-episode-start@0.1.0#on-episode-start",
    "tandem:harness/on-model-call@0.1.0#on-model-call",
    "tandem:harness/on-format-error@0.1.0#on-format-error",
    "tandem:harness/on-tool-call@0.1.0#on-tool-call",
    "tandem:harness/on-tool-result@0.1.0#on-tool-result",
    "tandem:harness/on-loop@0.1.0#on-loop",
    "tandem:harness/on-submit@0.1.0#on-submit",
    "tandem:harness/on-choose-patch@0.1.0#on-choose-patch",
    "tandem:harness/on-limit@0.1.0#on-limit",
    "tandem:harness/observe@0.1.0#observe",
];

/// Compiles the SDK with an empty plugin, which leaves in the cache what the compiler knows of the
/// SDK and the standard library.
pub(super) fn check_of_the_sdk() -> Vec<&'static str> {
    let mut command = OBJECT.to_vec();
    command.extend(["-Mplugin=/sdk/empty.zig", "-Mtandem=/sdk/tandem.zig"]);
    command
}

pub(super) fn compile(toolchain: &Toolchain, prepared: &Path, job: &Job<'_>) -> Result<(), ForgeError> {
    let mut sandbox = toolchain.sandbox(job.limits, job.output);
    sandbox.read_only(prepared, "/sdk").read_only(job.input, "/plugin");
    let (file, source) = messages::plugin(job);
    // A copy: what this compiler run writes, no other one reads.
    copy_all(&prepared.join(KNOWN), &job.output.join(KNOWN))?;

    let plugin = format!("-Mplugin={file}");
    let mut command = OBJECT.to_vec();
    command.extend([plugin.as_str(), "-Mtandem=/sdk/tandem.zig"]);
    let mut link = vec![ZIG, "wasm-ld"];
    link.extend(LINK);
    let exports: Vec<_> = EXPORTS.iter().map(|name| format!("--export-if-defined={name}")).collect();
    link.extend(exports.iter().map(String::as_str));
    link.extend(["--no-entry", "/out/plugin.o", "/sdk/lib/libcompiler_rt.a"]);
    for command in [command, link] {
        let ended = sandbox.run("/plugin", &command)?;
        if !ended.status.success() {
            return Err(messages::failure(&ended, job.limits, Some(&source)));
        }
    }
    Ok(())
}
