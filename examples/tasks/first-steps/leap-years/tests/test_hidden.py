import unittest

from almanac.leap import is_leap
from almanac.length import days_between, days_in_year


class Leap(unittest.TestCase):
    def test_centuries(self):
        self.assertIs(is_leap(1900), False)
        self.assertIs(is_leap(2100), False)
        self.assertIs(is_leap(2000), True)

    def test_years(self):
        self.assertIs(is_leap(2024), True)
        self.assertIs(is_leap(2023), False)

    def test_days(self):
        self.assertEqual(days_in_year(2023), 365)
        self.assertEqual(days_between(2023, 2024), 731)
