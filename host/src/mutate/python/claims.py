"""What does a failed statement of a test ask of which expression?"""

import ast

from shown import has_call, text_of


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


def read_claim(chain, error, inner, compared, made):
    """What the test asks of which expression: call, want (text), and the value or the
    expression (`other`) that it should be. `made` holds the names that calls before gave."""
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
        return read_test(statement.test, compared, raised, made)
    call = value_of(statement)
    if isinstance(statement, ast.Expr) and isinstance(call, ast.Call):
        claim = read_unittest(call, inner, raised, made) or read_helper(call, raised, made)
        if claim is not None:
            return claim
        if raised is None:
            return None
    if raised is None or call is None:
        return None
    return {"call": call, "want": "no error", "value": None}


def read_test(test, compared, raised, made):
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return {"call": test.operand, "want": "false", "value": None}
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        left, right = test.left, test.comparators[0]
        if not isinstance(test.ops[0], (ast.Eq, ast.Is)):
            return {"call": test, "want": "true", "value": None}
        return equal(left, right, (compared and compared[1], compared and compared[2]), raised, made)
    return {"call": test, "want": "true", "value": None}


def equal(first, second, seen, raised, made):
    """One side of an equality should give what the other one says; `seen` are their texts
    where the comparison was reached."""
    sides = [(first, second, seen[1]), (second, first, seen[0])]
    # A call is what gives; after that a name that a call gave, unless it is called expected.
    sides.sort(key=lambda side: rank(side[0], made))
    call, other, value = sides[0]
    return {"call": call, "want": "value", "value": None if raised else value, "other": other}


def rank(node, made):
    if isinstance(node, ast.Name) and node.id.lower().startswith(EXPECTED):
        return 3
    if has_call(node):
        return 0
    names = {name.id for name in ast.walk(node) if isinstance(name, ast.Name)}
    return 1 if names & made else 2


EXPECTED = ("expect", "want", "correct", "desired", "answer", "solution")
HELPERS = ("assert_equal", "assert_equals", "eq_", "assertEqual")


def read_helper(call, raised, made):
    """A function of the tests' own that compares two values."""
    if name_of(call.func) in HELPERS and len(call.args) == 2:
        return equal(call.args[0], call.args[1], (None, None), raised, made)
    return None


EQUAL = ("assertEqual", "assertListEqual", "assertTupleEqual", "assertDictEqual", "assertSetEqual")
EQUAL += ("assertSequenceEqual", "assertMultiLineEqual", "assertEquals", "assertIs")


def read_unittest(call, inner, raised, made):
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
        seen = [text_of(values[name]) if name in values else None for name in names]
        return equal(first, second, seen, raised, made)
    if name in ("assertTrue", "assertFalse") and arguments:
        return {"call": arguments[0], "want": name[6:].lower(), "value": None}
    if name == "assertIsNone" and arguments:
        return {"call": arguments[0], "want": "value", "value": "None"}
    if name == "assertRaises" and len(arguments) >= 2:
        inner_call = ast.Call(func=arguments[1], args=arguments[2:], keywords=call.keywords)
        return {"call": inner_call, "want": "raise", "value": ast.unparse(arguments[0])}
    return None
