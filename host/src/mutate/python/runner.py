"""Runs the tests of a task on the workspace and leaves 1 or 0 as the reward.

Python starts isolated (-I) and without site (-S). pytest comes from a zip file of
the task and is imported before the workspace is on the path, at its end: no file
there can stand in for a standard module or for pytest. Test files, conftest.py and
settings come from the task; those of the work tree are removed first. The tests run
in a child process; a pass counts only when it hands back the nonce, which was drawn
before any code of the workspace ran, after tests that must fail did fail and pytest
was found as it was. What the child leaves running is killed before the reward is
written, in place of whatever lies there.
"""

import ctypes
import difflib
import fnmatch
import json
import os
import shutil
import signal
import sys
import time
import unittest.case

CONFIG_FILES = ("conftest.py", "sitecustomize.py", "usercustomize.py", "pytest.ini", ".pytest.ini")


def is_test_path(relative):
    """Whether a file of a package decides what tests say."""
    parts = relative.split("/")
    name = parts[-1]
    if any(part in ("tests", "test") for part in parts[:-1]):
        return True
    patterns = ("test_*.py", "*_test.py", "*.pth")
    return name in CONFIG_FILES or any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def put_tests(source, workspace):
    """Replaces the tests of the work tree by those of the task."""
    for folder, folders, files in os.walk(workspace, topdown=True):
        folders[:] = [name for name in folders if name != ".git"]
        for name in list(folders) + files:
            path = os.path.join(folder, name)
            relative = os.path.relpath(path, workspace)
            if os.path.islink(path) or (name in files and is_test_path(relative)):
                os.unlink(path)
                if name in folders:
                    folders.remove(name)
    shutil.copytree(source, workspace, dirs_exist_ok=True)


def load_pytest(archive):
    """Imports pytest and all that it needs, from the archive alone."""
    sys.path.append(archive)
    import _pytest.assertion.rewrite
    import iniconfig
    import packaging.version
    import pluggy
    import pytest

    sys.path.remove(archive)
    del iniconfig, packaging, pluggy
    return pytest


# Wall-clock seconds for one test, which took less than ten where it was observed.
TEST_SECONDS = 60
# The tests in must_fail.py.
MUST_FAIL = 6


class Outcomes:
    """Keeps the tests asked for, and notes what came of each. With `seconds`, a test that
    takes longer ends the process."""

    def __init__(self, wanted=None, seconds=0):
        self.wanted = None if wanted is None else set(wanted)
        self.limit = seconds
        self.results = {}
        # Wall-clock and processor seconds.
        self.seconds = {}
        self.processor = {}

    def pytest_collection_modifyitems(self, config, items):
        if self.wanted is not None:
            items[:] = [item for item in items if item.nodeid in self.wanted]

    def pytest_runtest_logstart(self, nodeid, location):
        signal.alarm(self.limit)
        self.processor[nodeid] = -time.process_time()

    def pytest_runtest_logfinish(self, nodeid, location):
        self.processor[nodeid] += time.process_time()

    def pytest_runtest_setup(self, item):
        # Nobody reads the traces, and hundreds of them take longer than the tests.
        item.repr_failure = item._repr_failure_py = lambda error, style=None: error.exconly()

    def pytest_runtest_logreport(self, report):
        before = self.results.get(report.nodeid)
        self.seconds[report.nodeid] = self.seconds.get(report.nodeid, 0.0) + report.duration
        expected = hasattr(report, "wasxfail")
        if report.failed and not expected:
            self.results[report.nodeid] = "failed"
        elif report.skipped or expected:
            self.results[report.nodeid] = before if before == "failed" else "skipped"
        elif before is None:
            self.results[report.nodeid] = "passed"


class NoDifferences:
    """`difflib` for unittest, which shows the difference of long texts: that can take minutes."""

    def ndiff(self, *texts):
        return []

    def __getattr__(self, name):
        return getattr(difflib, name)


def parts():
    """What decides whether a test passes, piece by piece: code under test can replace it."""
    import _pytest.python
    import _pytest.reports
    import _pytest.runner

    places = (
        _pytest.runner,
        _pytest.runner.CallInfo,
        _pytest.reports.TestReport,
        _pytest.python.Function,
        unittest.case.TestCase,
        unittest.case._Outcome,
        Outcomes,
    )
    return [(name, value) for place in places for name, value in sorted(vars(place).items()) if callable(value)]


def find(workspace, roots):
    """Lets imports find the package; what Python has itself comes first."""
    os.chdir(workspace)
    for root in roots:
        sys.path.append(os.path.normpath(os.path.join(workspace, root)))


def run_pytest(pytest, workspace, roots, archive, files, plugins, assertions):
    """Runs the files in this process."""
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    os.environ.pop("PYTEST_ADDOPTS", None)
    unittest.case.difflib = NoDifferences()
    find(workspace, roots)
    # After the workspace: the package is the one that lies there.
    sys.path.append(archive)
    here = os.path.dirname(os.path.abspath(__file__))
    arguments = ["-q", "-c", os.path.join(here, "pytest.ini"), "--rootdir", workspace, "--import-mode=append"]
    arguments += ["-p", "no:cacheprovider", "--no-header", "--tb=short", "--assert=" + assertions]
    arguments += ["--continue-on-collection-errors"]
    return pytest.main(arguments + list(files), plugins=plugins)


def kill_the_rest():
    """Kills what the child left running; orphans are ours, as the reaper of this tree."""
    while True:
        try:
            with open("/proc/self/task/%d/children" % os.getpid()) as listed:
                children = [int(word) for word in listed.read().split()]
        except OSError:
            children = []
        for child in children:
            try:
                os.kill(child, signal.SIGKILL)
            except ProcessLookupError:
                pass
        try:
            os.waitpid(-1, 0 if children else os.WNOHANG)
        except ChildProcessError:
            return
        if not children:
            return


def wait(child, seconds):
    """The wait status, or None past the limit."""
    limit = time.monotonic() + seconds
    while time.monotonic() < limit:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status
        time.sleep(0.002)
    return None


def judge(plan, tests, workspace, answer, nonce):
    """In the child: hands back the nonce when every listed test passed."""
    archive = os.path.join(tests, "python.zip")
    wanted = plan["FAIL_TO_PASS"] + plan["PASS_TO_PASS"]
    pytest = load_pytest(archive)
    outcomes, canaries = Outcomes(wanted, TEST_SECONDS), Outcomes(None, TEST_SECONDS)
    files = sorted({name.split("::")[0] for name in wanted})
    before = parts()
    run_pytest(pytest, workspace, plan["roots"], archive, files, [outcomes], "plain")
    if parts() != before:
        print("pytest is not what it was")
        return
    must_fail = os.path.join(tests, "must_fail.py")
    run_pytest(pytest, workspace, plan["roots"], archive, [must_fail], [canaries], "plain")
    if sorted(canaries.results.values()) != ["failed"] * MUST_FAIL:
        print("tests that must fail did not")
        return
    missed = [name for name in wanted if outcomes.results.get(name) != "passed"]
    for name in missed[:50]:
        print("not passed:", name, outcomes.results.get(name, "not run"))
    for key in ("FAIL_TO_PASS", "PASS_TO_PASS"):
        count = sum(outcomes.results.get(name) != "passed" for name in plan[key])
        print("missed" if key[0] == "F" else " and", count, "of", len(plan[key]), key, end="")
    print()
    if wanted and not missed:
        os.write(answer, nonce)


def leave(logs, reward):
    """Leaves the reward, and no other."""
    for name in ("reward.txt", "reward.json"):
        path = os.path.join(logs, name)
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        elif os.path.lexists(path):
            os.unlink(path)
    with open(os.path.join(logs, "reward.txt"), "x") as file:
        file.write("%d\n" % reward)


def main():
    workspace = os.environ.get("TASK_WORKSPACE", "/workspace")
    tests = os.environ.get("TASK_TESTS", "/tests")
    logs = os.environ.get("TASK_LOGS", "/logs/verifier")
    with open(os.path.join(tests, "task.json")) as file:
        plan = json.load(file)
    os.makedirs(logs, exist_ok=True)
    leave(logs, 0)
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
    put_tests(os.path.join(tests, "files"), workspace)
    nonce = os.urandom(16).hex().encode()
    answer, writer = os.pipe()
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        os.close(answer)
        try:
            judge(plan, tests, workspace, writer, nonce)
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(0)
    os.close(writer)
    status = wait(child, plan["seconds"])
    if status is None:
        print("the tests did not end within %s seconds" % plan["seconds"])
    elif os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGALRM:
        print("a test did not end within %s seconds" % TEST_SECONDS)
    kill_the_rest()
    os.set_blocking(answer, False)
    try:
        said = os.read(answer, 4096)
    except BlockingIOError:
        said = b""
    leave(logs, said == nonce and status == 0)


if __name__ == "__main__":
    main()
