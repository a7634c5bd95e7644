"""Savings over years."""

from .interest import interest


def saved(amount, rate, years):
    """Return the amount after some years."""
    for _ in range(years):
        amount += interest(amount, rate)
    return round(amount, 2)
