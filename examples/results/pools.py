"""Make the tasks of the comparison of methods: demonstrations to warm up with, tasks to train and gate on, held-out tasks.

    python3 examples/results/pools.py runs/results/tasks

A small policy repairs only functions that it has seen whole. So the demonstrations are of the same functions, with
other faults: no line that is broken in a demonstration is broken the same way in a task. `train` and `held-out` share
no function; each task names its function as the `module` of its package, so `tandem train` and `tandem eval` refuse
sets that share one.
"""

import argparse
import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
GENERATE = HERE.parent / "warmup/generate.py"


def generate(out, count, seed, split):
    """Make `count` tasks of one half of the corpus."""
    command = [sys.executable, GENERATE, "--count", str(count), "--seed", str(seed), "--split", split, "--out", out]
    subprocess.run([str(part) for part in command], check=True, stdout=subprocess.DEVNULL)


def function_of(task):
    """Return the function that a task folder is about."""
    lines = (task / "task.toml").read_text().splitlines()
    return next(line.split('"')[1] for line in lines if line.startswith("function = "))


def side(task):
    """Say whether the faults of a task are for `warm` or for `tasks`; None if some are for either."""
    lines = (task / "solution/patch.diff").read_text().splitlines()
    broken = [line for line in lines if line.startswith("-") and not line.startswith("---")]
    function = function_of(task)
    # A file that is missing breaks no line: such tasks are for demonstrations.
    sides = {hashlib.sha256(f"{function} {line}".encode()).digest()[0] % 2 for line in broken} or {0}
    return ("warm", "tasks")[sides.pop()] if len(sides) == 1 else None


def name_module(task, function):
    """Say in the metadata which function may be in no other set."""
    file = task / "task.toml"
    text = file.read_text()
    file.write_text(text.replace("[metadata]\n", f'[metadata]\npackage = "corpus"\nmodule = "{function}"\n', 1))


def deal(tasks, share):
    """Return the functions that are held out: whole functions, about `share` of the tasks."""
    counts = {}
    for task in tasks:
        function = function_of(task)
        counts[function] = counts.get(function, 0) + 1
    held, total = set(), 0
    for function in sorted(counts, key=lambda name: hashlib.sha256(name.encode()).hexdigest()):
        if total < share * len(tasks):
            held.add(function)
            total += counts[function]
    return held


def main():
    parser = argparse.ArgumentParser(description="Make the task sets of the comparison of methods.")
    parser.add_argument("out", type=Path, help="folder to make")
    parser.add_argument("--warm", type=int, default=1500, help="tasks with demonstrations, at most (%(default)s)")
    parser.add_argument("--tasks", type=int, default=520, help="tasks of the comparison, at most (%(default)s)")
    parser.add_argument("--others", type=int, default=600, help="demonstrations of other functions (%(default)s)")
    parser.add_argument("--held-out", type=float, default=0.35, help="share of the tasks (%(default)s)")
    options = parser.parse_args()
    if options.out.exists():
        sys.exit(f"{options.out} exists.\nhelp: name another folder, or remove it first.")

    both = options.out / "both"
    generate(both, 3000, 22, "heldout")
    sets = {"warm": [], "tasks": []}
    for task in sorted(both.iterdir()):
        sets.get(side(task), []).append(task)
    warm, tasks = sets["warm"][: options.warm], sets["tasks"][: options.tasks]

    generate(options.out / "warm", options.others, 21, "train")
    for task in warm:
        shutil.move(task, options.out / "warm" / f"seen-{task.name}")
    held = deal(tasks, options.held_out)
    counts = {"train": 0, "held-out": 0}
    for task in tasks:
        function = function_of(task)
        name_module(task, function)
        part = "held-out" if function in held else "train"
        (options.out / part).mkdir(exist_ok=True)
        shutil.move(task, options.out / part / task.name)
        counts[part] += 1
    shutil.rmtree(both)
    print(
        f"{len(warm) + options.others} tasks to warm up with, {counts['train']} to train on, "
        f"{counts['held-out']} held out ({len(held)} functions)"
    )


if __name__ == "__main__":
    main()
