#!/usr/bin/env python3
"""Compares the scripts that `tandem tasks import` writes for classic rows of SWE-bench
with those of swebench 4.1.0, for every repository and version of its tables.

Usage: check_classic.py PROGRAM FOLDER_OF_THE_PACKAGE   (needs the package unidiff)
"""

import json
import pathlib
import subprocess
import sys
import tempfile
import types

from unidiff import PatchSet

program, package = sys.argv[1:]
root = package + "/swebench/harness"


def stand_in(name, path=None, **members):
    module = types.ModuleType(name)
    module.__path__ = [path] if path else []
    module.__dict__.update(members)
    sys.modules[name] = module


def modified(patch):
    files = [file.source_file for file in PatchSet(patch) if file.source_file != "/dev/null"]
    return [file[2:] for file in files if file.startswith("a/")]


stand_in("swebench")
stand_in("swebench.harness", root)
stand_in("swebench.harness.test_spec", root + "/test_spec")
stand_in("swebench.harness.utils", get_modified_files=modified, load_cached_environment_yml=None)
stand_in("requests")
from swebench.harness import constants  # noqa: E402
from swebench.harness.test_spec.create_scripts import make_eval_script_list  # noqa: E402

CHANGED = "diff --git a/{0} b/{0}\n--- a/{0}\n+++ b/{0}\n@@ -1,2 +1,2 @@\n keep\n--- old\n+++ new\n"
NEW = "diff --git a/{0} b/{0}\nnew file mode 100644\n--- /dev/null\n+++ b/{0}\n@@ -0,0 +1 @@\n+x\n"
GONE = "diff --git a/{0} b/{0}\ndeleted file mode 100644\n--- a/{0}\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n"
MOVED = (
    "diff --git a/{0} b/{1}\nsimilarity index 90%\nrename from {0}\nrename to {1}\n"
    "--- a/{0}\n+++ b/{1}\n@@ -1 +1 @@\n-x\n+y\n"
)
PATCHES = [
    CHANGED.format("tests/a/test_x.py") + NEW.format("tests/new file.py") + CHANGED.format("tests/d.json")
    + GONE.format("tests/gone.py") + MOVED.format("tests/old.py", "tests/new.py"),
    NEW.format("t/only.py"),
]
END = ">>>>> End Test Output"


def recorded(lines):
    """The script as version 5 runs it: with the exit code after the end marker."""
    out = ["#!/bin/bash", "set -uxo pipefail"]
    for line in "\n".join(lines).strip().split("\n"):
        out += ["SWEBENCH_TEST_EXIT_CODE=$?"] if END in line else []
        out.append(line)
        out += ['echo ">>>>> Test Exit Code: $SWEBENCH_TEST_EXIT_CODE"'] if END in line else []
    return "\n".join(out) + "\n"


rows, expected = [], {}
for repo, versions in constants.MAP_REPO_VERSION_TO_SPECS.items():
    if repo == "Automattic/wp-calypso":
        continue
    for version, spec in versions.items():
        for number, patch in enumerate(PATCHES):
            name = f"{repo.replace('/', '__')}-{version}-{number}"
            row = {
                "repo": repo, "version": version, "instance_id": name, "base_commit": "abc123", "patch": "P",
                "test_patch": patch, "problem_statement": "s", "FAIL_TO_PASS": "[]", "PASS_TO_PASS": "[]",
            }
            try:
                lines = make_eval_script_list(row, spec, "testbed", "/testbed", "abc123", patch)
            except KeyError:
                continue  # the package has no test command for it either
            expected[name] = recorded(lines)
            rows.append({**row, "version": str(version)})

with tempfile.TemporaryDirectory() as scratch:
    scratch = pathlib.Path(scratch)
    (scratch / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    command = [program, "tasks", "import", "rows.jsonl", "--out", "out", "--format", "swe-bench-classic"]
    subprocess.run(command, cwd=scratch, check=True)
    wrong = [
        name
        for name, text in expected.items()
        if (scratch / "out" / name / "tests/test.sh").read_text() != text
    ]
print(f"{len(expected)} scripts, {len(wrong)} differ", *wrong[:5])
sys.exit(bool(wrong))
