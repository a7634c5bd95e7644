import unittest

from config.load import DEFAULTS, load
from config.merge import merge


class Merge(unittest.TestCase):
    def test_merged(self):
        self.assertEqual(merge({"a": 1, "b": 2}, {"b": 3, "c": 4}), {"a": 1, "b": 3, "c": 4})

    def test_arguments_are_kept(self):
        defaults, changes = {"size": 4}, {"size": 9}
        self.assertEqual(merge(defaults, changes), {"size": 9})
        self.assertEqual(defaults, {"size": 4})
        self.assertEqual(changes, {"size": 9})

    def test_load(self):
        self.assertEqual(load({"color": "blue"}), {"size": 4, "color": "blue"})
        self.assertEqual(load(), {"size": 4, "color": "red"})
        self.assertEqual(DEFAULTS, {"size": 4, "color": "red"})
