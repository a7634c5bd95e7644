import unittest

from league.medals import medals
from league.table import ranking


class Ranking(unittest.TestCase):
    def test_best_first(self):
        self.assertEqual(ranking({"Al": 1, "Bo": 3, "Cy": 2}), ["Bo", "Cy", "Al"])

    def test_ties(self):
        self.assertEqual(ranking({"Bo": 7, "Al": 7, "Cy": 9}), ["Cy", "Al", "Bo"])
        self.assertEqual(ranking({"D": 0, "C": 0, "E": 0}), ["C", "D", "E"])

    def test_medals(self):
        self.assertEqual(medals({"Al": 1, "Bo": 3}), {"gold": "Bo", "silver": "Al"})
        self.assertEqual(ranking({}), [])
