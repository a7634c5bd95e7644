"""Which task is made of a fault: package, issue, tests, demonstration?

A generator chooses a shape (one line, two places, a missing file, a wrong import), a
function of the corpus with a fault that shows, and puts them into a small package.
"""

import collections
import hashlib
import random
import re
from dataclasses import dataclass, field

import demo
import faults
import mutate

# Shares of the shapes of a task, and how much each kind of fault counts among the
# tasks of one line: the kinds that are rarer in the corpus count more.
SHAPES = {"one-line": 0.81, "two-place": 0.10, "new-file": 0.05, "wrong-import": 0.04}
WEIGHTS = collections.defaultdict(lambda: 3, {
    "variable": 9, "constant": 7, "comparison": 9, "operator": 8, "missing-return": 6, "unknown-name": 6,
    "missing-guard": 9, "wrong-call": 5, "wrong-default": 5, "assignment": 5, "swapped-arguments": 4,
    "format": 2, "true-false": 2, "exception": 2, "sign": 2,
})
PACKAGES = (
    "acorn amber anchor atlas basil beacon birch bridge cabin canal candle canyon castle cedar clover comet coral "
    "cotton creek dune ember falcon fern fjord forest garden glacier harbor hazel heron island ivory jasper kettle "
    "lagoon lantern lemon lilac maple meadow mill mint mosaic nest oak ocean olive orchard otter pebble pine pond "
    "quarry raven reef ridge river robin saddle sage sail shore silver sparrow spruce stone storm summit sunset "
    "tiger timber trail tulip valley velvet violet walnut willow window winter"
).split()
MODULES = (
    "actions base basics calc checks common compute core details engine extra funcs helpers kit logic main_part "
    "methods misc model more ops parts pieces plain process rules service shared simple small steps support tools "
    "units utils work"
).split()
LINE_CHARS = 60
REPLY_CHARS = 155  # about 60 tokens
DEMO_CHARS = 580  # of all replies, which leaves most conversations under 600 tokens
EASY_LINES = 15
MODULE_LINES = 20
NEW_FILE_LINES = 4
TRIES = 400


class Exhausted(Exception):
    """No new task could be made."""


@dataclass
class Module:
    """One file of a package: imports and entries."""

    name: str
    entries: list = field(default_factory=list)  # (entry, source lines)
    imports: list = field(default_factory=list)
    doc: str = ""

    def text(self):
        """Return the file."""
        top = [f'"""{self.doc}"""', ""] if self.doc else []
        top += [*self.imports, ""] if self.imports else []
        top += [""] if top else []
        parts = ["\n".join(source) for _, source in self.entries]
        return "\n".join(top) + ("\n" if top else "") + "\n\n\n".join(parts) + "\n"


@dataclass
class Task:
    """Everything that is written for one task."""

    key: str  # what must not come twice: the broken code and the call
    kind: str
    function: str
    difficulty: str
    issue: str
    broken: dict
    right: dict
    tests: str
    replies: list

    def short(self):
        """Tell if the demonstration is short enough to learn from cheaply."""
        sizes = [len(reply) for reply in self.replies]
        return max(sizes) <= REPLY_CHARS and sum(sizes) <= DEMO_CHARS


class Generator:
    """Makes tasks from the functions of one side of the split."""

    def __init__(self, split, seed, without=()):
        self.split = split
        self.rng = random.Random(f"{seed}/{split}")
        self.entries = faults.load()
        held_out = split == "heldout"
        self.pool = [entry for entry in self.entries.values() if entry.held_out == held_out]
        self.faults = collections.defaultdict(list)
        for entry in self.pool:
            for seen in faults.seen_faults(entry, self.entries):
                self.faults[seen.kind].append(seen)
        self.shapes = {shape: share for shape, share in SHAPES.items() if shape not in without}
        self.made = set()

    # ---- choosing

    def tasks(self, count):
        """Yield `count` tasks, no two alike."""
        for _ in range(count):
            yield self.one()

    def one(self):
        """Return one new task."""
        shape = self.pick(self.shapes)
        for attempt in range(TRIES):
            if attempt == TRIES // 2:
                shape = "one-line"  # the rarer shapes may be used up
            task = {
                "one-line": self.one_line, "two-place": self.two_place,
                "new-file": self.new_file, "wrong-import": self.wrong_import,
            }[shape]()
            key = task and hashlib.sha256(task.key.encode()).hexdigest()
            if task and key not in self.made and task.short():
                self.made.add(key)
                return task
        raise Exhausted(f"No new task could be made after {len(self.made)}.\nhelp: ask for fewer tasks.")

    def pick(self, weights):
        """Return a key of a dict of weights."""
        return self.rng.choices(list(weights), weights.values())[0]

    def pick_fault(self):
        """Return a fault, its kind chosen by weight."""
        kind = self.pick({kind: WEIGHTS[kind] for kind in self.faults})
        return self.rng.choice(self.faults[kind])

    def prepare(self, entry):
        """Return the source lines of an entry, perhaps with other names, and its mutations."""
        plain = mutate.mutants(entry.source)
        source = faults.renamed(entry.source, self.rng) if self.rng.random() < 0.6 else entry.source
        mutations = mutate.mutants(source)
        if [m.kind for m in mutations] != [m.kind for m in plain]:
            source, mutations = entry.source, plain
        return source.split("\n"), mutations

    # ---- composing

    def package(self, entry, lines, apart=False):
        """Return (package, modules): first the one with the entry, then its helpers and others."""
        package = self.rng.choice(PACKAGES)
        names = self.rng.sample(MODULES, 4)
        main = Module(names[0], [(entry, lines)])
        modules = [main]
        helpers = [(self.entries[name], self.entries[name].source.split("\n")) for name in entry.uses]
        if helpers and (apart or self.rng.random() < 0.6):
            main.imports = [f"from .{names[1]} import {helper.name}" for helper, _ in helpers]
            modules.append(Module(names[1], helpers))
        else:
            main.entries = helpers + main.entries
        room = MODULE_LINES - len(main.text().split("\n"))
        free = [e for e in self.pool if not e.uses and e.name not in (entry.name, *entry.uses)]
        self.rng.shuffle(free)
        if self.rng.random() < 0.3 and len(free[-1].source.split("\n")) + 3 < room:
            other = free.pop()
            main.entries.insert(self.rng.randrange(2), (other, other.source.split("\n")))
        for name in names[len(modules):self.rng.randint(max(2, len(modules)), 4)]:
            extra = [free.pop() for _ in range(self.rng.randint(1, 2))]
            modules.append(Module(name, [(other, other.source.split("\n")) for other in extra]))
        for module in modules:
            if self.rng.random() < 0.6:
                module.doc = self.rng.choice(("The {} of {}.", "{} for {}.", "Part {} of {}.")).format(module.name, package)
        return package, modules

    def files(self, package, modules):
        """Return the files of a package as {path: text}."""
        files = {f"{package}/{module.name}.py": module.text() for module in modules}
        return {".gitignore": "__pycache__/\n", f"{package}/__init__.py": f'"""The package {package}."""\n', **files}

    def first_line(self, module, entry):
        """Return the line (from 1) where an entry starts in its module."""
        word = "class" if entry.is_class else "def"
        head = re.compile(rf"{word} {entry.name}\b")
        return next(n for n, line in enumerate(module.text().split("\n"), 1) if head.match(line))

    def tests(self, module, entry):
        """Return the hidden tests: all examples of the entry."""
        lines = ["import unittest", "", f"from {module} import {entry.name}", "", "", "class Examples(unittest.TestCase):"]
        for number, (example, want) in enumerate(zip(entry.examples, entry.outcomes), 1):
            lines += [f"    def test_{number}(self):"]
            if want.raised:
                lines += [f"        with self.assertRaises({want.raised}):", f"            {example}", ""]
            else:
                lines += [f"        self.assertEqual({example}, {want.value!r})", ""]
        return "\n".join(lines)

    def finish(self, kind, entry, package, modules, broken, symptom, named, replies, difficulty=None):
        """Return the task with its issue and files."""
        right = self.files(package, modules)
        path = f"{package}/{modules[0].name}.py"
        short = len(right[path].splitlines()) <= EASY_LINES and len(broken.get(path, "").splitlines()) <= EASY_LINES
        return Task(
            key=f"{broken.get(path)}\n{symptom.call}", kind=kind, function=entry.name,
            difficulty=difficulty or ("easy" if named and short else "medium"),
            issue=demo.issue(self.rng, entry, symptom, path if named else None),
            broken=broken, right=right, tests=self.tests(f"{package}.{modules[0].name}", entry), replies=replies,
        )

    # ---- shapes

    def one_line(self):
        """Return a task with one fault in one line, or with a guard left out."""
        seen = self.pick_fault()
        entry, symptom = seen.entry, self.rng.choice(seen.symptoms)
        lines, mutations = self.prepare(entry)
        mutation = mutations[seen.number]
        if max(map(len, mutation.good)) > LINE_CHARS:
            return None
        package, modules = self.package(entry, lines)
        main = modules[0]
        path, module = f"{package}/{main.name}.py", f"{package}.{main.name}"
        named, checked = self.rng.random() < 0.78, self.rng.random() < 0.45
        number = self.first_line(main, entry) + mutation.start
        broken = dict(self.files(package, modules))
        broken[path] = "\n".join(mutate_at(broken[path].split("\n"), number, mutation))
        replies = demo.look(self.rng, path, None if named else definition(entry))
        replies.append(demo.fix(self.rng, path, number, mutation))
        replies += [demo.check(self.rng, module, entry, symptom.call)] if checked else []
        replies.append(demo.submit(self.rng, checked))
        difficulty = "medium" if mutation.kind == "missing-guard" else None
        task = self.finish(mutation.kind, entry, package, modules, broken, symptom, named, replies, difficulty)
        task.key = "\n".join([*mutation.apply(lines), symptom.call])
        return task

    def two_place(self):
        """Return a task with two faults in one function, each of which shows alone."""
        first = self.pick_fault()
        entry = first.entry
        lines, mutations = self.prepare(entry)
        others = [s for kind in self.faults for s in self.faults[kind] if s.entry is entry]
        pair = sorted((mutations[first.number], mutations[self.rng.choice(others).number]), key=lambda m: m.start)
        one_line = all(len(m.good) == len(m.bad) == 1 and len(m.good[0]) <= LINE_CHARS for m in pair)
        if not one_line or pair[0].start == pair[1].start:
            return None
        helpers = faults.helpers_of(entry, self.entries)
        both = pair[1].apply(pair[0].apply(lines))
        after = [pair[1].apply(lines), pair[0].apply(lines)]  # what is left when one fault is mended
        shown = faults.symptoms(entry, "\n".join(both), helpers) or ()
        left = [{s.call: s for s in faults.symptoms(entry, "\n".join(source), helpers) or ()} for source in after]
        fits = [s for s in shown if s.call in left[0]]
        if not fits or not left[1]:
            return None
        symptom = self.rng.choice(fits)
        package, modules = self.package(entry, lines)
        main = modules[0]
        path, module = f"{package}/{main.name}.py", f"{package}.{main.name}"
        named, checked, late = self.rng.random() < 0.6, self.rng.random() < 0.4, self.rng.random() < 0.5
        numbers = [self.first_line(main, entry) + m.start for m in pair]
        broken = dict(self.files(package, modules))
        for number, mutation in zip(numbers, pair):
            broken[path] = "\n".join(mutate_at(broken[path].split("\n"), number, mutation))
        replies = demo.look(self.rng, path, None if named else definition(entry))
        replies.append(demo.fix(self.rng, path, numbers[0], pair[0]))
        replies += [demo.check(self.rng, module, entry, symptom.call)] if late else []
        forms = demo.STILL if late else demo.SECOND
        replies.append(demo.fix(self.rng, path, numbers[1], pair[1], forms, symptom.want.text()))
        replies += [demo.check(self.rng, module, entry, symptom.call)] if checked else []
        replies.append(demo.submit(self.rng, checked))
        task = self.finish("two-place", entry, package, modules, broken, symptom, named, replies, "hard")
        task.key = "\n".join([*both, symptom.call])
        return task

    def new_file(self):
        """Return a task in which a module with one function has to be written."""
        entry = self.rng.choice(self.pool)
        if entry.is_class or entry.uses or entry.source.count("\n") > NEW_FILE_LINES:
            return None
        lines, _ = self.prepare(entry)
        body = [line for line in lines if not line.lstrip().startswith('"""')]
        shown = [(e, o) for e, o in zip(entry.examples, entry.outcomes) if o.text() and not o.raised]
        if not shown:
            return None
        call, want = shown[0]  # the first example says most
        package, modules = self.package(entry, lines)
        main = modules[0]
        main.entries, main.doc = [(entry, body)], ""
        if len(modules) < 2:
            return None
        path, module = f"{package}/{main.name}.py", f"{package}.{main.name}"
        checked = self.rng.random() < 0.4
        broken = dict(self.files(package, modules))
        del broken[path]
        replies = [demo.reply(self.rng.choice(demo.LIST), f"ls {package}")]
        replies += demo.new_file(self.rng, path, "\n".join(body))
        replies += [demo.check(self.rng, module, entry, call)] if checked else []
        replies.append(demo.submit(self.rng, checked))
        symptom = faults.Symptom(call, faults.Outcome(raised="ModuleNotFoundError"), want)
        task = self.finish("new-file", entry, package, modules, broken, symptom, True, replies, "medium")
        task.key = "\n".join(["new", *body, call])
        signature = body[0].removeprefix("def ").rstrip(":")
        doc = entry.doc[0].lower() + entry.doc[1:]
        task.issue = self.rng.choice(demo.NEW_FILE).format(
            path=path, signature=signature, doc=doc, call=call, want=want.text()
        )
        return task

    def wrong_import(self):
        """Return a task in which a helper is imported from a module that lacks it."""
        users = [entry for entry in self.pool if entry.uses]
        if not users:
            return None
        entry = self.rng.choice(users)
        lines, _ = self.prepare(entry)
        package, modules = self.package(entry, lines, apart=True)
        main = modules[0]
        shown = [(e, o) for e, o in zip(entry.examples, entry.outcomes) if o.text() and not o.raised]
        if len(modules) < 3 or not shown:
            return None
        call, want = self.rng.choice(shown)
        path, module = f"{package}/{main.name}.py", f"{package}.{main.name}"
        good = main.imports[0]
        bad = good.replace(f".{modules[1].name} ", f".{modules[2].name} ")
        why = f"imports `{entry.uses[0]}` from `{modules[2].name}`, but it is in `{modules[1].name}`"
        broken = dict(self.files(package, modules))
        number = broken[path].split("\n").index(good) + 1
        mutation = mutate.Mutation("wrong-import", number - 1, (good,), (bad,), why)
        broken[path] = "\n".join(mutate_at(broken[path].split("\n"), number, mutation))
        named, checked = self.rng.random() < 0.7, self.rng.random() < 0.5
        replies = demo.look(self.rng, path, None if named else definition(entry))
        replies.append(demo.reply(f"Where is `{entry.uses[0]}`?", f'grep -rn "{definition(self.entries[entry.uses[0]])}" .'))
        replies.append(demo.fix(self.rng, path, number, mutation))
        replies += [demo.check(self.rng, module, entry, call)] if checked else []
        replies.append(demo.submit(self.rng, checked))
        symptom = faults.Symptom(call, faults.Outcome(raised="ImportError"), want)
        task = self.finish("wrong-import", entry, package, modules, broken, symptom, named, replies, "medium")
        task.key = f"{bad}\n{call}"
        return task


def definition(entry):
    """Return what a search for the definition of an entry looks for."""
    return f"{'class' if entry.is_class else 'def'} {entry.name}"


def mutate_at(lines, number, mutation):
    """Return the lines of a module with a fault at a line (from 1)."""
    at = number - 1
    if tuple(lines[at:at + len(mutation.good)]) != mutation.good:
        raise ValueError(f"line {number} is not {mutation.good}")
    return [*lines[:at], *mutation.bad, *lines[at + len(mutation.good):]]
