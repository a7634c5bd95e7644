import unittest

from library.fees import fee
from library.loan import days_late
from library.member import owed


class Fees(unittest.TestCase):
    def test_in_time(self):
        self.assertEqual(fee(1, 15), 0)
        self.assertEqual(fee(1, 5), 0)
        self.assertEqual(days_late(1, 15), 0)

    def test_late(self):
        self.assertEqual(fee(1, 16), 2)
        self.assertEqual(fee(0, 19), 10)

    def test_limit(self):
        self.assertEqual(fee(0, 24), 20)
        self.assertEqual(fee(0, 100), 20)

    def test_member(self):
        self.assertEqual(owed([(0, 14), (0, 15), (0, 90)]), 22)
