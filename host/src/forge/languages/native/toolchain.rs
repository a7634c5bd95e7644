//! Where is the Zig compiler, and in which sandbox does it run?

use std::path::{Path, PathBuf};

use crate::forge::build::ForgeConfig;
use crate::forge::error::ForgeError;
use crate::forge::language::Language;
use crate::forge::languages::script;
use crate::forge::sandbox::{Limits, Sandbox};
use crate::forge::source::io;

/// The version that is built with, and no other: `plugins/sdk-zig/requirements.txt` pins it.
pub(super) const VERSION: &str = "0.17.1";

const REQUIREMENTS: script::Files =
    &[("requirements.txt", include_str!("../../../../../plugins/sdk-zig/requirements.txt"))];

/// The compiler in the sandbox.
pub(super) const ZIG: &str = "/zig/zig";

#[derive(Clone, Debug)]
pub(super) struct Toolchain {
    /// The folder with the program `zig` and its `lib`.
    dir: PathBuf,
    bwrap: PathBuf,
}

impl Toolchain {
    /// Looks in the folder into which `tandem plugin tools zig` installs; C and C++ use the same.
    pub fn find(language: Language, config: &ForgeConfig) -> Result<Self, ForgeError> {
        let dir = config.tools_dir.join("zig/ziglang");
        let whole =
            script::is_installed(&config.tools_dir, "zig", REQUIREMENTS) && dir.join("lib/std").is_dir();
        if !whole || !dir.join("zig").is_file() {
            return Err(ForgeError::Toolchain {
                what: format!(
                    "the compiler of {language} (Zig {VERSION}, with its clang) is not in `{}`",
                    dir.display()
                ),
                help: format!("tandem plugin tools {language}"),
            });
        }
        Ok(Self { dir, bwrap: config.bwrap.clone() })
    }

    /// Installs the wheel that has it.
    pub fn install(config: &ForgeConfig) -> Result<PathBuf, ForgeError> {
        let dir = script::install_wheels(&config.tools_dir, "zig", REQUIREMENTS)?;
        // The wheel leaves it to its own start script to make the program one.
        let program = dir.join("ziglang/zig");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&program, mode)
            .map_err(|error| io("change the mode of", &program, error))?;
        Ok(dir)
    }

    /// What its output depends on: the program, and the sources and headers that it reads itself.
    pub fn files(&self) -> Result<Vec<PathBuf>, ForgeError> {
        let mut files = vec![self.dir.join("zig")];
        for folder in [
            "compiler_rt",
            "include",
            "libc/include/generic-musl",
            "libc/include/wasm-wasi-musl",
            "libcxx/include",
            "libcxxabi/include",
            "std",
        ] {
            collect(&self.dir.join("lib").join(folder), &mut files)?;
        }
        Ok(files)
    }

    /// A sandbox in which the compiler runs, and nothing else is. `output` is its only folder for
    /// writing.
    pub fn sandbox(&self, limits: Limits, output: &Path) -> Sandbox {
        let mut sandbox = Sandbox::new(&self.bwrap, limits);
        sandbox
            .read_only(&self.dir, "/zig")
            .writable(output, "/out")
            // It looks for its own path there. All of `/proc` would show this machine.
            .link(ZIG, "/proc/self/exe")
            .env("ZIG_LIB_DIR", "/zig/lib")
            .env("ZIG_GLOBAL_CACHE_DIR", "/out/cache")
            .env("ZIG_LOCAL_CACHE_DIR", "/out/cache")
            // For `__DATE__` and its like: the same source gives the same bytes.
            .env("SOURCE_DATE_EPOCH", "0");
        sandbox
    }
}

fn collect(dir: &Path, files: &mut Vec<PathBuf>) -> Result<(), ForgeError> {
    let failed = |error| io("read", dir, error);
    for entry in std::fs::read_dir(dir).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if entry.file_type().map_err(failed)?.is_dir() {
            collect(&entry.path(), files)?;
        } else {
            files.push(entry.path());
        }
    }
    Ok(())
}
