"""Turn lists round."""

from .stack import Stack


def turned(values):
    """Return the values, last first."""
    stack = Stack(len(values))
    for value in values:
        stack.push(value)
    return [stack.pop() for _ in values]
