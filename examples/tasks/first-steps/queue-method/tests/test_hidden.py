import unittest

from clinic.day import order
from clinic.waiting import Waiting


class Queue(unittest.TestCase):
    def test_places(self):
        room = Waiting()
        self.assertEqual(room.join("Al"), 1)
        self.assertEqual(room.join("Bo"), 2)

    def test_first_come(self):
        room = Waiting()
        room.join("Al")
        room.join("Bo")
        self.assertEqual(room.next(), "Al")
        self.assertEqual(room.join("Cy"), 2)

    def test_day(self):
        self.assertEqual(order(["x", "y", "z"]), ["x", "y", "z"])
