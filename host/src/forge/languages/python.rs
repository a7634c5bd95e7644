//! How does Python become a component? The machine's Python reads the one file in the sandbox, and
//! componentize-py puts it into a CPython; see `plugins/sdk-python/forge.py`.
//!
//! The same source gives a component that does the same, since the seeds in it are fixed. Its bytes are
//! the same but for about 200 of 18 million: CPython's memory, which the component starts from, has the
//! times of the files that it read.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::script::{self, Files};
use super::{Artifact, Job, Toolset};
use crate::forge::build::ForgeConfig;
use crate::forge::error::ForgeError;
use crate::forge::files;
use crate::forge::provenance::Tool;
use crate::forge::sandbox::{Limits, Sandbox};
use crate::store::Digest;

/// The SDK, carried in this program.
const FILES: Files = &[
    ("forge.py", include_str!("../../../../plugins/sdk-python/forge.py")),
    ("tandem/__init__.py", include_str!("../../../../plugins/sdk-python/tandem/__init__.py")),
    ("tandem/_host.py", include_str!("../../../../plugins/sdk-python/tandem/_host.py")),
    ("tandem/_shim.py", include_str!("../../../../plugins/sdk-python/tandem/_shim.py")),
    ("tandem/clock.py", include_str!("../../../../plugins/sdk-python/tandem/clock.py")),
    ("tandem/exec.py", include_str!("../../../../plugins/sdk-python/tandem/exec.py")),
    ("tandem/log.py", include_str!("../../../../plugins/sdk-python/tandem/log.py")),
    ("tandem/random.py", include_str!("../../../../plugins/sdk-python/tandem/random.py")),
    ("tandem/settings.py", include_str!("../../../../plugins/sdk-python/tandem/settings.py")),
    ("tandem/state.py", include_str!("../../../../plugins/sdk-python/tandem/state.py")),
    ("tandem/workspace_read.py", include_str!("../../../../plugins/sdk-python/tandem/workspace_read.py")),
    ("tandem/workspace_write.py", include_str!("../../../../plugins/sdk-python/tandem/workspace_write.py")),
];

/// What pip installs.
const REQUIREMENTS: Files =
    &[("requirements.txt", include_str!("../../../../plugins/sdk-python/requirements.txt"))];

/// The oldest Python that reads a plugin as the script does.
const PYTHON: (u32, u32) = (3, 10);
const INSTALL: &str = "tandem plugin tools python";
/// How many times longer than others a build may take: to link CPython and to start it takes 12 s of
/// processor time before any of the author's code runs.
const PATIENCE: u32 = 3;

/// Asks a Python where its program and its library lie. The name in `PATH` is often a link or a shim.
const ASK: &str = "import sys, sysconfig as s; print(sys.version.split()[0]); \
    print(getattr(sys, '_base_executable', sys.executable)); print(s.get_path('stdlib')); \
    print(s.get_config_var('LIBDIR') or '')";

/// Python, componentize-py and the SDK.
pub(super) struct PythonTools {
    bwrap: PathBuf,
    python: Interpreter,
    packages: PathBuf,
    sdk: PathBuf,
    tools: Vec<Tool>,
}

/// A Python of this machine.
struct Interpreter {
    version: String,
    program: PathBuf,
    library: PathBuf,
    /// `libpython`, if the program needs one that is not where the loader looks.
    shared: Option<PathBuf>,
}

impl PythonTools {
    pub fn find(config: &ForgeConfig) -> Result<Self, ForgeError> {
        let packages = config.tools_dir.join("python");
        let wheel = packages.join("componentize_py/componentize_py.abi3.so");
        let asked = std::fs::read_to_string(packages.join("requirements.txt")).unwrap_or_default();
        if !wheel.is_file() || REQUIREMENTS.iter().any(|(_, text)| *text != asked) {
            return Err(ForgeError::Toolchain {
                what: format!("componentize-py, which builds Python, is not in `{}`", packages.display()),
                help: INSTALL.into(),
            });
        }
        let python = Interpreter::find()?;
        let tools = vec![
            Tool {
                name: "python".into(),
                version: python.version.clone(),
                digest: files::digest(std::slice::from_ref(&python.program), &config.cache_dir)?,
            },
            Tool {
                name: "componentize-py".into(),
                version: "0.25.1".into(),
                digest: files::digest(&[wheel], &config.cache_dir)?,
            },
            Tool {
                name: "tandem".into(),
                version: env!("CARGO_PKG_VERSION").into(),
                digest: script::digest(FILES),
            },
        ];
        let digests: String = tools.iter().map(|tool| tool.digest.to_string()).collect();
        let name = format!("python-{}", Digest::of(digests.as_bytes()).hex());
        let sdk = script::prepared(&config.cache_dir, &name, FILES, |_| Ok(()))?;
        Ok(Self { bwrap: config.bwrap.clone(), python, packages, sdk, tools })
    }
}

impl Toolset for PythonTools {
    fn tools(&self) -> &[Tool] {
        &self.tools
    }

    fn compile(&self, job: &Job<'_>) -> Result<Artifact, ForgeError> {
        let limits = Limits { time: job.limits.time * PATIENCE, ..job.limits };
        let job = &Job { limits, ..*job };
        let mut sandbox = Sandbox::new(&self.bwrap, limits);
        sandbox
            .reserves_address_space()
            // The seeds of the component's Python are kept in it, so they must be the same each time.
            .fixed_random()
            .env("PYTHONHASHSEED", "0")
            .read_only(&self.packages, "/packages")
            .read_only(&self.sdk, "/sdk")
            .read_only(job.input, "/plugin")
            .writable(job.output, "/out");
        // At their own places, since that is how Python finds its library.
        for path in [&self.python.program, &self.python.library] {
            sandbox.read_only(path, &path.to_string_lossy());
        }
        if let Some(shared) = &self.python.shared {
            sandbox.read_only(shared, "/python").env("LD_LIBRARY_PATH", "/python");
        }
        let program = self.python.program.to_string_lossy();
        let script = ["/sdk/forge.py", "/sdk", "/packages", "/plugin/plugin.py", "/out"];
        let ended = sandbox.run("/", &[&[&*program, "-I", "-S", "-B"][..], &script].concat())?;
        script::artifact(&ended, job, "python")
    }
}

/// Installs componentize-py.
pub(super) fn install(config: &ForgeConfig) -> Result<PathBuf, ForgeError> {
    let python = Interpreter::find()?;
    script::install(&config.tools_dir, "python", REQUIREMENTS, |dir| {
        let pip = [&script::PIP[..], &["--target", ".", "-r", "requirements.txt"]].concat();
        script::step(dir, &python.program, &pip)
    })
}

impl Interpreter {
    /// `python3` of `PATH`.
    fn find() -> Result<Self, ForgeError> {
        let missing = |what: String| ForgeError::Toolchain {
            what,
            help: format!("install Python {}.{} or newer: apt-get install python3", PYTHON.0, PYTHON.1),
        };
        let none = || missing("Python (`python3`), which builds Python plugins, cannot be run".into());
        let output = Command::new("python3").args(["-I", "-c", ASK]).output().map_err(|_| none())?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let [version, program, library, shared] = text.lines().collect::<Vec<_>>()[..] else {
            return Err(none());
        };
        let mut numbers = version.split('.').map(|number| number.parse().unwrap_or(0));
        if (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) < PYTHON {
            let (major, minor) = PYTHON;
            return Err(missing(format!("Python {version} is too old; {major}.{minor} or newer is needed")));
        }
        let (Ok(program), Ok(library)) =
            (Path::new(program).canonicalize(), Path::new(library).canonicalize())
        else {
            return Err(none());
        };
        // What lies below /lib and /usr/lib is shown by every sandbox.
        let shared = Path::new(shared).canonicalize().ok().filter(|dir| !dir.starts_with("/usr/lib"));
        let shared = shared.filter(|dir| has_libpython(dir));
        Ok(Self { version: version.to_owned(), program, library, shared })
    }
}

fn has_libpython(dir: &Path) -> bool {
    let names = std::fs::read_dir(dir).into_iter().flatten().flatten();
    names.into_iter().any(|entry| entry.file_name().to_string_lossy().starts_with("libpython3"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_of_the_sdk_is_carried() {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../plugins/sdk-python");
        let mut on_disk = Vec::new();
        for folder in ["", "tandem/"] {
            for entry in std::fs::read_dir(dir.join(folder)).unwrap() {
                let entry = entry.unwrap();
                if entry.path().is_file() {
                    on_disk.push(format!("{folder}{}", entry.file_name().into_string().unwrap()));
                }
            }
        }
        let mut carried: Vec<String> =
            FILES.iter().chain(REQUIREMENTS).map(|(name, _)| (*name).to_owned()).collect();
        on_disk.sort();
        carried.sort();
        assert_eq!(on_disk, carried);
    }
}
