//! Where does the compiled SDK come from?

use std::path::{Path, PathBuf};

use crate::store::Digest;

use super::failure;
use super::toolchain::{TARGET, Toolchain};
use crate::forge::error::ForgeError;
use crate::forge::sandbox::{Limits, Sandbox};
use crate::forge::source::{ROOT, io};

/// The SDK's source, carried in this program.
const FILES: &[(&str, &str)] = &[
    ("lib.rs", include_str!("../../../../../plugins/sdk/src/lib.rs")),
    ("bindings.rs", include_str!("../../../../../plugins/sdk/src/bindings.rs")),
    ("capabilities.rs", include_str!("../../../../../plugins/sdk/src/capabilities.rs")),
    ("json.rs", include_str!("../../../../../plugins/sdk/src/json.rs")),
    ("rt.rs", include_str!("../../../../../plugins/sdk/src/rt.rs")),
    ("shell.rs", include_str!("../../../../../plugins/sdk/src/shell.rs")),
];

/// The compiled SDK's file name.
pub(super) const RLIB: &str = "libtandem_plugin.rlib";

/// Flags of the SDK and of plugins: small code, no unwinding, one order of code.
pub(super) const CODE_FLAGS: &[&str] = &[
    "--target",
    TARGET,
    "-Copt-level=s",
    "-Cpanic=abort",
    "-Ccodegen-units=1",
    "-Cdebuginfo=0",
    "--error-format=json",
];

/// An absolute name tells the SDK's own places in messages from the plugin's.
const PROGRAM: &[&str] = &[
    "/rust/bin/rustc",
    "--sysroot=/rust",
    "--edition=2024",
    "--crate-name=tandem_plugin",
    "--crate-type=rlib",
    "--out-dir=/out",
    "/sdk/lib.rs",
];

/// The folder with the SDK compiled by `toolchain`; compiles it if it is not in the cache.
pub(super) fn compiled(cache: &Path, toolchain: &Toolchain, limits: Limits) -> Result<PathBuf, ForgeError> {
    let target = cache.join(format!("sdk-{}", key(toolchain).hex()));
    if target.join(RLIB).is_file() {
        return Ok(target);
    }
    std::fs::create_dir_all(cache).map_err(|error| io("make", cache, error))?;
    let work = tempfile::tempdir_in(cache).map_err(|error| io("make a folder in", cache, error))?;
    let (source, output) = (work.path().join("source"), work.path().join("output"));
    for dir in [&source, &output] {
        std::fs::create_dir(dir).map_err(|error| io("make", dir, error))?;
    }
    for (name, text) in FILES {
        let path = source.join(name);
        std::fs::write(&path, text).map_err(|error| io("write", &path, error))?;
    }

    let mut sandbox = compiler_sandbox(toolchain, limits);
    sandbox.read_only(&source, "/sdk").writable(&output, "/out");
    let program: Vec<&str> = [PROGRAM, CODE_FLAGS].concat();
    let ended = sandbox.run("/", &program)?;
    if !ended.status.success() {
        return Err(failure(&ended, limits, ROOT));
    }
    // Another process may have been faster: its result is the same.
    match std::fs::rename(&output, &target) {
        Err(error) if !target.join(RLIB).is_file() => Err(io("write", &target, error)),
        _ => Ok(target),
    }
}

/// A sandbox in which the toolchain's compiler runs, and nothing else is.
pub(super) fn compiler_sandbox(toolchain: &Toolchain, limits: Limits) -> Sandbox {
    let mut sandbox = Sandbox::new(&toolchain.bwrap, limits);
    // Without /proc the loader cannot resolve `$ORIGIN`, hence the library path.
    sandbox
        .read_only(&toolchain.sysroot, "/rust")
        .env("PATH", "/rust/bin")
        .env("LD_LIBRARY_PATH", "/rust/lib");
    sandbox
}

/// Of the SDK's source.
pub(super) fn source() -> Digest {
    let mut bytes = Vec::new();
    for (name, text) in FILES {
        bytes.extend(format!("{name} {}\n{text}", text.len()).into_bytes());
    }
    Digest::of(&bytes)
}

/// What the compiled SDK depends on: its source, the compiler, the flags.
fn key(toolchain: &Toolchain) -> Digest {
    let parts = format!("{}\n{PROGRAM:?}{CODE_FLAGS:?}\n{}", toolchain.version, source());
    Digest::of(parts.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bindings_are_current_for_the_contract() {
        let contract = include_bytes!("../../../../../wit/harness.wit");
        let expected = format!("// wit-sha256: {}", Digest::of(contract).hex());
        let bindings = include_str!("../../../../../plugins/sdk/src/bindings.rs");
        assert!(
            bindings.lines().any(|line| line == expected),
            "wit/harness.wit changed: run plugins/sdk/generate.sh"
        );
    }

    #[test]
    fn every_file_of_the_sdk_is_carried() {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../plugins/sdk/src");
        let mut on_disk: Vec<String> = std::fs::read_dir(dir)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        let mut carried: Vec<String> = FILES.iter().map(|(name, _)| (*name).to_owned()).collect();
        on_disk.sort();
        carried.sort();
        assert_eq!(on_disk, carried);
    }
}
