#!/usr/bin/env python3
"""Are these task folders sound?

Checks, for each task folder in DIR: its files and sizes; that the reference patch
applies and passes; that the empty patch fails; that each part of the reference patch
is needed; and that files which try to fool the test runner gain nothing. With --demos
it also runs the commands of solution/demo.json in a git repository and verifies the
patch that they hand in.

Needs git, bash and Python 3.11, nothing else. Runs the commands of the task folders
as the current user: for task folders that you trust.

    python3 examples/tasks/check.py examples/tasks/first-steps
"""

import argparse
import collections
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

SENTINEL = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
SUBMIT = f"echo {SENTINEL} && git diff"
DIFFICULTIES = ("easy", "medium", "hard")
INSTRUCTION_CHARS = 240
MODULE_LINES = 40
EASY_LINES = 15
MODULES = range(2, 7)
SECONDS = 30

# What a dishonest patch could add: stand-ins for modules that the test runner needs,
# and a package that ends the process with status 0 as soon as it is imported.
STAND_INS = ("unittest.py", "sitecustomize.py", "usercustomize.py", "importlib.py", "test_hidden.py")
STAND_IN_TEXT = "import os\nos._exit(0)\n"


class Fault(Exception):
    """A sentence on what is wrong with a task folder."""


def run(command, folder, stdin=b"", env=None):
    """Run a command; return (exit code, stdout, stderr)."""
    done = subprocess.run(
        command, cwd=folder, input=stdin, env={**os.environ, **(env or {})}, capture_output=True, timeout=SECONDS
    )
    return done.returncode, done.stdout, done.stderr


def git(folder, *arguments, stdin=b""):
    """Run git with no configuration but its own; return stdout, or raise Fault."""
    alone = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    code, out, err = run(["git", *arguments], folder, stdin, alone)
    if code:
        raise Fault(f"`git {' '.join(arguments[:2])}` failed: {err.decode(errors='replace').strip()}")
    return out


def make_workspace(task, folder):
    """Copy the workspace of a task to folder, as a git repository with one commit."""
    shutil.copytree(task / "environment" / "workspace", folder)
    git(folder, "init", "-q")
    git(folder, "add", "-A")
    git(folder, "-c", "user.name=base", "-c", "user.email=base@localhost", "commit", "-qm", "base")


def reward(task, folder):
    """Run the verifier of a task on a workspace; return (reward, its output)."""
    with tempfile.TemporaryDirectory() as logs:
        place = {"TASK_WORKSPACE": str(folder), "TASK_TESTS": str(task / "tests"), "TASK_LOGS": logs}
        _, out, err = run(["sh", str(task / "tests" / "test.sh")], "/", env=place)
        text = (Path(logs) / "reward.txt").read_text().strip()
    if text not in ("0", "1"):
        raise Fault(f"reward.txt holds {text!r}, not 0 or 1")
    return int(text), (out + err).decode(errors="replace")


def verify(task, patch):
    """Apply a patch (bytes) to a fresh workspace and return (reward, output)."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "workspace"
        make_workspace(task, folder)
        if patch.strip():
            git(folder, "apply", "-", stdin=patch)
        return reward(task, folder)


def expect(task, patch, wanted, what):
    """Raise Fault unless the patch gets the wanted reward."""
    got, output = verify(task, patch)
    if got != wanted:
        raise Fault(f"{what}: the reward is {got}, not {wanted}\n{output[-1500:]}")


def check_files(task):
    """Check names, settings and sizes; return the settings."""
    needed = ("task.toml", "instruction.md", "solution/patch.diff", "solution/solve.sh", "tests/test.sh", "tests/test_hidden.py")
    for name in needed:
        if not (task / name).is_file():
            raise Fault(f"{name} is missing")
    settings = tomllib.loads((task / "task.toml").read_text())
    if settings.get("schema_version") != "1.4":
        raise Fault("schema_version is not 1.4")
    if settings["task"]["name"].split("/")[-1] != task.name:
        raise Fault(f"[task] name is {settings['task']['name']}, the folder {task.name}")
    if settings["metadata"]["difficulty"] not in DIFFICULTIES:
        raise Fault(f"difficulty is none of {', '.join(DIFFICULTIES)}")
    if min(settings["verifier"]["timeout_sec"], settings["agent"]["timeout_sec"]) <= 0:
        raise Fault("a timeout is not above 0")
    size = len((task / "instruction.md").read_text().strip())
    if size > INSTRUCTION_CHARS:
        raise Fault(f"instruction.md has {size} characters, more than {INSTRUCTION_CHARS}")
    check_modules(task)
    return settings


def check_modules(task):
    """Check the package of a task: number, length and names of its modules."""
    workspace = task / "environment" / "workspace"
    modules = [path for path in workspace.rglob("*.py") if "tests" not in path.parts]
    if len(modules) not in MODULES:
        raise Fault(f"the workspace has {len(modules)} modules, not {MODULES.start} to {MODULES.stop - 1}")
    for path in modules:
        lines = len(path.read_text().splitlines())
        if lines > MODULE_LINES:
            raise Fault(f"{path.name} has {lines} lines, more than {MODULE_LINES}")
    for path in workspace.iterdir():
        if path.stem in sys.stdlib_module_names:
            raise Fault(f"{path.name} has the name of a standard module, which the test runner finds first")
    if (workspace / ".git").exists():
        raise Fault("the workspace holds a .git")


def check_patch(task, settings):
    """Check the reference patch: easy to write in a shell, short where easy is said."""
    patch = (task / "solution" / "patch.diff").read_text()
    changed = [line for line in patch.splitlines() if re.match(r"[+-](?![+-]{2} )", line)]
    for line in changed:
        if "'" in line or "\\" in line:
            raise Fault(f"a changed line has a single quote or a backslash: {line}")
    if settings["metadata"]["difficulty"] == "easy":
        path = re.search(r"^\+\+\+ b/(.+)$", patch, re.M).group(1)
        lines = len((task / "environment" / "workspace" / path).read_text().splitlines())
        if len(changed) != 2 or lines > EASY_LINES:
            raise Fault(f"easy is one line in a module of at most {EASY_LINES}; here {len(changed)} changed, {lines} lines")
        if path not in (task / "instruction.md").read_text():
            raise Fault(f"easy, but the instruction does not name {path}")


def parts_left_out(task):
    """Yield one patch for each part of the reference patch, without that part.

    Parts that only remove lines are not asked for: what they tidy up may be harmless.
    """
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "workspace"
        make_workspace(task, folder)
        git(folder, "apply", str(task / "solution" / "patch.diff"))
        git(folder, "add", "-A")
        files = re.split(r"^(?=diff --git )", git(folder, "diff", "--cached", "-U0").decode(), flags=re.M)[1:]
        parts = []
        for file in files:
            head, *hunks = re.split(r"^(?=@@ )", file, flags=re.M)
            parts += [(head + hunk).encode() for hunk in hunks]
        if len(parts) < 2:
            return
        for part in parts:
            if not re.search(rb"^\+(?!\+\+ )", part, re.M):
                continue
            git(folder, "apply", "-R", "--cached", "--unidiff-zero", "-", stdin=part)
            yield git(folder, "diff", "--cached")
            git(folder, "apply", "--cached", "--unidiff-zero", "-", stdin=part)


def check_stand_ins(task):
    """Raise Fault if files that fool a careless runner get a reward."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "workspace"
        make_workspace(task, folder)
        for name in STAND_INS:
            (folder / name).write_text(STAND_IN_TEXT)
        for package in folder.glob("*/__init__.py"):
            package.write_text(STAND_IN_TEXT)
        if reward(task, folder)[0]:
            raise Fault("files that end the test runner early get a reward")


def check_demo(task):
    """Run a demonstration and verify what it hands in; return its replies."""
    replies = json.loads((task / "solution" / "demo.json").read_text())["replies"]
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "workspace"
        make_workspace(task, folder)
        for number, reply in enumerate(replies, 1):
            blocks = re.findall(r"```bash\n(.*?)\n```", reply, re.S)
            if len(blocks) != 1:
                raise Fault(f"reply {number} has {len(blocks)} bash blocks, not 1")
            last = number == len(replies)
            if last != (blocks[0] == SUBMIT):
                raise Fault(f"reply {number} of {len(replies)}: the last reply and no other hands in")
            code, out, err = run(["bash", "-c", blocks[0]], folder, env={"PYTHONDONTWRITEBYTECODE": ""})
            if err and not blocks[0].startswith("python3"):
                raise Fault(f"reply {number} prints an error: {err.decode(errors='replace')}")
        patch = out.decode().removeprefix(SENTINEL + "\n").encode()
    if not patch.strip():
        raise Fault("the demonstration hands in an empty patch")
    expect(task, patch, 1, "the patch of the demonstration")
    return replies


def check_task(task, demos):
    """Check one task folder; return its settings, or raise Fault."""
    settings = check_files(task)
    check_patch(task, settings)
    reference = (task / "solution" / "patch.diff").read_bytes()
    expect(task, reference, 1, "the reference patch")
    expect(task, b"", 0, "the empty patch")
    for part in parts_left_out(task):
        expect(task, part, 0, "the reference patch less a part")
    check_stand_ins(task)
    if demos:
        check_demo(task)
    return settings


def check_all(tasks, demos):
    """Check tasks, print the faults and a summary; return the number of faults."""
    faults = 0
    seen = collections.Counter()
    for task in tasks:
        try:
            seen[check_task(task, demos)["metadata"]["difficulty"]] += 1
        except (Fault, OSError, KeyError, ValueError, subprocess.SubprocessError) as fault:
            faults += 1
            print(f"{task.name}: {fault}", file=sys.stderr)
    levels = ", ".join(f"{seen[level]} {level}" for level in DIFFICULTIES if seen[level])
    print(f"{len(tasks) - faults} passed, {faults} failed" + (f" ({levels})" if levels else ""))
    return faults


def main():
    parser = argparse.ArgumentParser(description="Check task folders.")
    parser.add_argument("dir", type=Path, help="folder of task folders")
    parser.add_argument("--demos", action="store_true", help="run solution/demo.json too")
    parser.add_argument("--sample", type=int, default=0, metavar="N", help="check N tasks, chosen at random; 0: all")
    options = parser.parse_args()
    tasks = sorted(path.parent for path in options.dir.resolve().glob("*/task.toml"))
    if not tasks:
        sys.exit(f"{options.dir} holds no task folder.\nhelp: name a folder whose sub-folders have a task.toml.")
    if 0 < options.sample < len(tasks):
        tasks = sorted(random.Random(0).sample(tasks, options.sample))
    sys.exit(1 if check_all(tasks, options.demos) else 0)


if __name__ == "__main__":
    main()
