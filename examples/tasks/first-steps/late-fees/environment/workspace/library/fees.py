"""Fees."""

from .loan import days_late

PER_DAY = 2
LIMIT = 20


def fee(borrowed, returned):
    """Return the fee for a loan, by its first and last day."""
    return max(days_late(borrowed, returned) * PER_DAY, LIMIT)
