"""The cart."""


def cart_total(lines):
    """Return the sum of price times quantity."""
    return sum(price for price, quantity in lines)
