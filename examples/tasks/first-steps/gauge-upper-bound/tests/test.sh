#!/bin/sh
# Runs the hidden tests on the workspace and leaves 1 or 0 as the reward.
#
# Python starts isolated (-I) and without site (-S), and loads unittest before the
# workspace goes on the path, at its end: no file there can stand in for a standard
# module. The tests run in a child process. A pass counts only when the child hands back
# a nonce, after tests that must fail did fail and unittest was found as it was: ending
# the process early is no pass, nor is a unittest that calls everything a pass. What the
# child leaves running is killed before the reward is written, in place of whatever lies there.
exec python3 -I -S -B -c '
import ctypes, importlib.util, os, select, shutil, signal, sys, time, unittest

SECONDS = 20  # for all tests together; they take less than one


class MustFail(unittest.TestCase):
    def test_equal(self):
        self.assertEqual(1, 2)

    def test_true(self):
        self.assertTrue(0)

    def test_raises(self):
        with self.assertRaises(KeyError):
            pass

    def test_fail(self):
        self.fail()

    def test_error(self):
        raise RuntimeError


PARTS = (unittest.TestCase, unittest.TestResult, unittest.TextTestResult, unittest.TestSuite,
         unittest.TestSuite.__mro__[1], unittest.TextTestRunner, unittest.case._Outcome)


def parts():
    return [(name, value) for part in PARTS for name, value in sorted(vars(part).items()) if callable(value)]


def good(suite):
    count = suite.countTestCases()
    result = unittest.TextTestRunner(verbosity=1).run(suite)
    return count > 0 and result.testsRun == count and result.wasSuccessful() and not result.skipped


def judge(workspace, hidden, hand_back):
    before, canaries = parts(), unittest.defaultTestLoader.loadTestsFromTestCase(MustFail)
    sys.path.append(workspace)
    spec = importlib.util.spec_from_file_location("test_hidden", hidden)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    passed = good(unittest.defaultTestLoader.loadTestsFromModule(module))
    caught = unittest.TestResult()
    canaries.run(caught)
    caught = {case.id().split(".")[-1] for case, _ in caught.failures + caught.errors}
    missed = {name for name in vars(MustFail) if name.startswith("test_")} - caught
    if missed or parts() != before:
        print("unittest is not what it was")
    elif passed:
        hand_back()


def wait(child):
    limit = time.monotonic() + SECONDS
    while time.monotonic() < limit:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status
        time.sleep(0.002)
    print("the tests did not end within %s seconds" % SECONDS)
    return None


def kill_the_rest():
    while True:
        try:
            with open("/proc/self/task/%d/children" % os.getpid()) as listed:
                children = [int(word) for word in listed.read().split()]
        except OSError:
            children = []
        for child in children:
            os.kill(child, signal.SIGKILL)
        try:
            if os.waitpid(-1, 0 if children else os.WNOHANG) == (0, 0):
                return
        except ChildProcessError:
            return


def leave(logs, reward):
    for name in ("reward.txt", "reward.json"):
        path = os.path.join(logs, name)
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        elif os.path.lexists(path):
            os.remove(path)
    with open(os.path.join(logs, "reward.txt"), "x") as file:
        file.write("%d\n" % reward)


def main(workspace, tests, logs):
    os.makedirs(logs, exist_ok=True)
    leave(logs, 0)
    os.chdir(workspace)
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER: orphans of the tests come to us
    nonce = os.urandom(16)
    answer, hand = os.pipe()
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        os.close(answer)
        try:
            judge(workspace, os.path.join(tests, "test_hidden.py"), lambda: os.write(hand, nonce))
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(0)
    os.close(hand)
    status = wait(child)
    kill_the_rest()
    said = os.read(answer, 64) if select.select([answer], [], [], 0)[0] else b""
    leave(logs, status == 0 and said == nonce)


main(*sys.argv[1:])
' "${TASK_WORKSPACE:-/workspace}" "${TASK_TESTS:-/tests}" "${TASK_LOGS:-/logs/verifier}"
