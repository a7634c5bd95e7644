import unittest

from stats.average import mean
from stats.grades import report


class Mean(unittest.TestCase):
    def test_empty(self):
        self.assertEqual(mean([]), 0)
        self.assertEqual(mean(()), 0)

    def test_values(self):
        self.assertEqual(mean([1, 3]), 2)
        self.assertEqual(mean([5]), 5)
        self.assertEqual(mean([0, 0, 3]), 1)

    def test_report(self):
        self.assertEqual(report({"Al": [1, 2], "Bo": []}), {"Al": 1.5, "Bo": 0})
