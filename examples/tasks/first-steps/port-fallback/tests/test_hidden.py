import unittest

from netconf.address import split_address
from netconf.ports import parse_port


class Port(unittest.TestCase):
    def test_no_number(self):
        self.assertEqual(parse_port("abc", 80), 80)
        self.assertEqual(parse_port("", 443), 443)

    def test_number(self):
        self.assertEqual(parse_port("8080", 80), 8080)
        self.assertEqual(parse_port("0", 80), 80)
        self.assertEqual(parse_port("70000", 80), 80)

    def test_address(self):
        self.assertEqual(split_address("example:99"), ("example", 99))
        self.assertEqual(split_address("example"), ("example", 80))
