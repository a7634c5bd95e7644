"""Sums of what is left."""

from .parity import evens


def even_sum(numbers):
    """Return the sum of the even numbers."""
    return sum(evens(numbers))


def even_share(numbers):
    """Return the share of even numbers."""
    return len(evens(numbers)) / len(numbers)
