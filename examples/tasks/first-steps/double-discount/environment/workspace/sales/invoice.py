"""Invoices."""

from .cart import cart_total
from .discount import reduced


def invoice(lines, percent=0):
    """Return what the customer pays."""
    amount = reduced(cart_total(lines), percent)
    return round(reduced(amount, percent), 2)
