"""Lengths of years."""

from .leap import is_leap


def days_in_year(year):
    """Return 365 or 366."""
    return 366 if is_leap(year) else 365


def days_between(first, last):
    """Return the days of the years from first to last."""
    return sum(days_in_year(y) for y in range(first, last + 1))
