import unittest

from algebra.power import power
from algebra.series import geometric


class Power(unittest.TestCase):
    def test_zero(self):
        self.assertEqual(power(2, 0), 1)
        self.assertEqual(power(9, 0), 1)
        self.assertEqual(power(0, 0), 1)

    def test_powers(self):
        self.assertEqual(power(5, 1), 5)
        self.assertEqual(power(2, 10), 1024)
        self.assertEqual(power(3, 5), 243)

    def test_series(self):
        self.assertEqual(geometric(2, 4), 15)
