import unittest

from wordcount.tally import tally
from wordcount.top import top


class Tally(unittest.TestCase):
    def test_counts(self):
        self.assertEqual(tally(["a", "b", "a"]), {"a": 2, "b": 1})
        self.assertEqual(tally(["x"] * 5), {"x": 5})

    def test_nothing(self):
        self.assertEqual(tally([]), {})

    def test_top(self):
        self.assertEqual(top("the cat and the dog and the bird"), "the")
        self.assertEqual(top("b c c"), "c")
