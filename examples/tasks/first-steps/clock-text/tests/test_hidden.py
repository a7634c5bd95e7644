import unittest

from stopwatch.laps import laps, show
from stopwatch.text import clock


class Clock(unittest.TestCase):
    def test_small_seconds(self):
        self.assertEqual(clock(125), "2:05")
        self.assertEqual(clock(60), "1:00")
        self.assertEqual(clock(9), "0:09")

    def test_large_seconds(self):
        self.assertEqual(clock(59), "0:59")
        self.assertEqual(clock(630), "10:30")

    def test_laps(self):
        self.assertEqual(laps([62, 130]), [62, 68])
        self.assertEqual(show([62, 130]), "1:02 1:08")
