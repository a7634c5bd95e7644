"""Averages."""


def mean(values):
    """Return the mean; 0 when there are no values."""
    return sum(values) / len(values)
