import unittest

from badge.card import card
from badge.names import initials


class Initials(unittest.TestCase):
    def test_two_names(self):
        self.assertEqual(initials("Ada Lovelace"), "AL")
        self.assertEqual(initials("grace hopper"), "GH")

    def test_one_letter(self):
        self.assertEqual(initials("J R Tolkien"), "JRT")

    def test_card(self):
        self.assertEqual(card("Alan Turing", "code breaker"), ["(AT) Alan Turing", "Code Breaker"])
