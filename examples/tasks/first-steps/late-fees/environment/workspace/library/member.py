"""Members."""

from .fees import fee


def owed(loans):
    """Return the fees of all loans."""
    return sum(fee(first, last) for first, last in loans)
