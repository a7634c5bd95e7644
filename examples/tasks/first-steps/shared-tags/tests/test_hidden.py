import unittest

from notes.note import note
from notes.tags import add_tag


class Tags(unittest.TestCase):
    def test_new_list(self):
        self.assertEqual(add_tag("a"), ["a"])
        self.assertEqual(add_tag("b"), ["b"])

    def test_given_list(self):
        tags = ["a"]
        self.assertIs(add_tag("b", tags), tags)
        self.assertEqual(tags, ["a", "b"])
        self.assertEqual(add_tag("b", tags), ["a", "b"])

    def test_empty_list_is_kept(self):
        tags = []
        self.assertIs(add_tag("x", tags), tags)

    def test_notes(self):
        self.assertEqual(note("one", "x")["tags"], ["x"])
        self.assertEqual(note("two", "y")["tags"], ["y"])
