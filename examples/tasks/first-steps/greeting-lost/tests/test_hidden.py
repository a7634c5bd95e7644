import unittest

from hotel.desk import check_in, free_rooms
from hotel.welcome import greeting


class Greeting(unittest.TestCase):
    def test_name(self):
        self.assertEqual(greeting("Ada"), "Welcome, Ada!")
        self.assertEqual(greeting("Bo"), "Welcome, Bo!")

    def test_title(self):
        self.assertEqual(greeting("Ada", "Dr."), "Welcome, Dr. Ada!")

    def test_desk(self):
        self.assertEqual(check_in(["A", "B"]), ["Welcome, A!", "Welcome, B!"])
        self.assertEqual(free_rooms([1, 2], [2]), [1])
