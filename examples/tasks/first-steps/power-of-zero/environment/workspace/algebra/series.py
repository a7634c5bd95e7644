"""Sums of powers."""

from .power import power


def geometric(base, count):
    """Return the sum of the first count powers of base."""
    return sum(power(base, n) for n in range(count))
