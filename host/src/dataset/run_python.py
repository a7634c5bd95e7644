"""Runs hidden tests over code that nobody trusts; writes the reward.

A pass is counted only when the process of the tests hands back a number that it got
on its input and that the code under test was not given: ending early is no pass.
Code under test still shares that process, so code that walks up the stack could
find the number.
"""

import json
import os
import secrets
import subprocess
import sys

RUNNER = """
import json, sys
given = json.loads(sys.stdin.read())
sys.stdin = open("/dev/null")
nonce, source, place = given.pop("nonce"), given.pop("source"), given.pop("place")
sys.path[:0] = [given.pop("tests"), place]
sys.argv = [place]
del given
scope = {"__name__": "__tests__", "__file__": place + "/tests"}
exec(compile(source, "tests", "exec"), scope)
print("\\n" + nonce, flush=True)
"""


def main():
    place = os.environ.get("TASK_WORKSPACE", "/workspace")
    tests = os.environ.get("TASK_TESTS", "/tests")
    logs = os.environ.get("TASK_LOGS", "/logs/verifier")
    parts = [os.path.join(place if name.startswith("=") else tests, name.lstrip("=")) for name in sys.argv[1:]]
    source = "\n".join(open(part, encoding="utf-8").read() for part in parts)
    nonce = secrets.token_hex(16)
    given = json.dumps({"nonce": nonce, "source": source, "place": place, "tests": tests})
    child = subprocess.run(
        [sys.executable, "-I", "-c", RUNNER], input=given.encode(), stdout=subprocess.PIPE, cwd=place, timeout=100
    )
    sys.stdout.write(child.stdout.decode(errors="replace").replace(nonce, "passed"))
    passed = child.returncode == 0 and child.stdout.decode(errors="replace").rstrip().endswith(nonce)
    with open(os.path.join(logs, "reward.txt"), "w", encoding="utf-8") as reward:
        reward.write("1" if passed else "0")


try:
    main()
except (subprocess.TimeoutExpired, OSError, UnicodeDecodeError) as error:
    print(error)
    with open(os.path.join(os.environ.get("TASK_LOGS", "/logs/verifier"), "reward.txt"), "w") as reward:
        reward.write("0")
