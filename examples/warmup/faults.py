"""Which faults of the corpus can be seen, and in which calls?

Loads the corpus as text, runs the examples of each entry on the right source and on
each mutant, and keeps the mutants for which some example differs. A run is bounded
by a count of lines, so the answer is the same on every machine.
"""

import ast
import importlib
import io
import keyword
import re
import sys
import tokenize
import zlib
from dataclasses import dataclass, field
from pathlib import Path

import mutate

TOPICS = ("numbers", "lists", "text", "dicts", "dates", "money", "maps", "games", "parsing", "classes")
HELD_OUT_IN = 5  # one function in five is never trained on
LINE_LIMIT = 5000
SHOWN_CHARS = 40

# Other names for parameters and locals, so that a fault is learnt and not a text.
SYNONYMS = {
    "value": ["number", "amount", "given"], "values": ["numbers", "readings", "data"], "text": ["line", "message", "source"],
    "word": ["term", "token", "name"], "words": ["terms", "tokens", "names"], "items": ["things", "elements", "entries"],
    "item": ["thing", "element"], "result": ["answer", "found", "out"], "table": ["mapping", "record"],
    "number": ["n", "value", "num"], "rows": ["grid", "lines"], "count": ["amount", "times"], "limit": ["most", "bound"],
    "a": ["x", "first", "p"], "b": ["y", "second", "q"], "left": ["one", "former"], "right": ["two", "latter"],
    "points": ["score", "marks"], "wanted": ["target", "sought"], "amount": ["total", "value"], "n": ["number", "k"],
    "size": ["length", "step"], "width": ["columns", "w"], "index": ["place", "at"], "month": ["m", "mon"],
}


@dataclass(frozen=True)
class Outcome:
    """What a call does: returns a value, or raises."""

    raised: str = ""
    value: object = None

    def same(self, other):
        """Tell if a test would see no difference."""
        return self.raised == other.raised and self.value == other.value

    def text(self):
        """Return it as a person writes it, or None if that is not short and plain."""
        text = self.raised or show(self.value)
        return text if text and len(text) <= SHOWN_CHARS else None


@dataclass(frozen=True)
class Symptom:
    """A call in which a fault shows."""

    call: str
    got: Outcome
    want: Outcome


@dataclass
class Entry:
    """One function or class of the corpus."""

    name: str
    source: str
    doc: str
    is_class: bool
    examples: tuple
    uses: tuple
    outcomes: list = field(default_factory=list)  # of the examples, on the right source

    @property
    def group(self):
        """What has to be on the same side of the split: a helper and its users."""
        return self.uses[0] if self.uses else self.name

    @property
    def held_out(self):
        return zlib.crc32(self.group.encode()) % HELD_OUT_IN == 0


@dataclass(frozen=True)
class Seen:
    """A mutation (by number) of an entry, with the calls in which it shows."""

    entry: Entry
    number: int
    kind: str
    symptoms: tuple


class _TooLong(BaseException):
    """The run went past the limit of lines."""


def show(value):
    """Return plain data with double quotes, or None if it cannot be shown so."""
    if isinstance(value, str):
        return None if set(value) & set("\"'\\\n`") else f'"{value}"'
    if value is None or isinstance(value, (bool, int)):
        return repr(value)
    if isinstance(value, float):
        return repr(value) if len(repr(value)) <= 8 else None
    if isinstance(value, (list, tuple)):
        parts = [show(part) for part in value]
        ends = "[]" if isinstance(value, list) else "()"
        return None if None in parts else f"{ends[0]}{', '.join(parts)}{ends[1]}"
    if isinstance(value, dict):
        parts = [(show(key), show(part)) for key, part in value.items()]
        return None if any(None in pair for pair in parts) else "{" + ", ".join(f"{k}: {v}" for k, v in parts) + "}"
    return None


def call(source, helpers, expression):
    """Run one example on a source; return its outcome, or None if it does not end or is no plain data."""
    count = 0

    def trace(frame, event, argument):
        nonlocal count
        count += 1
        if count > LINE_LIMIT:
            raise _TooLong
        return trace

    names = dict(helpers)
    before = sys.gettrace()
    try:
        exec(compile(source, "entry", "exec"), names)
        code = compile(expression, "example", "eval")
        sys.settrace(trace)
        value = eval(code, names)
        sys.settrace(before)
        if re.search(r"[\[{(]\.\.\.", repr(value)):
            return None  # it holds itself
        return Outcome(value=value)
    except _TooLong:
        return None
    except Exception as error:
        return Outcome(raised=type(error).__name__)
    finally:
        sys.settrace(before)


def load():
    """Return all entries of the corpus, by name, with the outcomes of their examples."""
    entries = {}
    for topic in TOPICS:
        module = importlib.import_module(f"corpus.{topic}")
        text = Path(module.__file__).read_text()
        lines = text.splitlines()
        for node in ast.parse(text).body:
            if getattr(node, "decorator_list", None):
                thing = getattr(module, node.name)
                source = "\n".join(lines[node.lineno - 1:node.end_lineno])
                doc = ast.get_docstring(node).splitlines()[0]
                is_class = isinstance(node, ast.ClassDef)
                entries[node.name] = Entry(node.name, source, doc, is_class, thing.examples, thing.uses)
    for entry in entries.values():
        if "'" in entry.source or "\\" in entry.source:
            raise ValueError(f"{entry.name} has a single quote or a backslash")
        helpers = helpers_of(entry, entries)
        entry.outcomes = [call(entry.source, helpers, example) for example in entry.examples]
    return entries


def helpers_of(entry, entries):
    """Return a namespace with the helpers that an entry calls."""
    names = {}
    for used in entry.uses:
        exec(entries[used].source, names)
    return names


def symptoms(entry, source, helpers):
    """Return the examples that differ on a source, or None if one of them does not end."""
    found = []
    for example, want in zip(entry.examples, entry.outcomes):
        got = call(source, helpers, example)
        if got is None:
            return None
        if not got.same(want) and got.text() and want.text():
            found.append(Symptom(example, got, want))
    return tuple(found)


def seen_faults(entry, entries):
    """Return the mutations of an entry that some example shows."""
    helpers = helpers_of(entry, entries)
    lines = entry.source.split("\n")
    found = []
    for number, mutation in enumerate(mutate.mutants(entry.source)):
        shown = symptoms(entry, "\n".join(mutation.apply(lines)), helpers)
        if shown:
            found.append(Seen(entry, number, mutation.kind, shown))
    return found


def renamed(source, rng):
    """Return the source with some parameters and locals under other names."""
    tokens = list(tokenize.generate_tokens(io.StringIO(source + "\n").readline))
    used = {token.string for token in tokens if token.type == tokenize.NAME}
    texts = " ".join(token.string for token in tokens if token.type == tokenize.STRING)
    tree = ast.parse(source)
    keywords = {node.arg for node in ast.walk(tree) if isinstance(node, ast.keyword)}
    attributes = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    mapping = {}
    for name, others in SYNONYMS.items():
        free = [o for o in others if o not in used and o not in mapping.values() and not keyword.iskeyword(o)]
        clear = name in used and name not in keywords | attributes and not re.search(rf"\b{name}\b", texts)
        if clear and free and rng.random() < 0.5:
            mapping[name] = rng.choice(free)
    lines = source.split("\n")
    for token in reversed(tokens):
        if token.type == tokenize.NAME and token.string in mapping:
            row, start = token.start
            lines[row - 1] = lines[row - 1][:start] + mapping[token.string] + lines[row - 1][token.end[1]:]
    return "\n".join(lines)
