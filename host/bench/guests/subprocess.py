"""The hook that is measured, as a program: JSON on standard input, JSON on standard output."""

import json
import sys

turns = json.load(sys.stdin)["budget"]["turns"]
left = max(turns["limit"] - turns["used"], 0)
print(json.dumps({"note": f"{left} of {turns['limit']} turns are left."} if left <= 3 else None))
