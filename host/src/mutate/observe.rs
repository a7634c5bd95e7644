//! Which tests of a package pass as it is, and which functions does each run?

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::error::MutateError;
use super::mutations::Place;
use super::package::Package;
use crate::workspace::{Folder, Mount, SandboxCommand, Snapshot, Workspace, WorkspaceConfig};

/// Processor seconds of a test that is left out as slow: it would be run twice for every
/// task, and for every attempt at one. On a busy machine they stay the same.
const SLOW_SECONDS: f64 = 1.0;
/// Wall-clock seconds of a test that is left out since it waits.
const WAITING_SECONDS: f64 = 10.0;

pub(super) const RUNNER: &str = include_str!("python/runner.py");
pub(super) const SETTINGS: &str = include_str!("python/pytest.ini");
pub(super) const MUST_FAIL: &str = include_str!("python/must_fail.py");
/// All that runs in a sandbox beside the package.
pub(super) const PYTHON: [(&str, &str); 6] = [
    ("runner.py", RUNNER),
    ("observe.py", include_str!("python/observe.py")),
    ("facts.py", include_str!("python/facts.py")),
    ("claims.py", include_str!("python/claims.py")),
    ("shown.py", include_str!("python/shown.py")),
    ("pytest.ini", SETTINGS),
];

/// What the package's own tests say of it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Suite {
    /// Tests that passed twice, in both orders.
    pub(super) tests: Vec<Observed>,
    /// Tests that passed once of two times.
    pub(super) flaky: Vec<String>,
    /// Tests that failed, were skipped, or are too slow.
    pub(super) left_out: usize,
    /// Modules of the standard library that the tests load.
    pub(super) standard: Vec<String>,
    /// Processor seconds of one run.
    pub(super) seconds: f64,
}

/// A test that can be relied on.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Observed {
    pub(super) name: String,
    /// Processor seconds.
    pub(super) seconds: f64,
    /// First lines of the functions that it ran, by module.
    pub(super) ran: BTreeMap<String, BTreeSet<u32>>,
}

impl Observed {
    /// Whether it ran a function, or one inside it.
    pub(super) fn runs(&self, module: &str, place: &Place) -> bool {
        let lines = place.first_line..=place.last_line;
        self.ran.get(module).is_some_and(|ran| ran.range(lines).next().is_some())
    }
}

#[derive(Deserialize)]
struct RawSuite {
    tests: Vec<RawTest>,
    standard: Vec<String>,
}

#[derive(Deserialize)]
struct RawTest {
    name: String,
    result: String,
    seconds: f64,
    waited: f64,
    functions: Vec<(usize, u32)>,
}

/// Where Python of ours and the archive with pytest lie for a sandbox.
#[derive(Debug)]
pub(super) struct Kit {
    folder: Folder,
}

impl Kit {
    pub(super) fn new(archive: &Path, config: &WorkspaceConfig) -> Result<Self, MutateError> {
        let folder = Folder::empty(config)?;
        let path = folder.path();
        for (name, text) in PYTHON {
            let file = path.join(name);
            std::fs::write(&file, text).map_err(MutateError::io("writing", &file))?;
        }
        let copy = path.join("python.zip");
        std::fs::copy(archive, &copy).map_err(MutateError::io("copying", archive))?;
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(&copy, std::fs::Permissions::from_mode(0o644))
            .map_err(MutateError::io("opening", &copy))?;
        Ok(Self { folder })
    }

    /// Runs `observe.py` over a fresh copy of the package, with `plan` and `sources`
    /// (files by name) to read. The answer is the text that it wrote, and what it printed.
    pub(super) async fn observe(
        &self,
        mode: &str,
        mut plan: serde_json::Value,
        sources: &[(String, String)],
        files: &Arc<Snapshot>,
        config: &WorkspaceConfig,
        seconds: u64,
    ) -> Result<Answer, MutateError> {
        let exchange = Folder::empty(config)?;
        let at = exchange.path();
        plan["archive"] = "/kit/python.zip".into();
        plan["out"] = "/exchange/out.json".into();
        plan["sources"] = "/exchange".into();
        let write = |name: &str, text: &str| {
            let path = at.join(name);
            std::fs::write(&path, text).map_err(MutateError::io("writing", &path))
        };
        write("plan.json", &plan.to_string())?;
        for (name, text) in sources {
            write(name, text)?;
        }
        let mounts = vec![Mount::read_only(self.folder.path(), "/kit"), Mount::read_write(&at, "/exchange")];
        let workspace = Workspace::patched(files.clone(), config, b"", mounts).await?;
        workspace.hand_over(&at)?;
        let argv = ["/usr/bin/python3", "-I", "-S", "-B", "/kit/observe.py", mode, "/exchange/plan.json"];
        let ran = workspace.run(&SandboxCommand::argv(argv, Duration::from_secs(seconds))).await?;
        let mut text = String::new();
        if let Ok(mut file) = exchange.open("out.json") {
            use std::io::Read;
            let mut bytes = Vec::new();
            let _ = file.by_ref().take(256 << 20).read_to_end(&mut bytes);
            text = String::from_utf8_lossy(&bytes).into_owned();
        }
        let printed = String::from_utf8_lossy(&ran.output.bytes()).into_owned();
        Ok(Answer { text, printed, timed_out: ran.exit_code.is_none() })
    }
}

/// What `observe.py` left.
pub(super) struct Answer {
    pub(super) text: String,
    printed: String,
    timed_out: bool,
}

impl Answer {
    fn last_lines(&self) -> String {
        let lines: Vec<&str> = self.printed.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }
}

/// Runs all tests twice: in order, and in the other order with the functions traced.
pub(super) async fn suite(
    package: &Package,
    kit: &Kit,
    files: &Arc<Snapshot>,
    config: &WorkspaceConfig,
    limit: u64,
) -> Result<Suite, MutateError> {
    let modules: Vec<&String> = package.modules.keys().collect();
    let run = async |wanted: Option<&[String]>| {
        let plan = json!({
            "roots": [package.root], "modules": modules, "files": package.tests, "wanted": wanted,
            "trace": wanted.is_some(),
        });
        let answer = kit.observe("suite", plan, &[], files, config, limit).await?;
        if answer.timed_out {
            return Err(MutateError::SuiteTooSlow { package: package.name.clone(), limit });
        }
        let unread =
            |_| MutateError::NotObserved { package: package.name.clone(), output: answer.last_lines() };
        let raw: RawSuite = serde_json::from_str(&answer.text).map_err(unread)?;
        Ok((raw, answer))
    };
    let (first, answer) = run(None).await?;
    let fit = |test: &&RawTest| {
        test.result == "passed" && test.seconds <= SLOW_SECONDS && test.waited <= WAITING_SECONDS
    };
    let wanted: Vec<String> = first.tests.iter().filter(fit).map(|test| test.name.clone()).collect();
    let mut suite = Suite {
        left_out: first.tests.len() - wanted.len(),
        seconds: first.tests.iter().filter(fit).map(|test| test.seconds).sum(),
        standard: first.standard,
        ..Suite::default()
    };
    if wanted.is_empty() {
        let failed = first.tests.iter().filter(|test| test.result == "failed").count();
        return Err(MutateError::NothingPasses {
            package: package.name.clone(),
            failed,
            total: first.tests.len(),
            output: answer.last_lines(),
        });
    }
    let (second, _) = run(Some(&wanted)).await?;
    let mut again: BTreeMap<String, RawTest> =
        second.tests.into_iter().map(|test| (test.name.clone(), test)).collect();
    let seconds: BTreeMap<&String, f64> = first.tests.iter().map(|test| (&test.name, test.seconds)).collect();
    for name in wanted {
        match again.remove(&name).filter(|test| test.result == "passed") {
            Some(test) => {
                let mut ran: BTreeMap<String, BTreeSet<u32>> = BTreeMap::new();
                for (module, line) in test.functions {
                    if let Some(module) = modules.get(module) {
                        ran.entry((*module).clone()).or_default().insert(line);
                    }
                }
                let seconds = seconds.get(&name).copied().unwrap_or(test.seconds);
                suite.tests.push(Observed { name, seconds, ran });
            }
            None => suite.flaky.push(name),
        }
    }
    suite.tests.sort_by(|left, right| left.name.cmp(&right.name));
    Ok(suite)
}
