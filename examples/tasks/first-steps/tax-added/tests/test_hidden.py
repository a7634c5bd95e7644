import unittest

from shop.bill import bill
from shop.tax import gross, tax


class Tax(unittest.TestCase):
    def test_gross(self):
        self.assertEqual(gross(100, 20), 120)
        self.assertEqual(gross(50, 10), 55)
        self.assertEqual(gross(30, 0), 30)

    def test_tax(self):
        self.assertEqual(tax(100, 20), 20)

    def test_bill(self):
        self.assertEqual(bill([10, 30], 50), 60)
        self.assertEqual(bill([], 50), 0)
