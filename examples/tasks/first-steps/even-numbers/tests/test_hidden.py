import unittest

from sieve.parity import evens
from sieve.sums import even_share, even_sum


class Evens(unittest.TestCase):
    def test_mixed(self):
        self.assertEqual(evens([1, 2, 3, 4]), [2, 4])
        self.assertEqual(evens([8, 5, 6, -2]), [8, 6, -2])

    def test_zero_and_none(self):
        self.assertEqual(evens([0]), [0])
        self.assertEqual(evens([1, 3]), [])

    def test_sums(self):
        self.assertEqual(even_sum([1, 2, 3, 4, 5]), 6)
        self.assertEqual(even_share([2, 1, 4, 8]), 0.75)
