"""The most common word."""

from .tally import tally


def top(text):
    """Return the most common word of a text."""
    counts = tally(text.split())
    return max(counts, key=counts.get)
