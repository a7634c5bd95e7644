import unittest

from stats.average import mean


class Mean(unittest.TestCase):
    def test_values(self):
        self.assertEqual(mean([1, 3]), 2)
