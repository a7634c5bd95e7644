import unittest

from printer.label import label
from printer.sheet import sheet, small_sheet


class Label(unittest.TestCase):
    def test_default(self):
        self.assertEqual(label("tea"), "[tea     ]")
        self.assertEqual(label("chamomile"), "[chamomil]")

    def test_width(self):
        self.assertEqual(label("tea", 6), "[tea   ]")
        self.assertEqual(label("tea", 2), "[te]")

    def test_sheet(self):
        self.assertEqual(sheet(["a"]), ["[a       ]"])
        self.assertEqual(small_sheet(["abcde"]), ["[abcd]"])
