import unittest

from folder.fold import fold
from folder.join import fits, joined


class Fold(unittest.TestCase):
    def test_last_line(self):
        self.assertEqual(fold("one two three", 7), ["one two", "three"])
        self.assertEqual(fold("one", 9), ["one"])

    def test_long_word(self):
        self.assertEqual(fold("extraordinary day", 5), ["extraordinary", "day"])
        self.assertEqual(fold("a extraordinary", 5), ["a", "extraordinary"])

    def test_exact_width(self):
        self.assertEqual(fold("ab cd ef", 5), ["ab cd", "ef"])

    def test_nothing(self):
        self.assertEqual(fold("", 5), [])
        self.assertTrue(fits("", "abcde", 5))
        self.assertEqual(joined("a", "b"), "a b")
