import unittest

from shop.stock import Stock


class StockRoomTests(unittest.TestCase):
    def test_adding_counts(self):
        stock = Stock()
        self.assertEqual(stock.add("tea"), 1)
        self.assertEqual(stock.add("tea", 2), 3)

    def test_taking_all_removes(self):
        stock = Stock()
        stock.add("tea", 2)
        stock.take("tea", 2)
        self.assertEqual(stock.names(), [])

    def test_taking_too_much(self):
        stock = Stock()
        stock.add("tea")
        with self.assertRaises(LookupError):
            stock.take("tea", 2)

    def test_names_in_order(self):
        stock = Stock()
        stock.add("tea")
        stock.add("jam")
        self.assertEqual(stock.names(), ["jam", "tea"])
