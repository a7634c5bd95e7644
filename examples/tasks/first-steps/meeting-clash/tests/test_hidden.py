import unittest

from agenda.clash import clash
from agenda.plan import fits, plan


class Clash(unittest.TestCase):
    def test_in_a_row(self):
        self.assertFalse(clash((9, 10), (10, 11)))
        self.assertFalse(clash((10, 11), (9, 10)))

    def test_inside(self):
        self.assertTrue(clash((10, 11), (9, 12)))
        self.assertTrue(clash((9, 12), (10, 11)))

    def test_part(self):
        self.assertTrue(clash((9, 11), (10, 12)))
        self.assertTrue(clash((10, 12), (9, 11)))
        self.assertTrue(clash((9, 10), (9, 10)))
        self.assertFalse(clash((9, 10), (14, 15)))

    def test_plan(self):
        self.assertEqual(plan([(9, 10), (10, 11), (9, 12)]), [(9, 10), (10, 11)])
        self.assertTrue(fits((8, 9), [(9, 10)]))
