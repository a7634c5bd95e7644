//! Where do Go's standard library and the SDK come from, compiled for WebAssembly?
//!
//! Both are made once, in the sandbox, by the toolchain that builds the plugins. After that a
//! plugin needs the compiler and the linker alone: no `go` command, no module, no build cache.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::messages::said;
use super::toolchain::Toolchain;
use crate::forge::error::ForgeError;
use crate::forge::sandbox::{Ended, Limits, Sandbox};
use crate::forge::source::io;
use crate::store::Digest;

/// Files of the SDK with their paths, carried in this program.
macro_rules! carried {
    ($($path:literal),* $(,)?) => {
        &[$(($path, include_str!(concat!("../../../../../plugins/sdk-go/", $path)))),*]
    };
}

const FILES: &[(&str, &str)] = carried![
    "clock/clock.go",
    "exec/exec.go",
    "internal/abi/abi.go",
    "internal/abi/workspace.go",
    "json/json.go",
    "log/log.go",
    "points/observe.go",
    "points/on_choose_patch.go",
    "points/on_episode_start.go",
    "points/on_format_error.go",
    "points/on_limit.go",
    "points/on_loop.go",
    "points/on_model_call.go",
    "points/on_submit.go",
    "points/on_tool_call.go",
    "points/on_tool_result.go",
    "points/points.go",
    "points/settings_schema.go",
    "points/tools.go",
    "random/random.go",
    "settings/settings.go",
    "state/state.go",
    "tandem.go",
    "workspace/workspace.go",
];

/// The SDK's packages, each after those that it imports.
const SDK: [&str; 10] = [
    "tandem/json",
    "tandem",
    "tandem/internal/abi",
    "tandem/clock",
    "tandem/exec",
    "tandem/log",
    "tandem/random",
    "tandem/settings",
    "tandem/state",
    "tandem/workspace",
];

/// What a plugin may import of the standard library: what makes sense without files, network and
/// processes. Their dependencies come along.
pub(super) const PACKAGES: &str = "bufio bytes cmp compress/flate compress/gzip compress/zlib \
    container/heap container/list container/ring context crypto/hmac crypto/md5 crypto/sha1 crypto/sha256 \
    crypto/sha512 encoding/base32 encoding/base64 encoding/binary encoding/csv encoding/hex encoding/json \
    encoding/xml errors fmt go/ast go/format go/parser go/token hash/adler32 hash/crc32 hash/crc64 hash/fnv \
    hash/maphash html io io/fs iter log maps math math/big math/bits math/cmplx math/rand math/rand/v2 \
    net/url os path path/filepath reflect regexp regexp/syntax runtime runtime/debug slices sort strconv \
    strings sync sync/atomic text/scanner text/tabwriter text/template time unicode unicode/utf16 \
    unicode/utf8 unique unsafe";

/// What every compiled package depends on beside its source.
const FLAGS: [&str; 3] = ["-pack", "-e", "-c=2"];

/// Compiled packages, mounted at `/prepared`.
pub(super) struct Prepared {
    pub dir: PathBuf,
}

impl Prepared {
    /// The compiled packages; compiles them if they are not in the cache (about 20 s).
    pub fn find(cache: &Path, toolchain: &Toolchain, compiler: Digest) -> Result<Self, ForgeError> {
        let key = format!("{compiler}\n{}\n{SDK:?}{PACKAGES}{FLAGS:?}\n{}", toolchain.version, source());
        let dir = cache.join(format!("go-{}", Digest::of(key.as_bytes()).hex()));
        if !dir.is_dir() {
            std::fs::create_dir_all(cache).map_err(|error| io("make", cache, error))?;
            let work = tempfile::tempdir_in(cache).map_err(|error| io("make a folder in", cache, error))?;
            let made = work.path().join("prepared");
            prepare(&made, toolchain)?;
            // Another process may have been faster: its result is the same.
            match std::fs::rename(&made, &dir) {
                Err(error) if !dir.is_dir() => return Err(io("write", &dir, error)),
                _ => {}
            }
        }
        Ok(Self { dir })
    }

    /// All archives that a plugin may be linked with.
    pub fn archives(&self) -> Result<Vec<PathBuf>, ForgeError> {
        let (mut files, mut folders) = (Vec::new(), vec![self.dir.join("archives")]);
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(&folder).map_err(|error| io("read", &folder, error))? {
                let path = entry.map_err(|error| io("read", &folder, error))?.path();
                if path.is_dir() { folders.push(path) } else { files.push(path) }
            }
        }
        Ok(files)
    }
}

/// Fills a folder: `archives/`, `points/`, and which archive belongs to which import.
fn prepare(dir: &Path, toolchain: &Toolchain) -> Result<(), ForgeError> {
    for (name, text) in FILES {
        write(&dir.join("sdk").join(name), text)?;
    }
    let standard = standard_library(dir, toolchain)?;
    let all: String = standard.iter().map(|name| packagefile(name)).collect();
    let (mut link, mut import) = (all.clone(), String::new());
    for name in PACKAGES.split(' ').filter(|name| standard.iter().any(|known| known == name)) {
        import += &packagefile(name);
    }
    for package in SDK {
        write(&dir.join("importcfg"), &link)?;
        compile_sdk(dir, toolchain, package)?;
        link += &packagefile(package);
        if !package.contains("internal") {
            import += &packagefile(package);
        }
    }
    write(&dir.join("link.cfg"), &link)?;
    write(&dir.join("plugin.cfg"), &import)?;
    std::fs::rename(dir.join("sdk/points"), dir.join("points"))
        .map_err(|error| io("move", &dir.join("sdk/points"), error))
}

fn packagefile(name: &str) -> String {
    format!("packagefile {name}=/prepared/archives/{name}.a\n")
}

fn write(path: &Path, text: &str) -> Result<(), ForgeError> {
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent).map_err(|error| io("make", parent, error))?;
    }
    std::fs::write(path, text).map_err(|error| io("write", path, error))
}

/// The SDK and the standard library are not the plugin's doing, and neither is their time.
const LIMITS: Limits = Limits { time: Duration::from_secs(600), memory: 3 << 30, file: 256 << 20 };

/// Compiles the standard library into `archives/`; the names of all its packages.
fn standard_library(dir: &Path, toolchain: &Toolchain) -> Result<Vec<String>, ForgeError> {
    let cache = dir.join("cache");
    std::fs::create_dir_all(&cache).map_err(|error| io("make", &cache, error))?;
    let mut sandbox = Sandbox::new(&toolchain.bwrap, LIMITS);
    sandbox.reserves_address_space().keeps_output();
    sandbox.read_only(&toolchain.root, "/go").writable(&cache, "/cache");
    for (name, value) in [
        ("GOROOT", "/go"),
        ("GOCACHE", "/cache"),
        ("GOPATH", "/tmp/go"),
        ("HOME", "/tmp"),
        ("GOENV", "off"),
        ("GOTOOLCHAIN", "local"),
        ("GOPROXY", "off"),
        ("GO111MODULE", "off"),
        ("CGO_ENABLED", "0"),
        ("GOOS", "wasip1"),
        ("GOARCH", "wasm"),
    ] {
        sandbox.env(name, value);
    }
    let listed = "{{if .Export}}{{.ImportPath}}={{.Export}}{{end}}";
    let mut program = vec!["/go/bin/go", "list", "-trimpath", "-export", "-deps", "-f", listed];
    program.extend(PACKAGES.split(' '));
    let ended = sandbox.run("/tmp", &program)?;
    if !ended.status.success() {
        return Err(broken("the standard library", &ended));
    }
    let mut names = Vec::new();
    for line in String::from_utf8_lossy(&ended.stdout).lines() {
        let Some((name, path)) = line.split_once('=') else { continue };
        let Some(path) = path.strip_prefix("/cache/") else { continue };
        let archive = dir.join("archives").join(format!("{name}.a"));
        if let Some(parent) = archive.parent() {
            std::fs::create_dir_all(parent).map_err(|error| io("make", parent, error))?;
        }
        std::fs::rename(cache.join(path), &archive).map_err(|error| io("move", &archive, error))?;
        names.push(name.to_owned());
    }
    std::fs::remove_dir_all(&cache).map_err(|error| io("remove", &cache, error))?;
    Ok(names)
}

fn compile_sdk(dir: &Path, toolchain: &Toolchain, package: &str) -> Result<(), ForgeError> {
    let folder = format!("sdk{}", package.strip_prefix("tandem").unwrap_or_default());
    let prefix = format!("{folder}/");
    let inside = format!("/prepared/{folder}");
    let output = format!("/prepared/archives/{package}.a");
    let archive = dir.join("archives").join(format!("{package}.a"));
    if let Some(parent) = archive.parent() {
        std::fs::create_dir_all(parent).map_err(|error| io("make", parent, error))?;
    }
    let trim = format!("-trimpath={inside}=>{package}");
    let mut program = vec!["/tool/compile", "-p", package, "-importcfg=/prepared/importcfg", &trim];
    program.extend(FLAGS);
    program.extend(["-o", &output]);
    program.extend(
        FILES
            .iter()
            .filter(|(name, _)| {
                format!("sdk/{name}").strip_prefix(&prefix).is_some_and(|rest| !rest.contains('/'))
            })
            .filter_map(|(name, _)| name.rsplit('/').next()),
    );
    let mut sandbox = compiler_sandbox(toolchain, LIMITS);
    sandbox.writable(dir, "/prepared");
    let ended = sandbox.run(&inside, &program)?;
    if ended.status.success() { Ok(()) } else { Err(broken(&format!("the SDK's `{package}`"), &ended)) }
}

fn broken(what: &str, ended: &Ended) -> ForgeError {
    // Of `go list` the output is a list of names, which is of no use here.
    let text = said(ended);
    let lines: Vec<&str> =
        text.lines().filter(|line| !line.is_empty() && !line.contains("=/cache/")).take(8).collect();
    ForgeError::Toolchain {
        what: format!("Go could not compile {what}:\n{}", lines.join("\n")),
        help: "install the toolchain again: tandem plugin tools go".into(),
    }
}

/// A sandbox with the compiler and the linker, and nothing else.
pub(super) fn compiler_sandbox(toolchain: &Toolchain, limits: Limits) -> Sandbox {
    let mut sandbox = Sandbox::new(&toolchain.bwrap, limits);
    sandbox.reserves_address_space().keeps_output().read_only(&toolchain.tools, "/tool");
    sandbox.env("GOOS", "wasip1").env("GOARCH", "wasm");
    sandbox
}

/// Flags of every compiler run.
pub(super) fn flags() -> &'static [&'static str] {
    &FLAGS
}

/// Of the SDK's source.
pub(super) fn source() -> Digest {
    let mut bytes = Vec::new();
    for (name, text) in FILES {
        bytes.extend(format!("{name} {}\n{text}", text.len()).into_bytes());
    }
    Digest::of(&bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_of_the_sdk_is_carried() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../plugins/sdk-go");
        let (mut on_disk, mut folders) = (Vec::new(), vec![root.clone()]);
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.extension().is_some_and(|extension| extension == "go") {
                    on_disk.push(path.strip_prefix(&root).unwrap().to_str().unwrap().to_owned());
                }
            }
        }
        on_disk.sort();
        let carried: Vec<&str> = FILES.iter().map(|(name, _)| *name).collect();
        assert_eq!(on_disk, carried);
    }
}
