import os
import sys

sys.path.append("/workspace")
from calc import add

assert add(2, 3) == int(os.environ["EXPECTED"]), add(2, 3)
assert add(-1, 1) == 0, add(-1, 1)
print("both sums are right")
