import unittest

from weather.scale import celsius
from weather.today import today
from weather.wind import is_storm


class Scale(unittest.TestCase):
    def test_celsius(self):
        self.assertEqual(celsius(212), 100.0)
        self.assertEqual(celsius(32), 0.0)
        self.assertEqual(celsius(100), 37.8)
        self.assertEqual(celsius(-40), -40.0)

    def test_today(self):
        self.assertEqual(today(50), "10.0 C")

    def test_wind(self):
        self.assertTrue(is_storm(75))
