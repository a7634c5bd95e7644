import unittest

from bank.interest import interest
from bank.saving import saved


class Interest(unittest.TestCase):
    def test_cents(self):
        self.assertEqual(interest(250, 1.5), 3.75)
        self.assertEqual(interest(10, 3.333), 0.33)

    def test_whole(self):
        self.assertEqual(interest(200, 2), 4)
        self.assertEqual(interest(0, 2), 0)

    def test_saved(self):
        self.assertEqual(saved(100, 1.5, 2), 103.02)
        self.assertEqual(saved(50, 5, 0), 50)
