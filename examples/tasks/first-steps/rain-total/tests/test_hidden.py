import unittest

from rain.sums import total
from rain.week import mean, wet_days


class Rain(unittest.TestCase):
    def test_total(self):
        self.assertEqual(total([3, 0, 4]), 7)
        self.assertEqual(total([1, 1, 1, 1]), 4)

    def test_gaps(self):
        self.assertEqual(total([None, 2, None, 5]), 7)
        self.assertEqual(total([]), 0)

    def test_week(self):
        self.assertEqual(mean([2, None, 4]), 3)
        self.assertEqual(wet_days([0, 3, None, 1]), 2)
