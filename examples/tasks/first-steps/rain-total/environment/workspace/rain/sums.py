"""Sums of rain."""


def total(days):
    """Return the rain of all days; None is a day without a reading."""
    amount = 0
    for day in days:
        if day is not None:
            amount = day
    return amount
