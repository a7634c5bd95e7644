"""Runs the tests of a package, as it is and with mutations, and writes down what was seen.

`observe.py suite PLAN` runs all tests once, with the functions that each test ran.
`observe.py screen PLAN` runs the chosen tests for each mutation of a list, each in a
process forked from this one, which has pytest loaded. Sets have another order in each run
of the tests, as they have where a task is judged, and the same order in every screening.
"""

import importlib
import json
import os
import resource
import signal
import sys
import threading

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import facts
import runner

WORKSPACE = "/workspace"
# Address space of a process that tries a mutation.
MEMORY = 2 << 30


class Trace:
    """Which functions of the package did each test run? File and first line."""

    def __init__(self, modules):
        self.paths = {os.path.join(WORKSPACE, name): at for at, name in enumerate(modules)}
        self.known = {}
        self.seen = set()
        self.tests = {}

    def __call__(self, frame, event, argument):
        code = frame.f_code
        at = self.known.get(code.co_filename, -2)
        if at == -2:
            path = os.path.normpath(os.path.join(WORKSPACE, code.co_filename))
            at = self.known[code.co_filename] = self.paths.get(path, -1)
        if at >= 0:
            self.seen.add((at, code.co_firstlineno))

    def start(self):
        self.seen.clear()
        threading.settrace(self)
        sys.settrace(self)

    def stop(self, name):
        sys.settrace(None)
        threading.settrace(None)
        self.tests[name] = sorted(self.seen)


class Tracing:
    """Traces every test, and runs them in the other order, to find those that hang on it."""

    def __init__(self, trace):
        self.trace = trace

    def pytest_collection_modifyitems(self, config, items):
        items.reverse()

    def pytest_runtest_logstart(self, nodeid, location):
        self.trace.start()

    def pytest_runtest_logfinish(self, nodeid, location):
        self.trace.stop(nodeid)


def suite(plan, pytest):
    outcomes = runner.Outcomes(plan["wanted"])
    plugins = [outcomes]
    trace = None
    if plan["trace"]:
        trace = Trace(plan["modules"])
        plugins.append(Tracing(trace))
    status = runner.run_pytest(
        pytest, WORKSPACE, plan["roots"], plan["archive"], plan["files"], plugins, "plain"
    )
    tests = []
    for name, result in outcomes.results.items():
        functions = trace.tests.get(name, []) if trace else []
        tests.append(
            {
                "name": name,
                "result": result,
                "seconds": outcomes.processor.get(name, 0.0),
                "waited": outcomes.seconds[name],
                "functions": functions,
            }
        )
    loaded = [name for name in sys.modules if name.split(".")[0] in sys.stdlib_module_names]
    return {"status": int(status), "tests": tests, "standard": sorted(loaded)}


class CachedRewrite:
    """pytest's rewriting of test files takes long and is the same each time: it may
    keep its byte code here, although nothing else may."""

    dont_write_bytecode = False

    def __getattr__(self, name):
        return getattr(sys, name)


def screen_one(job, plan, pytest):
    outcomes = runner.Outcomes(job["tests"])
    seen = facts.Facts()
    files = sorted({name.split("::")[0] for name in job["tests"]})
    runner.run_pytest(
        pytest, WORKSPACE, plan["roots"], plan["archive"], files, [outcomes, seen], "rewrite"
    )
    return {"id": job["id"], "results": outcomes.results, "examples": seen.examples}


def in_child(seconds, answer, work):
    """What `work` gives in a process forked from this one: None where it does not come to
    its end, and whether time was the reason. It hands its answer back in a file."""
    if os.path.lexists(answer):
        os.unlink(answer)
    child = os.fork()
    if child == 0:
        os.setsid()
        # Processor time, so that a busy machine makes no verdict; the wall clock is for
        # what waits for ever.
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        try:
            text = json.dumps(work())
            with open(answer, "w") as file:
                file.write(text)
        finally:
            sys.stdout.flush()
            os._exit(0)
    status = runner.wait(child, 10 * seconds)
    try:
        os.killpg(child, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass
    if status is None:
        os.waitpid(child, 0)
    late = status is None or os.WIFSIGNALED(status) and os.WTERMSIG(status) in (signal.SIGXCPU, signal.SIGKILL)
    try:
        with open(answer) as file:
            return json.load(file), late
    except (OSError, ValueError):
        return None, late


def screen_job(job, plan, pytest):
    """Everything that is seen of one mutation."""
    path = os.path.join(WORKSPACE, job["path"])
    answer = os.path.join(plan["sources"], "answer.json")
    with open(path, "rb") as file:
        original = file.read()
    with open(os.path.join(plan["sources"], job["id"]), "rb") as file:
        mutated = file.read()

    def look(source, function, examples):
        """Runs examples over a source, in a process that has run no test."""

        def work():
            runner.find(WORKSPACE, plan["roots"])
            return function(examples)

        with open(path, "wb") as file:
            file.write(source)
        found, _ = in_child(job["seconds"], answer, work)
        return found or []

    with open(path, "wb") as file:
        file.write(mutated)
    try:
        line, late = in_child(job["seconds"], answer, lambda: screen_one(job, plan, pytest))
        if late or line is None:
            return {"id": job["id"], "timed_out": bool(late)}
        if line["examples"]:
            line["examples"] = look(mutated, facts.repeat, line["examples"])
        if line["examples"]:
            line["examples"] = look(original, facts.compare, line["examples"])
        return line
    finally:
        with open(path, "wb") as file:
            file.write(original)


def screen(plan, pytest, out):
    rewrite = sys.modules["_pytest.assertion.rewrite"]
    rewrite.sys = CachedRewrite()
    # What differs is for people; `facts` looks at the values.
    sys.modules["_pytest.assertion.util"].assertrepr_compare = lambda **values: None
    for name in plan["standard"]:
        try:
            importlib.import_module(name)
        except Exception:
            pass
    for job in plan["jobs"]:
        out.write(json.dumps(screen_job(job, plan, pytest)) + "\n")
        out.flush()


def with_fixed_hashes():
    """Starts again where sets have the same order each time: it is seen in texts."""
    if not sys.flags.ignore_environment:
        return
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    argv = [sys.executable, "-s", "-S", "-B", *sys.argv]
    os.execve(sys.executable, argv, {**kept, "PYTHONHASHSEED": "0"})


def main():
    mode, plan_path = sys.argv[1:]
    if mode == "screen":
        with_fixed_hashes()
    with open(plan_path) as file:
        plan = json.load(file)
    pytest = runner.load_pytest(plan["archive"])
    if mode == "suite":
        answer = suite(plan, pytest)
        with open(plan["out"], "w") as file:
            json.dump(answer, file)
    else:
        with open(plan["out"], "w") as out:
            screen(plan, pytest, out)
    os._exit(0)


main()
