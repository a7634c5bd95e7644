import unittest

from wordbox.pick import first, longest
from wordbox.read import longest_in


class Longest(unittest.TestCase):
    def test_longest(self):
        self.assertEqual(longest(["pear", "fig", "apple"]), "apple")
        self.assertEqual(longest(["z", "yy", "xxx"]), "xxx")
        self.assertEqual(longest(["one"]), "one")

    def test_first(self):
        self.assertEqual(first(["pear", "fig", "apple"]), "apple")
        self.assertEqual(first(["zz", "bbbb"]), "bbbb")

    def test_text(self):
        self.assertEqual(longest_in("To be or Not at all is short question"), "question")
