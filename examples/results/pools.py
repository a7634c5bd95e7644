"""Make the tasks of the comparison of methods: demonstrations to warm up with, tasks to train and gate on, held-out tasks.

    python3 examples/results/pools.py runs/results/tasks

Three sets that share no function: `warm` is made from one half of the corpus; the other half is dealt into
`train` and `held-out`. Each task names its function as the `module` of its package, so `tandem train` and
`tandem eval` refuse sets that share one.
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
    parser.add_argument("--warm", type=int, default=2400, help="tasks with demonstrations (%(default)s)")
    parser.add_argument("--tasks", type=int, default=500, help="tasks of the other half (%(default)s)")
    parser.add_argument("--held-out", type=float, default=0.35, help="share of them (%(default)s)")
    options = parser.parse_args()
    if options.out.exists():
        sys.exit(f"{options.out} exists.\nhelp: name another folder, or remove it first.")

    generate(options.out / "warm", options.warm, 21, "train")
    both = options.out / "both"
    generate(both, options.tasks, 22, "heldout")
    tasks = sorted(both.iterdir())
    held = deal(tasks, options.held_out)
    counts = {"train": 0, "held-out": 0}
    for task in tasks:
        function = function_of(task)
        name_module(task, function)
        part = "held-out" if function in held else "train"
        (options.out / part).mkdir(exist_ok=True)
        shutil.move(task, options.out / part / task.name)
        counts[part] += 1
    both.rmdir()
    print(f"{options.warm} tasks to warm up with, {counts['train']} to train on, {counts['held-out']} held out ({len(held)} functions)")


if __name__ == "__main__":
    main()
