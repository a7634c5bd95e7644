"""Rain of a week."""

from .sums import total


def mean(days):
    """Return the mean of the days with a reading."""
    read = [day for day in days if day is not None]
    return total(read) / len(read)


def wet_days(days):
    """Return how many days had rain."""
    return sum(1 for day in days if day)
