#!/bin/bash
python3 -I -B -c '
import sys
sys.path.append("/workspace")
from greet import greet
assert greet("Ada") == "Hello, Ada!"
' && passed=1 || passed=0
echo "{\"reward\": $passed, \"style\": 0.5}" > /logs/verifier/reward.json
