"""Which one-line faults can a piece of Python have?

`mutants(source)` returns every small fault that it knows how to make in the source:
each changes one line, or leaves out one guard of two lines. Faults that change
nothing for any call are still among them; the generator sorts those out.
"""

import ast
import functools
import re
from dataclasses import dataclass

OPERATORS = {
    ast.Add: ("+", ["-"]), ast.Sub: ("-", ["+"]), ast.Mult: ("*", ["+", "/"]), ast.Div: ("/", ["*", "//"]),
    ast.FloorDiv: ("//", ["%", "*"]), ast.Mod: ("%", ["//"]), ast.Pow: ("**", ["*"]),
}
COMPARISONS = {
    ast.Lt: ("<", ["<=", ">"]), ast.LtE: ("<=", ["<", ">="]), ast.Gt: (">", [">=", "<"]), ast.GtE: (">=", [">", "<="]),
    ast.Eq: ("==", ["!="]), ast.NotEq: ("!=", ["=="]), ast.In: ("in", ["not in"]), ast.NotIn: ("not in", ["in"]),
    ast.Is: ("is", ["is not"]), ast.IsNot: ("is not", ["is"]),
}
FUNCTIONS = {"min": "max", "max": "min", "all": "any", "any": "all", "sum": "len", "sorted": "list", "int": "str", "str": "int"}
METHODS = {
    "append": "extend", "extend": "append", "upper": "lower", "lower": "upper", "startswith": "endswith",
    "capitalize": "upper", "isdigit": "isalpha", "isalnum": "isdigit", "isalpha": "isdigit", "strip": "split",
    "ljust": "rjust", "items": "keys", "values": "keys", "islower": "isupper", "setdefault": "get",
}
UNKNOWN_FUNCTIONS = {
    "len": "length", "sum": "add_all", "sorted": "sort", "max": "maximum", "min": "minimum", "range": "xrange",
    "enumerate": "numbered", "round": "rounded", "abs": "absolute", "str": "string", "int": "integer", "zip": "pairs",
}
UNKNOWN_METHODS = {
    "append": "push", "extend": "add_all", "upper": "to_upper", "lower": "to_lower", "startswith": "starts_with",
    "items": "pairs", "values": "all_values", "join": "concat", "split": "cut", "strip": "trim", "get": "get_or",
    "partition": "split_at", "capitalize": "capital", "ljust": "pad_right", "count": "count_of", "isdigit": "is_digit",
}
EXCEPTIONS = {"ValueError": ["TypeError", "KeyError"], "IndexError": ["KeyError", "ValueError"]}
SIMPLE = (ast.Name, ast.Constant, ast.Attribute, ast.Subscript, ast.Call)
NEEDED = "has `{bad}`, but `{good}` is needed"


@dataclass(frozen=True)
class Mutation:
    """One fault: at line `start` (from 0) of the right source, `good` lines become `bad` lines."""

    kind: str
    start: int
    good: tuple
    bad: tuple
    why: str  # follows "Line N ..." in a sentence about the fault

    def apply(self, lines):
        """Return the lines with the fault."""
        return [*lines[: self.start], *self.bad, *lines[self.start + len(self.good):]]


class _Finder(ast.NodeVisitor):
    """Collects the mutations of one source."""

    def __init__(self, source):
        self.lines = source.split("\n")
        self.found = []
        self.names = []
        self.attributes = []

    # ---- edits

    def replace(self, kind, number, start, end, new, why=NEEDED):
        """Record a fault: line `number` (from 1) with columns start to end replaced."""
        line = self.lines[number - 1]
        good, bad = line[start:end].strip(), new.strip()
        text = (line[:start] + new + line[end:]).rstrip()
        self.found.append(Mutation(kind, number - 1, (line,), (text,), why.format(good=good, bad=bad)))

    def between(self, kind, left, right, symbol, new):
        """Replace the operator that stands between two nodes."""
        if left.end_lineno != right.lineno:
            return
        gap = self.lines[right.lineno - 1][left.end_col_offset:right.col_offset]
        at = left.end_col_offset + gap.index(symbol)
        self.replace(kind, right.lineno, at, at + len(symbol), new)

    def swap(self, kind, left, right, why):
        """Let two nodes of one line change places."""
        if left.lineno != right.end_lineno or not isinstance(left, SIMPLE) or not isinstance(right, SIMPLE):
            return
        line = self.lines[left.lineno - 1]
        a, b = line[left.col_offset:left.end_col_offset], line[right.col_offset:right.end_col_offset]
        middle = line[left.end_col_offset:right.col_offset]
        if a != b:
            self.replace(kind, left.lineno, left.col_offset, right.end_col_offset, b + middle + a, why)

    def node(self, kind, node, new, why=NEEDED):
        """Replace a whole node of one line."""
        if node.lineno == node.end_lineno:
            self.replace(kind, node.lineno, node.col_offset, node.end_col_offset, new, why)

    # ---- statements

    def visit_FunctionDef(self, node):
        outer = self.names
        arguments = [a.arg for a in node.args.args if a.arg != "self"]
        stored = [n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
        self.names = list(dict.fromkeys(arguments + stored))
        self.guard(node)
        for default in node.args.defaults:
            self.default(default)
        for statement in node.body:
            self.visit(statement)
        self.names = outer

    def visit_ClassDef(self, node):
        stored = [n.attr for n in ast.walk(node) if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store)]
        self.attributes = list(dict.fromkeys(stored))
        self.generic_visit(node)

    def guard(self, node):
        """Leave out an `if ...: return ...` at the start of a function."""
        body = node.body[1:] if ast.get_docstring(node) else node.body
        first = body[0]
        short = isinstance(first, ast.If) and not first.orelse and first.end_lineno == first.lineno + 1
        if short and len(body) > 1 and isinstance(first.body[0], (ast.Return, ast.Raise)):
            good = tuple(self.lines[first.lineno - 1:first.end_lineno])
            why = f"has no `{good[0].strip().rstrip(':')}` before it"
            self.found.append(Mutation("missing-guard", first.lineno - 1, good, (), why))

    def default(self, node):
        """Change the default of a parameter."""
        if not isinstance(node, ast.Constant) or node.value is None:
            return
        if isinstance(node.value, bool):
            self.node("wrong-default", node, str(not node.value))
        elif isinstance(node.value, int):
            self.node("wrong-default", node, str(node.value + 1))
            self.node("wrong-default", node, str(node.value * 2 or 2))
        elif isinstance(node.value, str) and node.value:
            self.node("wrong-default", node, '""')
            self.node("wrong-default", node, '" "')

    def visit_Return(self, node):
        if node.value and node.lineno == node.end_lineno and not isinstance(node.value, ast.Constant):
            why = "makes the result, but does not return it"
            self.replace("missing-return", node.lineno, node.col_offset, node.value.col_offset, "", why)
        self.generic_visit(node)

    def visit_AugAssign(self, node):
        symbol = OPERATORS[type(node.op)][0] + "="
        other = "-=" if symbol == "+=" else "+="
        for new in ("=", other):
            self.between("assignment", node.target, node.value, symbol, new)
        self.visit(node.value)

    def visit_If(self, node):
        self.negate(node.test)
        self.generic_visit(node)

    visit_IfExp = visit_If

    def visit_ExceptHandler(self, node):
        for new in EXCEPTIONS.get(getattr(node.type, "id", ""), ()):
            self.node("exception", node.type, new)
        self.generic_visit(node)

    def negate(self, test):
        """Turn a condition round; comparisons have mutations of their own."""
        why = "tests for the opposite of what is meant"
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            self.replace("negated-condition", test.lineno, test.col_offset, test.operand.col_offset, "", why)
        elif isinstance(test, (ast.Name, ast.Call, ast.Attribute)):
            self.replace("negated-condition", test.lineno, test.col_offset, test.col_offset, "not ", why)

    # ---- expressions

    def visit_BinOp(self, node):
        symbol, others = OPERATORS[type(node.op)]
        for new in others:
            self.between("operator", node.left, node.right, symbol, new)
        if isinstance(node.op, (ast.Sub, ast.Div, ast.FloorDiv, ast.Mod)):
            self.swap("swapped-operands", node.left, node.right, "has its two sides the wrong way round")
        if isinstance(node.right, ast.Constant) and isinstance(node.op, (ast.Add, ast.Sub)):
            gap = self.lines[node.lineno - 1][node.left.end_col_offset:node.right.col_offset]
            at = node.left.end_col_offset + gap.index(symbol) - 1
            self.replace("dropped-term", node.right.lineno, at, node.right.end_col_offset, "", "lacks `{good}`")
        self.generic_visit(node)

    def visit_Compare(self, node):
        sides = [node.left, *node.comparators]
        for left, right, operator in zip(sides, sides[1:], node.ops):
            symbol, others = COMPARISONS[type(operator)]
            for new in others:
                self.between("comparison", left, right, symbol, new)
        self.generic_visit(node)

    def visit_BoolOp(self, node):
        symbol, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        for left, right in zip(node.values, node.values[1:]):
            self.between("and-or", left, right, symbol, new)
        self.generic_visit(node)

    def visit_Constant(self, node, kind="constant"):
        if isinstance(node.value, bool):
            self.node("true-false", node, str(not node.value))
        elif isinstance(node.value, int):
            self.node(kind, node, str(node.value + 1))
            if node.value > 0:
                self.node(kind, node, str(node.value - 1))

    def visit_UnaryOp(self, node):
        if isinstance(node.op, ast.USub):
            self.replace("sign", node.lineno, node.col_offset, node.col_offset + 1, "", "lacks a minus sign")
        self.generic_visit(node)

    def visit_Subscript(self, node):
        if isinstance(node.slice, ast.Constant):
            self.visit_Constant(node.slice, "index")
            self.visit(node.value)
        else:
            self.generic_visit(node)

    def visit_Slice(self, node):
        if node.step is None and (node.lower is None) != (node.upper is None):
            part = node.lower or node.upper
            line = self.lines[part.lineno - 1]
            text = line[part.col_offset:part.end_col_offset]
            start, end = (part.col_offset, part.end_col_offset + 1) if node.lower else (part.col_offset - 1, part.end_col_offset)
            self.replace("slice", part.lineno, start, end, f":{text}" if node.lower else f"{text}:")
        self.generic_visit(node)

    def visit_comprehension(self, node):
        for test in node.ifs:
            self.negate(test)
            line = self.lines[test.lineno - 1]
            at = line.rindex(" if ", 0, test.col_offset + 1)
            self.replace("missing-filter", test.lineno, at, test.end_col_offset, "", "lacks `{good}`")
        self.generic_visit(node)

    def visit_Name(self, node):
        if node.id in self.names and isinstance(node.ctx, ast.Load):
            for other in self.names:
                if other != node.id and other != "_":
                    self.node("variable", node, other)

    def visit_Attribute(self, node):
        if isinstance(node.value, ast.Name) and node.value.id == "self" and isinstance(node.ctx, ast.Load):
            for other in self.attributes:
                if other != node.attr:
                    self.node("attribute", node, f"self.{other}")
        self.generic_visit(node)

    def visit_Call(self, node):
        if len(node.args) >= 2:
            self.swap("swapped-arguments", node.args[0], node.args[1], "passes its arguments in the wrong order")
        if node.lineno == node.end_lineno:
            self.drop_argument(node)
            self.rename_call(node)
        self.generic_visit(node)

    def drop_argument(self, node):
        """Leave out the last of several arguments, or an optional keyword."""
        values = [*node.args, *(keyword.value for keyword in node.keywords)]
        name = getattr(node.func, "id", getattr(node.func, "attr", ""))
        if len(values) >= 2 and name in ("round", "get", "max", "min", "sorted", "split"):
            start, end = values[-2].end_col_offset, values[-1].end_col_offset
            self.replace("missing-argument", node.lineno, start, end, "", "lacks `{good}` in the call")

    def rename_call(self, node):
        """Call another function, or one that does not exist."""
        if isinstance(node.func, ast.Name):
            name, at = node.func.id, node.func.col_offset
            other, unknown = FUNCTIONS.get(name), UNKNOWN_FUNCTIONS.get(name)
            if name[0].islower() and "_" in name:
                unknown = f"get_{name}"
        else:
            name, at = node.func.attr, node.func.end_col_offset - len(node.func.attr)
            other, unknown = METHODS.get(name), UNKNOWN_METHODS.get(name)
        if other:
            self.replace("wrong-call", node.lineno, at, at + len(name), other)
        if unknown:
            why = "calls `{bad}`, but the name is `{good}`"
            self.replace("unknown-name", node.lineno, at, at + len(name), unknown, why)

    def visit_JoinedStr(self, node):
        """Python 3.11 gives no true columns inside an f-string; only formats are changed."""
        line = self.lines[node.lineno - 1]
        for match in re.finditer(r":0(\d)d\}|:\.(\d)f\}", line):
            self.replace("format", node.lineno, match.start(), match.end(), "}", "lacks the format `{good}`")
        for match in re.finditer(r"\{(\w+)[:}]", line):
            for other in self.names:
                if other not in (match[1], "_"):
                    self.replace("variable", node.lineno, match.start(1), match.end(1), other)


@functools.cache
def mutants(source):
    """Return the distinct mutations of a source that still compile."""
    finder = _Finder(source)
    finder.visit(ast.parse(source))
    kept = {}
    for mutation in finder.found:
        text = "\n".join(mutation.apply(finder.lines))
        if text not in kept and text != source:
            try:
                compile(text, "mutant", "exec")
            except SyntaxError:
                continue
            kept[text] = mutation
    return tuple(kept.values())
