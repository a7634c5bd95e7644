"""Runs hidden tests over code that nobody trusts; writes the reward.

A pass is counted only when the process of the tests hands back a number that it got
on its input and that the code under test was not given: ending early is no pass.
What that process leaves running is killed before the reward is written, in place of
whatever lies there. Code under test still shares a process with the tests, so code that
walks up the stack could find the number.
"""

import ctypes
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile

SECONDS = 100
RUNNER = """
def main():
    import json, sys
    given = json.loads(sys.stdin.read())
    sys.stdin = open("/dev/null")
    nonce, source, place = given.pop("nonce"), given.pop("source"), given.pop("place")
    sys.path += [given.pop("tests"), place]
    sys.argv = [place]
    scope = {"__name__": "__tests__", "__file__": place + "/tests"}
    exec(compile(source, "tests", "exec"), scope)
    sys.__stdout__.write("\\n" + nonce)
    sys.__stdout__.flush()

main()
"""


def kill_the_rest():
    """Kills what the tests left running; orphans come to this process."""
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
    with open(os.path.join(logs, "reward.txt"), "x", encoding="utf-8") as file:
        file.write(str(reward))


def passes(place, tests):
    """Whether the parts, run one after the other, come to their end."""
    parts = [os.path.join(place if name.startswith("=") else tests, name.lstrip("=")) for name in sys.argv[1:]]
    try:
        source = "\n".join(open(part, encoding="utf-8").read() for part in parts)
    except (OSError, UnicodeDecodeError) as error:
        print(error)
        return False
    nonce = secrets.token_hex(16)
    given = json.dumps({"nonce": nonce, "source": source, "place": place, "tests": tests})
    # A file and no pipe: what still holds a pipe open would be waited for.
    with tempfile.TemporaryFile() as output:
        child = subprocess.Popen(
            [sys.executable, "-I", "-c", RUNNER], stdin=subprocess.PIPE, stdout=output, cwd=place
        )
        try:
            child.communicate(given.encode(), timeout=SECONDS)
        except subprocess.TimeoutExpired:
            print("the tests did not end within %s seconds" % SECONDS)
            child.kill()
            child.wait()
        kill_the_rest()
        output.seek(0)
        said = output.read().decode(errors="replace")
    sys.stdout.write(said.replace(nonce, "passed"))
    return child.returncode == 0 and said.rstrip().endswith(nonce)


def main():
    logs = os.environ.get("TASK_LOGS", "/logs/verifier")
    leave(logs, 0)
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
    place = os.environ.get("TASK_WORKSPACE", "/workspace")
    leave(logs, int(passes(place, os.environ.get("TASK_TESTS", "/tests"))))


main()
