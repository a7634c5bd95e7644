import unittest

from quiz.export import to_lines
from quiz.score import best, points


class Export(unittest.TestCase):
    def test_lines(self):
        self.assertEqual(to_lines({"Bo": 3, "Al": 10}), ["Al;10", "Bo;3"])
        self.assertEqual(to_lines({"Cy": 0}), ["Cy;0"])

    def test_nothing(self):
        self.assertEqual(to_lines({}), [])

    def test_scores_are_kept(self):
        scores = {"Bo": 3, "Al": 10}
        to_lines(scores)
        self.assertEqual(list(scores), ["Bo", "Al"])
        self.assertEqual(best(scores), "Al")
        self.assertEqual(points("abc", "abd"), 2)
