"""Bills."""

from .tax import gross


def bill(prices, rate):
    """Return the sum of prices with tax."""
    return gross(sum(prices), rate)
