"""What does a failing test show to somebody who cannot see it? A call, what it gave,
and what it should have given, each checked by running the call again."""

import ast
import builtins
import importlib

LONGEST = 240
SETUP_LINES = 8
EXAMPLES = 6


class Facts:
    """A plugin of pytest that collects examples from failing tests."""

    def __init__(self):
        self.examples = []
        self.compared = None

    def pytest_runtest_setup(self, item):
        self.compared = None

    def pytest_assertrepr_compare(self, config, op, left, right):
        self.compared = (op, text_of(left), text_of(right))

    def pytest_runtest_makereport(self, item, call):
        if call.when != "call" or call.excinfo is None or len(self.examples) >= EXAMPLES:
            return
        try:
            example = explain(item, call.excinfo.value, call.excinfo.tb, self.compared)
        except Exception:
            return
        if example is not None:
            example["test"] = item.nodeid
            self.examples.append(example)


def text_of(value):
    """The repr of a value, or None where it is long or not the same each time."""
    try:
        text = repr(value)
    except Exception:
        return None
    return None if len(text) > LONGEST or " at 0x" in text or "/workspace" in text else text


def is_literal(value):
    text = text_of(value)
    try:
        return text is not None and ast.literal_eval(text) == value
    except Exception:
        return False


def explain(item, error, tb, compared):
    path = str(item.path)
    frames = []
    while tb is not None:
        frames.append((tb.tb_frame, tb.tb_lineno))
        tb = tb.tb_next
    mine = [at for at, (frame, _) in enumerate(frames) if frame.f_code.co_filename == path]
    mine = [at for at in mine if not frames[at][0].f_code.co_name.startswith("<")]
    if not mine:
        return None
    frame, line = frames[mine[-1]]
    inner = frames[mine[-1] + 1][0] if mine[-1] + 1 < len(frames) else None
    with open(path, encoding="utf-8") as file:
        tree = ast.parse(file.read())
    function, chain = enclosing(tree, line)
    if function is None or not chain:
        return None
    claim = read_claim(chain, error, inner, compared)
    if claim is None or not has_call(claim["call"]):
        return None
    shown = Shown(tree, function, chain, frame)
    example = shown.example(claim)
    raised = None if is_claim_of_test(error) else error
    return example if example and reproduces(example, raised) else None


def is_claim_of_test(error):
    """Whether the test itself failed, and not a call that it made."""
    return isinstance(error, AssertionError) or type(error).__name__ == "Failed"


def enclosing(tree, line):
    """The innermost function at a line, and the statements around the line, outermost first."""
    function, chain, body = None, [], tree.body
    while True:
        inside = [node for node in body if node.lineno <= line <= node.end_lineno]
        if not inside:
            return function, chain
        node = inside[0]
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            function, chain, body = node, [], node.body
        elif isinstance(node, ast.ClassDef):
            chain, body = [], node.body
        else:
            chain.append(node)
            body = []
            for field in ("body", "orelse", "finalbody"):
                body += getattr(node, field, [])
            for handler in getattr(node, "handlers", []):
                body += handler.body


def has_call(node):
    return any(isinstance(inner, ast.Call) for inner in ast.walk(node))


def raises_of(node):
    """The exception that a `with` block expects, if it is one of those."""
    if isinstance(node, ast.With):
        for part in node.items:
            call = part.context_expr
            if isinstance(call, ast.Call) and call.args and name_of(call.func) in (
                "raises",
                "assertRaises",
                "assertRaisesRegex",
            ):
                return ast.unparse(call.args[0])
    return None


def name_of(function):
    return getattr(function, "attr", getattr(function, "id", ""))


def value_of(statement):
    """The expression that a simple statement evaluates."""
    if isinstance(statement, (ast.Expr, ast.Assign, ast.Return, ast.AnnAssign)):
        return statement.value
    return None


def read_claim(chain, error, inner, compared):
    """What the test asks of which expression: call, want (text) and how it ended."""
    statement = chain[-1]
    raised = None if is_claim_of_test(error) else error
    expected = next((found for found in map(raises_of, reversed(chain)) if found), None)
    if type(error).__name__ == "Failed" and "DID NOT RAISE" not in str(error):
        return None
    if expected is not None:
        block = next(node for node in reversed(chain) if raises_of(node))
        body = block.body[-1] if statement is block else statement
        call = value_of(body)
        return None if call is None else {"call": call, "want": "raise", "value": expected}
    if isinstance(statement, ast.Assert):
        return read_test(statement.test, compared, raised)
    call = value_of(statement)
    if isinstance(statement, ast.Expr) and isinstance(call, ast.Call):
        claim = read_unittest(call, inner, raised)
        if claim is not None:
            return claim
        if raised is None:
            return None
    if raised is None or call is None:
        return None
    return {"call": call, "want": "no error", "value": None}


def read_test(test, compared, raised):
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return {"call": test.operand, "want": "false", "value": None}
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        left, right = test.left, test.comparators[0]
        equal = isinstance(test.ops[0], (ast.Eq, ast.Is))
        if not equal:
            return {"call": test, "want": "true", "value": None}
        if has_call(left):
            return equal_to(left, right, compared and compared[2], raised)
        return equal_to(right, left, compared and compared[1], raised)
    return {"call": test, "want": "true", "value": None}


def equal_to(call, other, seen, raised):
    """The call should give what the other side of an equality says; `seen` is its text where
    the comparison was reached."""
    value = seen if raised is None else None
    return {"call": call, "want": "value", "value": value, "other": other}


EQUAL = ("assertEqual", "assertListEqual", "assertTupleEqual", "assertDictEqual", "assertSetEqual")
EQUAL += ("assertSequenceEqual", "assertMultiLineEqual", "assertEquals", "assertIs")


def read_unittest(call, inner, raised):
    name, arguments = name_of(call.func), call.args
    if not isinstance(call.func, ast.Attribute) or not isinstance(call.func.value, ast.Name):
        return None
    if call.func.value.id != "self":
        return None
    if name in EQUAL and len(arguments) >= 2:
        values = inner.f_locals if inner is not None and raised is None else {}
        first, second = arguments[:2]
        names = ("first", "second")
        if name == "assertIs":
            names = ("expr1", "expr2")
        elif name in ("assertListEqual", "assertTupleEqual"):
            names = ("list1", "list2") if "List" in name else ("tuple1", "tuple2")
        elif name == "assertSetEqual":
            names = ("set1", "set2")
        elif name == "assertDictEqual":
            names = ("d1", "d2")
        elif name == "assertSequenceEqual":
            names = ("seq1", "seq2")
        if has_call(first):
            seen = text_of(values[names[1]]) if names[1] in values else None
            return equal_to(first, second, seen, raised)
        seen = text_of(values[names[0]]) if names[0] in values else None
        return equal_to(second, first, seen, raised)
    if name in ("assertTrue", "assertFalse") and arguments:
        return {"call": arguments[0], "want": name[6:].lower(), "value": None}
    if name == "assertIsNone" and arguments:
        return {"call": arguments[0], "want": "value", "value": "None"}
    if name == "assertRaises" and len(arguments) >= 2:
        inner_call = ast.Call(func=arguments[1], args=arguments[2:], keywords=call.keywords)
        return {"call": inner_call, "want": "raise", "value": ast.unparse(arguments[0])}
    return None


class Shown:
    """Makes lines that somebody else can run from a statement inside a test."""

    def __init__(self, tree, function, chain, frame):
        self.imports = imports_of(tree)
        self.definitions = definitions_of(tree)
        self.function = function
        self.chain = chain
        self.frame = frame

    def example(self, claim):
        if claim["value"] is None and claim.get("other") is not None:
            claim["value"] = self.literal(claim["other"])
        for before in ([], self.statements_before()):
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
        bound = set()
        for node in before:
            bound |= names_bound(node)
        self.values, self.before = {}, []
        for node in [*before, call]:
            if not all(self.explain(name) for name in names_read(node) if name not in bound):
                return None
        put = Put(self.values)
        texts = [ast.unparse(put.visit(copy_of(node))) for node in before]
        call = ast.unparse(put.visit(copy_of(call)))
        if len(call) > LONGEST or any(len(text) > LONGEST for text in texts):
            return None
        return self.before + texts, call

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
            if text in self.before:
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
        if line not in self.before:
            self.before.append(line)
        return True


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
        return node


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


def reproduces(example, original):
    """Runs the lines as a reader would, and notes what came of them: the same as in the test."""
    space = {"__name__": "example"}
    try:
        exec("\n".join(example["setup"]), space)
        value = eval(example["call"], space)
    except Exception as error:
        message = str(error).strip()
        if type(error) is not type(original) or message != str(original).strip():
            return False
        if "\n" in message or len(message) > LONGEST or "/workspace" in message or " at 0x" in message:
            return False
        example["raised"] = type(error).__name__ + (": " + message if message else "")
        expected = str(example["value"]).split(".")[-1]
        return not (example["want"] == "raise" and type(error).__name__ == expected)
    want = example["want"]
    if original is not None or want == "no error":
        return False
    example["gave"] = text_of(value)
    if want in ("true", "false"):
        return bool(value) != (want == "true")
    if want == "raise":
        return True
    if example["value"] is None or example["gave"] == example["value"]:
        return False
    if example["gave"] is None:
        # Something without a lasting text, where a plain value should be.
        example["gave_type"] = type(value).__name__
        try:
            return type(ast.literal_eval(example["value"])) is not type(value)
        except Exception:
            return False
    return True
