"""What does a failing test show to somebody who cannot see it? A call, what it gave,
and what it should have given: seen in the test, again in a process of its own with the
fault, and in one without it."""

import ast
import os

from claims import enclosing, is_claim_of_test, rank, read_claim
from shown import Shown, lasts, text_of

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
    shown = Shown(tree, function, chain, frame)
    claim = read_claim(chain, error, inner, compared, shown.made)
    if claim is None or rank(claim["call"], shown.made) > 1:
        return None
    example = shown.example(claim)
    raised = None if is_claim_of_test(error) else error
    if example is None or not come_of(example, raised):
        return None
    return example


def come_of(example, raised):
    """Notes what came of a call in the process of the test; whether it is what the test saw."""
    seen = run(example)
    if seen is None:
        return False
    example["seen"] = seen
    if seen["raised"] is None:
        return raised is None and example["want"] != "no error"
    return raised is not None and [type(raised).__name__, str(raised).strip()] == seen["raised"]


def run(example):
    """Runs the lines as a reader would: what came, in words that are the same each time, or None."""
    space = {"__name__": "example"}
    try:
        exec("\n".join(example["setup"]), space)
        value = eval(example["call"], space)
    except (Exception, SystemExit) as error:
        name, message = type(error).__name__, str(error).strip()
        if "\n" in message or not lasts(message):
            return None
        bases = [base.__name__ for base in type(error).__mro__]
        return {"raised": [name, message], "bases": bases, "text": None, "type": None, "truth": None}
    try:
        truth = bool(value)
    except Exception:
        truth = None
    return {"raised": None, "text": text_of(value), "type": type(value).__name__, "truth": truth}


def repeat(examples):
    """In a process of its own with the fault: the examples that give the same again."""
    return [example for example in examples if run(example) == example["seen"]]


def compare(examples):
    """In a process of its own without the fault: what each call should give. Left out is one
    for which that is not what the test asks for."""
    told = []
    for example in examples:
        right = run(example)
        # Whatever a caller's surroundings decide is no value to ask for.
        os.environ["SURROUNDINGS"] = "others"
        again = run(example)
        del os.environ["SURROUNDINGS"]
        if right is not None and again is not None:
            if right["text"] != again["text"]:
                right["text"] = None
            if tell(example, right):
                told.append(example)
    return told


def tell(example, right):
    """Puts what came and what should come into an example; whether it can be told."""
    seen, want = example.pop("seen"), example["want"]
    expected = str(example["value"]).split(".")[-1]
    if seen["raised"] is not None:
        name, message = seen["raised"]
        example["raised"] = name + (": " + message if message else "")
        if want == "raise" and expected in seen["bases"]:
            return False
    example["gave"] = seen["text"]
    if want == "raise":
        return right["raised"] is not None and expected in right["bases"]
    if right["raised"] is not None:
        return False
    if want in ("true", "false"):
        return right["truth"] == (want == "true") and seen["truth"] != right["truth"]
    text = right["text"]
    if example["value"] is None:
        # The test names no value; what the call gives is one all the same.
        if text is not None and text != "None":
            example["want"], example["value"] = "value", text
    elif text is None:
        return False
    elif example["value"] != text:
        if not equal(example["value"], text):
            return False
        example["value"] = text
    if seen["raised"] is not None:
        return True
    if example["value"] is None or example["value"] == seen["text"]:
        return False
    if seen["text"] is None:
        # Something without a lasting text, where another kind of value should be.
        example["gave_type"] = seen["type"]
        return seen["type"] != right["type"]
    return True


def equal(first, second):
    try:
        return ast.literal_eval(first) == ast.literal_eval(second)
    except Exception:
        return False
