"""How does a call inside a test become lines that somebody else can run?"""

import ast
import builtins
import importlib

LONGEST = 400
SETUP_LINES = 8


def text_of(value):
    """The repr of a value, or None where it is long or not the same each time."""
    try:
        text = repr(value)
    except Exception:
        return None
    return text if lasts(text) else None


def lasts(text):
    """Whether a text is short, and the same in another process and another folder."""
    return len(text) <= LONGEST and " at 0x" not in text and "/workspace" not in text


def is_literal(value):
    text = text_of(value)
    try:
        return text is not None and ast.literal_eval(text) == value
    except Exception:
        return False


def has_call(node):
    return any(isinstance(inner, ast.Call) for inner in ast.walk(node))


class Shown:
    """Makes lines that somebody else can run from a statement inside a test."""

    def __init__(self, tree, function, chain, frame):
        self.imports = imports_of(tree)
        self.definitions = definitions_of(tree)
        self.function = function
        self.chain = chain
        self.frame = frame
        self.values = {}
        self.lines_before = []
        self.before = self.statements_before()
        made = [node for node in self.before or [] if isinstance(node, ast.Assign) and has_call(node)]
        self.made = set().union(*map(names_bound, made))

    def example(self, claim):
        if claim["value"] is None and claim.get("other") is not None:
            claim["value"] = self.literal(claim["other"])
        # Alone where the call says all; else after the statements before it.
        for before in ([], self.before) if has_call(claim["call"]) else (self.before,):
            if before is None:
                return None
            found = self.lines(claim["call"], before)
            if found is not None:
                setup, call = found
                return {"setup": setup, "call": call, "want": claim["want"], "value": claim["value"]}
        return None

    def literal(self, node):
        """The text of a plain value, or of a name that holds one."""
        if isinstance(node, ast.Name):
            value = self.frame.f_locals.get(node.id, self.frame.f_globals.get(node.id))
            return text_of(value) if value is not None and is_literal(value) else None
        try:
            return text_of(ast.literal_eval(node))
        except Exception:
            return None

    def statements_before(self):
        """The simple statements of the function before the one that failed."""
        first = self.chain[0]
        before = []
        for node in self.function.body:
            if node is first:
                break
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
                continue
            if isinstance(node, ast.Assert):
                continue
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
                if name_of(node.value.func).startswith("assert"):
                    continue
            kinds = (ast.Assign, ast.AugAssign, ast.Expr, ast.Import, ast.ImportFrom, ast.Delete)
            if not isinstance(node, kinds):
                return None
            before.append(node)
        return before if len(before) <= SETUP_LINES else None

    def lines(self, call, before):
        """Lines to run before the call, and the call, if every name in them can be explained."""
        before = needed(before, call)
        bound = set()
        for node in before:
            bound |= names_bound(node)
        self.values, self.lines_before = {}, []
        for node in [*before, call]:
            if not all(self.explain(name) for name in names_read(node) if name not in bound):
                return None
        last = before[-1] if before else None
        if isinstance(call, ast.Name) and isinstance(last, ast.Assign) and len(last.targets) == 1:
            if isinstance(last.targets[0], ast.Name) and last.targets[0].id == call.id:
                before, call = before[:-1], last.value
        put = Put(self.values)
        texts = [ast.unparse(put.visit(copy_of(node))) for node in before]
        call = ast.unparse(put.visit(copy_of(call)))
        if len(call) > LONGEST or any(len(text) > LONGEST for text in texts):
            return None
        return self.lines_before + texts, call

    def explain(self, name):
        """Says by a value or by a line of its own what a name is."""
        local = name in self.frame.f_locals
        if name in self.values:
            return True
        if not local and name in self.imports:
            return self.add(self.imports[name])
        if not local and name not in self.frame.f_globals:
            return hasattr(builtins, name)
        value = self.frame.f_locals[name] if local else self.frame.f_globals[name]
        if is_literal(value):
            self.values[name] = value
            return True
        if not local and name in self.definitions:
            node = self.definitions[name]
            text = ast.unparse(node)
            if text in self.lines_before:
                return True
            own = names_bound(node) | {name}
            if text.count("\n") >= SETUP_LINES or len(text) > 2 * LONGEST:
                return False
            # What it names itself keeps its name: a value is put in the place of names of the call only.
            inner = [read for read in names_read(node) if read not in own]
            if any(read in self.frame.f_globals and read not in self.imports for read in inner):
                return False
            return all(self.explain(read) for read in inner) and self.add(text)
        line = import_of(name, value)
        return line is not None and self.add(line)

    def add(self, line):
        head, _, name = line.partition(" import ")
        for at, known in enumerate(self.lines_before):
            if line.startswith("from ") and known.startswith(head + " import "):
                if name not in known.partition(" import ")[2].split(", "):
                    self.lines_before[at] += ", " + name
                return True
        if line not in self.lines_before:
            self.lines_before.append(line)
        return True


def needed(before, call):
    """Without the statements that only bind what nothing after them reads."""
    kept, read = [], set(names_read(call))
    for node in reversed(before):
        plain = isinstance(node, ast.Assign) and all(isinstance(target, ast.Name) for target in node.targets)
        if not plain or read & names_bound(node):
            kept.insert(0, node)
            if plain:
                # What the names were before this one, nothing after it reads.
                read -= names_bound(node)
            read.update(names_read(node))
    return kept


def names_bound(node):
    """Names that a statement or expression binds, arguments of functions included."""
    bound = set()
    for inner in ast.walk(node):
        if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store):
            bound.add(inner.id)
        elif isinstance(inner, ast.alias):
            bound.add((inner.asname or inner.name).split(".")[0])
        elif isinstance(inner, ast.arg):
            bound.add(inner.arg)
    return bound


def names_read(node):
    """Names that come from outside, in order."""
    own = names_bound(node) if not isinstance(node, ast.Assign) else set()
    read = []
    for inner in ast.walk(node):
        if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Load) and inner.id not in own:
            if inner.id not in read:
                read.append(inner.id)
    return read


def definitions_of(tree):
    """Functions and values that the test file makes for its tests."""
    found = {}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and not node.decorator_list:
            found[node.name] = node
        elif isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            found[node.targets[0].id] = node
    return found


def copy_of(node):
    text = ast.unparse(ast.fix_missing_locations(node))
    return ast.parse(text).body[0] if isinstance(node, ast.stmt) else ast.parse(text, mode="eval").body


class Put(ast.NodeTransformer):
    """Puts values in the place of names."""

    def __init__(self, values):
        self.values = values

    def visit_Name(self, node):
        if isinstance(node.ctx, ast.Load) and node.id in self.values:
            return ast.parse(repr(self.values[node.id]), mode="eval").body
        return node

    def visit_Call(self, node):
        """`f(*[1, 2])` reads better as `f(1, 2)`."""
        self.generic_visit(node)
        arguments = []
        for argument in node.args:
            lists = (ast.List, ast.Tuple)
            plain = isinstance(argument, ast.Starred) and isinstance(argument.value, lists)
            arguments += argument.value.elts if plain else [argument]
        node.args = arguments
        node.keywords = [part for part in node.keywords if not is_empty_splat(part)]
        return node


def is_empty_splat(keyword):
    """`f(1, **{})` is `f(1)`."""
    return keyword.arg is None and isinstance(keyword.value, ast.Dict) and not keyword.value.keys


def imports_of(tree):
    """Which line of the test file binds a name?"""
    found = {}
    for node in tree.body:
        if isinstance(node, ast.Import):
            for part in node.names:
                bound = part.asname or part.name.split(".")[0]
                found[bound] = "import " + part.name + (" as " + part.asname if part.asname else "")
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            for part in node.names:
                if part.name != "*":
                    bound = part.asname or part.name
                    alias = " as " + part.asname if part.asname else ""
                    found[bound] = "from %s import %s%s" % (node.module, part.name, alias)
    return found


def import_of(name, value):
    """A line that binds `name` to a function or class."""
    module, own = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if not module or not own or "." in own or module.split(".")[0] in ("builtins", "__main__"):
        return None
    if getattr(importlib.import_module(module), own, None) is not value:
        return None
    return "from %s import %s%s" % (module, own, "" if own == name else " as " + name)
