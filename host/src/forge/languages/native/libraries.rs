//! Where do the libraries that a plugin is linked with come from? The toolchain carries them as
//! source; they are built once, in the sandbox, from nothing but its own files and the SDK's.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::forge::build::ForgeConfig;
use crate::forge::error::ForgeError;
use crate::forge::language::Language;
use crate::forge::sandbox::{Limits, Sandbox};
use crate::forge::source::io;
use crate::store::Digest;

use super::toolchain::{Toolchain, ZIG};
use super::{clang, messages, sdk, zig};

/// The last file that is made.
const DONE: &str = "done";
/// The compiler's cache, below `/out` and in what is prepared.
const CACHE: &str = "cache";

/// The folder with SDK and libraries for `language`; makes it if the cache does not have it, which
/// takes half a minute for C and C++.
pub(super) fn prepared(
    language: Language,
    toolchain: &Toolchain,
    compiler: Digest,
    config: &ForgeConfig,
) -> Result<PathBuf, ForgeError> {
    let cache = &config.cache_dir;
    let steps = steps(language);
    let key = Digest::of(format!("{compiler}\n{}\n{steps:?}", sdk::digest(language)).as_bytes());
    let target = cache.join(format!("{language}-{}", key.hex()));
    if target.join(DONE).is_file() {
        return Ok(target);
    }
    std::fs::create_dir_all(cache).map_err(|error| io("make", cache, error))?;
    let work = tempfile::tempdir_in(cache).map_err(|error| io("make a folder in", cache, error))?;
    let (output, place) = (work.path().join("output"), work.path().join("sdk"));
    for dir in [&output, &place, &place.join("lib")] {
        std::fs::create_dir(dir).map_err(|error| io("make", dir, error))?;
    }
    for (name, text) in sdk::files(language) {
        let path = place.join(name);
        std::fs::write(&path, text).map_err(|error| io("write", &path, error))?;
    }

    if language == Language::Zig {
        let empty = place.join(zig::EMPTY);
        std::fs::write(&empty, "").map_err(|error| io("write", &empty, error))?;
    }
    if language == Language::Cpp {
        // The C library is the same.
        let c = prepared(Language::C, toolchain, compiler, config)?;
        copy_all(&c.join(CACHE), &output.join(CACHE))?;
    }

    // All of this is our own and its time does not depend on the plugin.
    let limits = Limits { time: Duration::from_secs(900), ..config.limits() };
    let mut sandbox = toolchain.sandbox(limits, &output);
    sandbox.writable(&place, "/sdk").many_open_files();
    for (number, step) in steps.iter().enumerate() {
        run(&sandbox, step, limits)?;
        if number == 0 {
            take_archives(&output.join("cache/o"), &place.join("lib"))?;
        }
    }
    // What the compiler worked out and may use again.
    let keep = match language {
        Language::C => Some(CACHE),
        Language::Zig => Some(zig::KNOWN),
        _ => None,
    };
    if let Some(folder) = keep {
        let (from, to) = (output.join(folder), place.join(folder));
        std::fs::create_dir_all(place.join(CACHE)).map_err(|error| io("make", &place, error))?;
        std::fs::rename(&from, &to).map_err(|error| io("move", &from, error))?;
    }
    let done = place.join(DONE);
    std::fs::write(&done, "").map_err(|error| io("write", &done, error))?;
    // Another process may have been faster: its result is the same.
    match std::fs::rename(&place, &target) {
        Err(error) if !target.join(DONE).is_file() => Err(io("write", &target, error)),
        _ => Ok(target),
    }
}

/// The commands, in order. The first one makes the toolchain build its libraries.
fn steps(language: Language) -> Vec<Vec<&'static str>> {
    if language == Language::Zig {
        return vec![zig::LIBRARIES.to_vec(), zig::check_of_the_sdk()];
    }
    let mut steps = vec![clang::libraries(language)];
    let mut archive = vec![ZIG, "ar", "rcsD", "/sdk/lib/libtandem.a"];
    for (name, _) in sdk::files(language) {
        let (object, own) = match name {
            "abi.c" => ("/out/abi.o", Language::C),
            "json.c" => ("/out/json.o", Language::C),
            "text.c" => ("/out/text.o", Language::C),
            "libcpp.cpp" => ("/out/libcpp.o", Language::Cpp),
            _ => continue,
        };
        let mut step = clang::compiler(own);
        step.extend(["-c", name, "-o", object]);
        steps.push(step);
        archive.push(object);
    }
    steps.push(archive);
    if language == Language::Cpp {
        steps.push(clang::precompile());
    }
    steps
}

fn run(sandbox: &Sandbox, step: &[&str], limits: Limits) -> Result<(), ForgeError> {
    let ended = sandbox.run("/sdk", step)?;
    if ended.status.success() { Ok(()) } else { Err(messages::failure(&ended, limits, None)) }
}

/// Copies a folder with all that is in it.
pub(super) fn copy_all(from: &Path, to: &Path) -> Result<(), ForgeError> {
    std::fs::create_dir_all(to).map_err(|error| io("make", to, error))?;
    for entry in std::fs::read_dir(from).map_err(|error| io("read", from, error))? {
        let entry = entry.map_err(|error| io("read", from, error))?;
        let (path, copy) = (entry.path(), to.join(entry.file_name()));
        if path.is_dir() {
            copy_all(&path, &copy)?;
        } else {
            std::fs::copy(&path, copy).map_err(|error| io("copy", &path, error))?;
        }
    }
    Ok(())
}

/// Copies the libraries out of the toolchain's cache, where each lies in a folder of its own.
fn take_archives(cache: &Path, to: &Path) -> Result<(), ForgeError> {
    for entry in std::fs::read_dir(cache).map_err(|error| io("read", cache, error))? {
        let folder = entry.map_err(|error| io("read", cache, error))?.path();
        for file in std::fs::read_dir(&folder).map_err(|error| io("read", &folder, error))? {
            let from = file.map_err(|error| io("read", &folder, error))?.path();
            let name = from.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if name == "crt1-reactor.o" || name.ends_with(".a") {
                std::fs::copy(&from, to.join(name)).map_err(|error| io("copy", &from, error))?;
            }
        }
    }
    Ok(())
}

/// The libraries, for a record of what a component was made of.
pub(super) fn archives(prepared: &Path) -> Result<Vec<PathBuf>, ForgeError> {
    let dir = prepared.join("lib");
    std::fs::read_dir(&dir)
        .and_then(|entries| entries.map(|entry| entry.map(|entry| entry.path())).collect())
        .map_err(|error| io("read", &dir, error))
}
