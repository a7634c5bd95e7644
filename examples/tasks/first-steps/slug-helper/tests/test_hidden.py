import unittest

from blog.post import address
from blog.slug import slug
from blog.text import shorten


class Slug(unittest.TestCase):
    def test_marks(self):
        self.assertEqual(slug("Hello, World!"), "hello-world")
        self.assertEqual(slug("What? No. 7!"), "what-no-7")

    def test_spaces(self):
        self.assertEqual(slug("  Two   words "), "two-words")
        self.assertEqual(slug(""), "")

    def test_address(self):
        self.assertEqual(address(2024, "My Post"), "/2024/my-post")
        self.assertEqual(shorten("abc def", 4), "abc")
