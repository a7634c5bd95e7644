//! What do the languages have in common whose own tools make the component? A script of ours runs in
//! the sandbox and says in `result.json` what it found.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::{Artifact, Job};
use crate::forge::componentize::CONTRACT;
use crate::forge::diagnostics::{Diagnostic, first};
use crate::forge::error::ForgeError;
use crate::forge::sandbox::Ended;
use crate::forge::source::io;
use crate::store::Digest;

/// Files that this program carries: path and content.
pub(super) type Files = &'static [(&'static str, &'static str)];

/// Of names and contents.
pub(super) fn digest(files: Files) -> Digest {
    let mut bytes = Vec::new();
    for (name, text) in files {
        bytes.extend(format!("{name} {}\n{text}", text.len()).into_bytes());
    }
    Digest::of(&bytes)
}

/// The folder `name` in the cache, with what `make` puts into it: the SDK's files and the contract
/// first. Made whole or not at all.
pub(super) fn prepared(
    cache: &Path,
    name: &str,
    files: Files,
    make: impl FnOnce(&Path) -> Result<(), ForgeError>,
) -> Result<PathBuf, ForgeError> {
    let target = cache.join(name);
    if target.is_dir() {
        return Ok(target);
    }
    let work = tempfile::tempdir_in(cache).map_err(|error| io("make a folder in", cache, error))?;
    for (name, text) in files.iter().chain(&[("harness.wit", CONTRACT)]) {
        let path = work.path().join(name);
        let dir = path.parent().unwrap_or(work.path());
        std::fs::create_dir_all(dir).map_err(|error| io("make", dir, error))?;
        std::fs::write(&path, text).map_err(|error| io("write", &path, error))?;
    }
    make(work.path())?;
    let made = work.keep();
    match std::fs::rename(&made, &target) {
        Ok(()) => Ok(target),
        Err(error) => {
            _ = std::fs::remove_dir_all(&made);
            // Another process was faster: its result is the same.
            if target.is_dir() { Ok(target) } else { Err(io("write", &target, error)) }
        }
    }
}

/// Installs packages into the folder `name` of the tools: `files` first, then what `steps` run there.
/// Made whole or not at all; what was there before is gone.
pub(super) fn install(
    tools: &Path,
    name: &str,
    files: Files,
    steps: impl FnOnce(&Path) -> Result<(), ForgeError>,
) -> Result<PathBuf, ForgeError> {
    std::fs::create_dir_all(tools).map_err(|error| io("make", tools, error))?;
    let work = tempfile::tempdir_in(tools).map_err(|error| io("make a folder in", tools, error))?;
    let made = work.path().join(name);
    std::fs::create_dir(&made).map_err(|error| io("make", &made, error))?;
    for (name, text) in files {
        let path = made.join(name);
        std::fs::write(&path, text).map_err(|error| io("write", &path, error))?;
    }
    steps(&made)?;
    let (target, old) = (tools.join(name), work.path().join("old"));
    if target.exists() {
        std::fs::rename(&target, &old).map_err(|error| io("move", &target, error))?;
    }
    std::fs::rename(&made, &target).map_err(|error| io("write", &target, error))?;
    Ok(target)
}

/// Runs one program of an installation in `dir`.
pub(super) fn step(dir: &Path, program: &Path, arguments: &[&str]) -> Result<(), ForgeError> {
    let name = program.display();
    let output = std::process::Command::new(program).args(arguments).current_dir(dir).output();
    let (why, help) = match output {
        Ok(output) if output.status.success() => return Ok(()),
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stderr);
            let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
            let last = lines[lines.len().saturating_sub(3)..].join("\n");
            (format!("failed:\n{last}"), "check the network and the free space, then try again")
        }
        Err(error) => (format!("cannot be run: {error}"), "install it, then try again"),
    };
    Err(ForgeError::Toolchain { what: format!("`{name} {}` {why}", arguments.join(" ")), help: help.into() })
}

/// What pip installs from a file of requirements with hashes, and nothing else.
pub(super) const PIP: [&str; 9] = [
    "-m",
    "pip",
    "install",
    "--quiet",
    "--disable-pip-version-check",
    "--require-hashes",
    "--no-deps",
    "--only-binary=:all:",
    "--no-compile",
];

/// Installs the wheels of `files`, a file `requirements.txt` with hashes, into the folder `name` of the tools.
pub(super) fn install_wheels(tools: &Path, name: &str, files: Files) -> Result<PathBuf, ForgeError> {
    install(tools, name, files, |dir| {
        let pip = [&PIP[..], &["--target", ".", "-r", "requirements.txt"]].concat();
        step(dir, Path::new("python3"), &pip)
    })
}

/// Whether the folder `name` of the tools was installed from these `files`.
pub(super) fn is_installed(tools: &Path, name: &str, files: Files) -> bool {
    let same = |(file, text): &(&str, &str)| {
        std::fs::read_to_string(tools.join(name).join(file)).is_ok_and(|found| found == *text)
    };
    files.iter().all(same)
}

/// What a script wrote.
#[derive(Deserialize)]
struct Found {
    diagnostics: Vec<Diagnostic>,
}

/// The component, or why there is none.
pub(super) fn artifact(ended: &Ended, job: &Job<'_>, tool: &str) -> Result<Artifact, ForgeError> {
    if ended.timed_out {
        let limit_s = job.limits.time.as_secs_f64();
        return Err(ForgeError::TimedOut { seconds: ended.seconds, limit_s });
    }
    let result = job.output.join("result.json");
    let found = std::fs::read(&result).ok().filter(|_| ended.status.success());
    let Some(found) = found.and_then(|bytes| serde_json::from_slice::<Found>(&bytes).ok()) else {
        return Err(failure(ended, job, tool));
    };
    if !found.diagnostics.is_empty() {
        let named = found.diagnostics.into_iter().map(|mut diagnostic| {
            if !diagnostic.file.is_empty() {
                diagnostic.file.clone_from(&job.source.root_name);
            }
            diagnostic
        });
        let (diagnostics, total) = first(named.collect());
        return Err(ForgeError::Rejected { diagnostics, total });
    }
    let component = job.output.join("plugin.wasm");
    std::fs::read(&component).map(Artifact::Component).map_err(|error| io("read", &component, error))
}

/// The tool ended without a result.
fn failure(ended: &Ended, job: &Job<'_>, tool: &str) -> ForgeError {
    let text = String::from_utf8_lossy(&ended.stderr);
    let signs = ["out of memory", "MemoryError", "Cannot allocate memory", "memory allocation of"];
    if signs.iter().any(|sign| text.contains(sign)) {
        return ForgeError::OutOfMemory { asked: None, limit: job.limits.memory };
    }
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let status = match ended.status.code() {
        Some(code) => format!("exit code {code}"),
        None => "stopped by a signal".into(),
    };
    ForgeError::Compiler {
        status,
        stderr: lines[lines.len().saturating_sub(5)..].join("\n"),
        help: format!(
            "simplify the source; if a trivial plugin fails too, install again: tandem plugin tools {tool}"
        ),
    }
}
