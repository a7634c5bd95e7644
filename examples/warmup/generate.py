#!/usr/bin/env python3
"""How are the warm-up tasks made?

Writes N repair tasks in the format of Harbor, each with a demonstration of the
repair. A task is a small package of functions of the corpus with a fault in one of
them. The same seed gives the same tasks. Needs Python 3.11; --self-test needs git
and bash too.

    python3 examples/warmup/generate.py --count 2000 --seed 1 --out runs/warmup
    python3 examples/warmup/generate.py --count 200 --seed 2 --split heldout --out runs/heldout
"""

import argparse
import collections
import difflib
import json
import random
import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
FIRST_STEPS = HERE.parent / "tasks" / "first-steps"
sys.dont_write_bytecode = True
sys.path[:0] = [str(HERE), str(HERE.parent / "tasks")]

import check
import faults
import shapes

TOML = """schema_version = "1.4"

[task]
name = "warmup/{name}"
description = "A {kind} fault in {function}."

[metadata]
difficulty = "{difficulty}"
fault = "{kind}"
function = "{function}"
split = "{split}"

[agent]
timeout_sec = 300.0

[verifier]
timeout_sec = 30.0

[environment]
workdir = "/workspace"
network_mode = "no-network"
"""


def patch(broken, right):
    """Return the unified diff from one set of files to another."""
    text = ""
    for path in sorted(right):
        before, after = broken.get(path), right[path]
        if before != after:
            old = f"a/{path}" if before is not None else "/dev/null"
            text += f"diff --git a/{path} b/{path}\n" + ("" if before is not None else "new file mode 100644\n")
            text += "".join(difflib.unified_diff((before or "").splitlines(True), after.splitlines(True), old, f"b/{path}"))
    return text


def write(task, folder, split, shared):
    """Write a task to its folder."""
    files = {
        "task.toml": TOML.format(
            name=folder.name, kind=task.kind, function=task.function, difficulty=task.difficulty, split=split
        ),
        "instruction.md": task.issue + "\n",
        "solution/patch.diff": patch(task.broken, task.right),
        "solution/demo.json": json.dumps({"replies": task.replies}, indent=1) + "\n",
        "tests/test_hidden.py": task.tests,
        **{f"environment/workspace/{path}": text for path, text in task.broken.items()},
        **shared,
    }
    for name in {str(Path(name).parent) for name in files}:
        (folder / name).mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text)
    for name in shared:
        (folder / name).chmod(0o755)


def shared_names():
    """Return the names that the corpus and the first-steps tasks both define; there must be none."""
    text = "\n".join(path.read_text() for path in FIRST_STEPS.glob("*/environment/workspace/**/*.py"))
    text += "\n".join(path.read_text() for path in FIRST_STEPS.glob("*/solution/patch.diff"))
    taken = set(re.findall(r"^[+ ]?(?:def|class) (\w+)", text, re.M))
    return sorted(taken & set(faults.load()))


def self_test(tasks):
    """Check tasks with their demonstrations; return the number of faults."""
    shared = shared_names()
    if shared:
        print(f"also a function of first-steps: {', '.join(shared)}", file=sys.stderr)
    return check.check_all(tasks, demos=True) + len(shared)


def main():
    parser = argparse.ArgumentParser(description="Make warm-up tasks with demonstrations.")
    parser.add_argument("--count", type=int, required=True, metavar="N", help="how many tasks")
    parser.add_argument("--seed", type=int, required=True, metavar="S", help="same seed, same tasks")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder to make; must be new or empty")
    parser.add_argument("--split", choices=("train", "heldout"), default="train", help="disjoint functions")
    parser.add_argument(
        "--without", action="append", default=[], metavar="SHAPE", choices=[s for s in shapes.SHAPES if s != "one-line"],
        help="leave a shape out: %(choices)s (may be given again)",
    )
    parser.add_argument("--self-test", type=int, metavar="N", default=0, help="then check N of the tasks, and run their demonstrations")
    options = parser.parse_args()
    if options.count < 1:
        sys.exit(f"--count is {options.count}, which makes no task.\nhelp: give a number from 1 up.")
    if options.out.exists() and (not options.out.is_dir() or any(options.out.iterdir())):
        sys.exit(f"{options.out} exists and is not an empty folder.\nhelp: name another folder, or remove it first.")

    example = next(FIRST_STEPS.glob("*/task.toml")).parent
    shared = {name: (example / name).read_text() for name in ("tests/test.sh", "solution/solve.sh")}
    kinds, levels, folders = collections.Counter(), collections.Counter(), []
    generator = shapes.Generator(options.split, options.seed, options.without)
    try:
        for number, task in enumerate(generator.tasks(options.count)):
            folders.append((options.out / f"{number:05d}-{task.function.lower().replace('_', '-')}").resolve())
            write(task, folders[-1], options.split, shared)
            kinds[task.kind] += 1
            levels[task.difficulty] += 1
    except shapes.Exhausted as error:
        sys.exit(str(error))
    print(f"{len(folders)} tasks in {options.out}: {', '.join(f'{n} {level}' for level, n in levels.most_common())}")
    print(", ".join(f"{kind} {n}" for kind, n in kinds.most_common()))
    if options.self_test:
        chosen = random.Random(options.seed).sample(folders, min(options.self_test, len(folders)))
        sys.exit(1 if self_test(sorted(chosen)) else 0)


if __name__ == "__main__":
    main()
