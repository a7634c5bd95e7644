import unittest

from depot.order import reorder
from depot.report import report
from depot.stock import stock_value


class Stock(unittest.TestCase):
    def test_value(self):
        self.assertEqual(stock_value([(2, 3), (10, 1)]), 16)
        self.assertEqual(stock_value([(5, 0)]), 0)
        self.assertEqual(stock_value([]), 0)

    def test_report(self):
        self.assertEqual(report([(2, 3), (1, 4)]), "2 items, worth 10")

    def test_order(self):
        self.assertEqual(reorder({"nut": 1, "bolt": 9}, 5), ["nut"])
