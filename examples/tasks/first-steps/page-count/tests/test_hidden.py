import unittest

from paging.cut import last_page, page
from paging.pages import page_count


class Pages(unittest.TestCase):
    def test_full_pages(self):
        self.assertEqual(page_count(20, 10), 2)
        self.assertEqual(page_count(3, 1), 3)

    def test_part_of_a_page(self):
        self.assertEqual(page_count(21, 10), 3)
        self.assertEqual(page_count(1, 10), 1)

    def test_nothing(self):
        self.assertEqual(page_count(0, 10), 0)

    def test_last_page(self):
        self.assertEqual(last_page([1, 2, 3, 4], 2), [3, 4])
        self.assertEqual(page([1, 2, 3], 2, 2), [3])
