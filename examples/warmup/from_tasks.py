#!/usr/bin/env python3
"""Make demonstrations for tasks that have a reference patch.

    python3 examples/warmup/from_tasks.py --tasks examples/tasks/first-steps --per-task 8 --seed 5 --out DIR

Copies each task that names its module in the issue, with replies of a careful agent
that makes the reference patch; several copies of a task differ in the wording and in
whether the agent checks its work. Tasks of difficulty `hard` are left out, so that a
policy warmed up on these has something left to find.
"""

import argparse
import json
import random
import re
import shutil
import sys
import tomllib
from pathlib import Path

import demo


class Block:
    """Lines of one file that the patch replaces: `removed` from line `number` on, by `added`."""

    def __init__(self, number):
        self.number, self.removed, self.added = number, [], []


def parse(patch):
    """Return file -> blocks, and file -> text for new files."""
    blocks, new, path, line, block = {}, {}, None, 0, None
    for text in patch.splitlines():
        if text.startswith("--- "):
            is_new = text == "--- /dev/null"
        elif text.startswith("+++ "):
            path = text[len("+++ b/") :]
            (new if is_new else blocks)[path] = []
        elif match := re.match(r"@@ -(\d+)", text):
            line, block = int(match.group(1)), None
        elif path is None or text.startswith(("diff ", "index ", "new file", "\\")):
            continue
        elif path in new:
            new[path].append(text[1:])
        elif text.startswith(("-", "+")):
            if block is None:
                block = Block(line)
                blocks[path].append(block)
            if text[0] == "-":
                block.removed.append(text[1:])
                line += 1
            else:
                block.added.append(text[1:])
        else:
            block, line = None, line + 1
    return blocks, new


def tokens(text):
    return re.findall(r"\w+|[^\w\s]+", text)


def why(block):
    """Return what is wrong with a block, as it goes on after "line N"."""
    if len(block.removed) == 1 and len(block.added) == 1:
        old, new = tokens(block.removed[0]), tokens(block.added[0])
        changed = [(a, b) for a, b in zip(old, new) if a != b]
        if len(old) == len(new) and len(changed) == 1:
            return "has `%s`, but `%s` is needed" % changed[0]
    return "is not right" if block.removed else "lacks a step"


def command(path, block):
    last = block.number + len(block.removed) - 1
    place = str(block.number) if last <= block.number else f"{block.number},{last}"
    text = "\\n".join(block.added)
    return f"sed -i '{place}{'c' if block.removed else 'i'}\\{text}' {path}"


def replies(rng, blocks, new):
    """Return the replies of one demonstration, or None for a patch that sed cannot write well."""
    every = [line for each in blocks.values() for block in each for line in block.added]
    if any("'" in line or "\\" in line or not line.strip() for line in every):
        return None
    said = []
    for path in blocks:
        said += demo.look(rng, path)
        # From the last to the first, so that line numbers stay true.
        for block in reversed(blocks[path]):
            thought = rng.choice(demo.FAULT).format(n=block.number, why=why(block))
            said.append(demo.reply(thought, command(path, block)))
    for path, lines in new.items():
        said += demo.new_file(rng, path, "\n".join(lines).rstrip("\n"))
    checked = rng.random() < 0.5 and len(blocks) == 1 and not new
    if checked:
        path = next(iter(blocks))
        said.append(demo.reply(rng.choice(demo.CHECK), f"python3 -m py_compile {path}"))
    said.append(demo.submit(rng, checked))
    return said


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", required=True, type=Path, help="a folder of tasks")
    parser.add_argument("--per-task", required=True, type=int, help="demonstrations of each task")
    parser.add_argument("--seed", required=True, type=int, help="same seed, same demonstrations")
    parser.add_argument("--out", required=True, type=Path, help="folder to make; must be new")
    options = parser.parse_args()
    if options.out.exists():
        sys.exit(f"error: {options.out} exists\nhelp: name a new folder")
    made = 0
    for task in sorted(path for path in options.tasks.iterdir() if (path / "task.toml").is_file()):
        settings = tomllib.loads((task / "task.toml").read_text())
        blocks, new = parse((task / "solution/patch.diff").read_text())
        issue = (task / "instruction.md").read_text()
        named = all(path in issue for path in [*blocks, *new])
        if settings["metadata"]["difficulty"] == "hard" or not named:
            continue
        for index in range(options.per_task):
            rng = random.Random(f"{options.seed}/{task.name}/{index}")
            said = replies(rng, blocks, new)
            if said is None:
                break
            copy = options.out / f"{task.name}-{index}"
            shutil.copytree(task, copy)
            text = (copy / "task.toml").read_text()
            (copy / "task.toml").write_text(text.replace(f'/{task.name}"', f'/{task.name}-{index}"', 1))
            (copy / "solution/demo.json").write_text(json.dumps({"replies": said}, indent=1) + "\n")
            made += 1
    print(f"{made} demonstrations in {options.out}")


if __name__ == "__main__":
    main()
