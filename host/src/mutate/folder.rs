//! How does a mutation become a task folder?

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::json;

use super::edit;
use super::error::MutateError;
use super::observe::{MUST_FAIL, RUNNER, SETTINGS};
use super::package::{Package, is_test_path};
use super::screen::Candidate;
use super::split::Split;

const DOCKERFILE: &str = "\
FROM python:3.11-slim
RUN apt-get update && apt-get install -y --no-install-recommends git && rm -rf /var/lib/apt/lists/*
RUN pip install --no-cache-dir pytest
WORKDIR /workspace
COPY workspace/ .
RUN git init -q && git add -A && git -c user.name=base -c user.email=base@localhost commit -qm base
";

const TEST: &str = "\
#!/bin/sh
# Runs the tests of the task on the workspace and leaves 1 or 0 as the reward: see runner.py.
exec python3 -I -S -B \"${TASK_TESTS:-/tests}/runner.py\"
";

const SOLVE: &str = "\
#!/bin/sh
# Applies the reference patch.
set -e
here=$(cd \"$(dirname \"$0\")\" && pwd)
cd \"${TASK_WORKSPACE:-/workspace}\"
git apply \"$here/patch.diff\"
";

/// Wall-clock seconds that all tests of a task may take: the same for every task, as a measured
/// time would differ between two pools. `runner.py` has a limit for each test besides.
const VERIFY_SECONDS: u64 = 900;

/// A task that is ready to be written.
pub(super) struct Draft<'a> {
    pub(super) package: &'a Package,
    pub(super) candidate: &'a Candidate,
    pub(super) split: Split,
    pub(super) instruction: String,
    /// Tests that fail with the fault and pass without it.
    pub(super) fail_to_pass: Vec<String>,
    /// Tests that run the module and pass with the fault and without it.
    pub(super) pass_to_pass: Vec<String>,
}

impl Draft<'_> {
    /// The folder's name, and after `tandem/` the task's.
    pub(super) fn name(&self) -> String {
        format!("{}-{}", self.package.name, self.candidate.id)
    }

    /// Writes the folder. `archive` is linked, since every task has the same.
    pub(super) fn write(&self, folder: &Path, archive: &Path) -> Result<(), MutateError> {
        if folder.exists() {
            std::fs::remove_dir_all(folder).map_err(MutateError::io("removing", folder))?;
        }
        let put = |inner: &str, bytes: &[u8]| put(folder, inner, bytes);
        put("task.toml", self.task_toml().as_bytes())?;
        put("instruction.md", format!("{}\n", self.instruction).as_bytes())?;
        put("environment/Dockerfile", DOCKERFILE.as_bytes())?;
        put("tests/test.sh", TEST.as_bytes())?;
        put("tests/runner.py", RUNNER.as_bytes())?;
        put("tests/must_fail.py", MUST_FAIL.as_bytes())?;
        put("tests/pytest.ini", SETTINGS.as_bytes())?;
        put("tests/task.json", self.plan().as_bytes())?;
        put("solution/solve.sh", SOLVE.as_bytes())?;
        let original = &self.package.modules[&self.candidate.module];
        let mutated = self.candidate.mutated(self.package);
        let patch = edit::patch(&self.candidate.module, &mutated, original);
        put("solution/patch.diff", patch.as_bytes())?;

        let hidden: BTreeSet<&str> =
            self.fail_to_pass.iter().filter_map(|test| test.split("::").next()).collect();
        put("environment/workspace/.gitignore", b"__pycache__/\n")?;
        for (path, bytes) in &self.package.files {
            let bytes = if *path == self.candidate.module { mutated.as_bytes() } else { &bytes[..] };
            if !hidden.contains(path.as_str()) {
                put(&format!("environment/workspace/{path}"), bytes)?;
            }
        }
        for (path, bytes) in self.package.test_files() {
            debug_assert!(is_test_path(path));
            put(&format!("tests/files/{path}"), bytes)?;
        }
        let copy = folder.join("tests/python.zip");
        std::fs::hard_link(archive, &copy)
            .or_else(|_| std::fs::copy(archive, &copy).map(drop))
            .map_err(MutateError::io("writing", &copy))
    }

    fn task_toml(&self) -> String {
        let metadata = [
            ("fault", self.candidate.mutation.kind.name()),
            ("package", &self.package.name),
            ("module", &self.candidate.module),
            ("function", &self.candidate.mutation.place.name),
            ("split", self.split.name()),
        ];
        let metadata: toml::Table =
            metadata.into_iter().map(|(key, value)| (key.to_owned(), value.into())).collect();
        format!(
            "schema_version = \"1.4\"\n\n[task]\nname = \"tandem/{}\"\n\
             description = \"Repair of a fault in {}.\"\n\n[metadata]\n{metadata}\n\
             [agent]\ntimeout_sec = 600.0\n\n[verifier]\ntimeout_sec = {}.0\n\n\
             [environment]\nworkdir = \"/workspace\"\nnetwork_mode = \"no-network\"\n",
            self.name(),
            self.package.name,
            VERIFY_SECONDS + 60,
        )
    }

    fn plan(&self) -> String {
        let plan = json!({
            "FAIL_TO_PASS": self.fail_to_pass,
            "PASS_TO_PASS": self.pass_to_pass,
            "roots": [self.package.root],
            "seconds": VERIFY_SECONDS,
        });
        format!("{plan:#}\n")
    }
}

/// Writes a file with the folders above it.
pub(super) fn put(folder: &Path, inner: &str, bytes: &[u8]) -> Result<(), MutateError> {
    let path = folder.join(inner);
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent).map_err(MutateError::io("making", parent))?;
    }
    std::fs::write(&path, bytes).map_err(MutateError::io("writing", &path))
}
