import unittest

from gauge.limits import clamp
from gauge.reading import percent, show


class Clamp(unittest.TestCase):
    def test_above(self):
        self.assertEqual(clamp(15, 0, 10), 10)
        self.assertEqual(clamp(8, 2, 7), 7)

    def test_below(self):
        self.assertEqual(clamp(-4, 0, 10), 0)
        self.assertEqual(clamp(1, 2, 7), 2)

    def test_inside(self):
        for value in (0, 5, 10):
            self.assertEqual(clamp(value, 0, 10), value)

    def test_percent(self):
        self.assertEqual(percent(9, 6), 100)
        self.assertEqual(show(3, 6), "50 %")
