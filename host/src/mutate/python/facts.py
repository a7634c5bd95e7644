"""What does a failing test show to somebody who cannot see it? A call, what it gave,
and what it should have given, each checked by running the call again."""

import ast

from claims import enclosing, is_claim_of_test, rank, read_claim
from shown import LONGEST, Shown, text_of

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
    return example if example and reproduces(example, raised) else None


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
