"""Discounts."""


def reduced(amount, percent):
    """Return the amount less a discount."""
    return amount - amount * percent / 100
