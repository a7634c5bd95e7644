import unittest

from ruler.convert import to_metric
from ruler.show import show
from ruler.units import feet, metres


class Ruler(unittest.TestCase):
    def test_to_metric(self):
        self.assertEqual(to_metric(10), 3.05)
        self.assertEqual(to_metric(0), 0)
        self.assertEqual(to_metric(100), 30.48)

    def test_units(self):
        self.assertAlmostEqual(feet(3.048), 10)
        self.assertAlmostEqual(metres(10), 3.048)

    def test_show(self):
        self.assertEqual(show(2), "2 ft = 0.61 m")
