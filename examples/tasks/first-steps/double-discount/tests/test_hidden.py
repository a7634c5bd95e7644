import unittest

from sales.cart import cart_total
from sales.discount import reduced
from sales.invoice import invoice


class Invoice(unittest.TestCase):
    def test_discount_once(self):
        self.assertEqual(invoice([(100, 1)], 10), 90)
        self.assertEqual(reduced(100, 10), 90)

    def test_quantity(self):
        self.assertEqual(cart_total([(5, 3), (2, 2)]), 19)
        self.assertEqual(cart_total([]), 0)

    def test_both(self):
        self.assertEqual(invoice([(5, 3), (2.5, 2)], 50), 10)
        self.assertEqual(invoice([(9.99, 2)]), 19.98)
