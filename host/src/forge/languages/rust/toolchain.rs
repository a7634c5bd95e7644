//! Which compiler builds plugins, and is everything that it needs there?

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::forge::error::ForgeError;
use crate::forge::source::io;

/// The target of every plugin.
pub(super) const TARGET: &str = "wasm32-wasip2";

/// A Rust toolchain with the target, and bubblewrap.
#[derive(Clone, Debug)]
pub(super) struct Toolchain {
    pub sysroot: PathBuf,
    pub bwrap: PathBuf,
    /// All of `rustc -vV`.
    pub version: String,
}

impl Toolchain {
    /// Finds it through `rustc --print sysroot`, which rustup answers too.
    pub fn find(rustc: &Path, bwrap: &Path) -> Result<Self, ForgeError> {
        let sysroot = PathBuf::from(ask(rustc, &["--print", "sysroot"])?.trim());
        let sysroot = sysroot.canonicalize().map_err(|error| io("read", &sysroot, error))?;
        // The compiler of that sysroot, not the `rustc` that was asked: that may be a proxy.
        let version = ask(&sysroot.join("bin/rustc"), &["-vV"])?;

        if !sysroot.join("lib/rustlib").join(TARGET).join("lib").is_dir() {
            return Err(ForgeError::Toolchain {
                what: format!("the Rust toolchain in `{}` has no target {TARGET}", sysroot.display()),
                help: format!("rustup target add {TARGET}"),
            });
        }
        Ok(Self { sysroot, bwrap: bwrap.to_owned(), version })
    }

    /// What its output depends on: the compiler, its libraries, the linker and the target's standard library.
    pub fn files(&self) -> Result<Vec<PathBuf>, ForgeError> {
        let host = self.version.lines().find_map(|line| line.strip_prefix("host: ")).unwrap_or_default();
        let rustlib = self.sysroot.join("lib/rustlib");
        let mut files = vec![self.sysroot.join("bin/rustc"), rustlib.join(host).join("bin/rust-lld")];
        for (dir, marks) in [
            (self.sysroot.join("lib"), &["librustc_driver", "libLLVM"][..]),
            (rustlib.join(TARGET).join("lib"), &[""][..]),
        ] {
            for entry in std::fs::read_dir(&dir).map_err(|error| io("read", &dir, error))? {
                let path = entry.map_err(|error| io("read", &dir, error))?.path();
                let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                if marks.iter().any(|mark| name.starts_with(mark)) && path.is_file() {
                    files.push(path);
                }
            }
        }
        files.retain(|file| file.is_file());
        Ok(files)
    }

    /// The line for people: `rustc 1.95.0 (… 2026-04-14)`.
    pub fn line(&self) -> String {
        self.version.lines().next().unwrap_or_default().to_owned()
    }
}

fn ask(rustc: &Path, arguments: &[&str]) -> Result<String, ForgeError> {
    let missing = |why: String| ForgeError::Toolchain {
        what: format!("the Rust compiler (`{}`) cannot be run: {why}", rustc.display()),
        help: format!("install Rust with rustup, then: rustup target add {TARGET}"),
    };
    let output = Command::new(rustc).args(arguments).output().map_err(|error| missing(error.to_string()))?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        return Err(missing(text.lines().next().unwrap_or("no message").to_owned()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
