import unittest

from travel.speed import hours, speed_needed
from travel.trip import trip_hours


class Trip(unittest.TestCase):
    def test_trip(self):
        self.assertEqual(trip_hours([60, 120], 60), 3)
        self.assertEqual(trip_hours([10], 40), 0.25)

    def test_no_legs(self):
        self.assertEqual(trip_hours([], 60), 0)

    def test_speed(self):
        self.assertEqual(hours(100, 50), 2)
        self.assertEqual(speed_needed(100, 4), 25)
