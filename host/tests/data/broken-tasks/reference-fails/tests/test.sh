#!/bin/bash
# -I keeps modules of the workspace from standing in for Python's own.
if python3 -I -B /tests/test_hidden.py; then
    echo 1 > /logs/verifier/reward.txt
else
    echo 0 > /logs/verifier/reward.txt
fi
