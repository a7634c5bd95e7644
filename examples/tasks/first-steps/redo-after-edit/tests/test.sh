#!/bin/sh
# Runs the hidden tests on the workspace and leaves 1 or 0 as the reward.
#
# Python starts isolated (-I) and without site (-S), and loads unittest before the
# workspace goes on the path, at its end: no file there can stand in for a standard
# module. A pass counts only when the runner hands back the nonce, which it read
# before any code of the workspace ran: ending the process early with status 0 is no pass.
workspace=${TASK_WORKSPACE:-/workspace}
tests=${TASK_TESTS:-/tests}
logs=${TASK_LOGS:-/logs/verifier}

mkdir -p "$logs"
echo 0 > "$logs/reward.txt"
cd "$workspace" || exit 1
nonce=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
answer=$(printf '%s' "$nonce" | python3 -I -S -B -c '
import importlib.util, os, sys, unittest
nonce = sys.stdin.read()
out = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
workspace, hidden = sys.argv[1:]
sys.path.append(workspace)
spec = importlib.util.spec_from_file_location("test_hidden", hidden)
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
suite = unittest.defaultTestLoader.loadTestsFromModule(module)
count = suite.countTestCases()
result = unittest.TextTestRunner(verbosity=1).run(suite)
if count and result.testsRun == count and result.wasSuccessful() and not result.skipped:
    out.write(nonce)
    out.close()
' "$workspace" "$tests/test_hidden.py")
[ -n "$nonce" ] && [ "$answer" = "$nonce" ] && echo 1 > "$logs/reward.txt"
exit 0
