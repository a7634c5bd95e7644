import unittest

from shelf.stack import Stack
from shelf.turn import turned


class Stacks(unittest.TestCase):
    def test_apart(self):
        a, b = Stack(), Stack()
        a.push(1)
        self.assertEqual((a.size(), b.size()), (1, 0))
        b.push(2)
        self.assertEqual(a.pop(), 1)

    def test_limit(self):
        stack = Stack(2)
        for item in (1, 2, 3):
            stack.push(item)
        self.assertEqual((stack.size(), stack.pop()), (2, 2))

    def test_turned(self):
        self.assertEqual(turned([1, 2, 3]), [3, 2, 1])
        self.assertEqual(turned([]), [])
