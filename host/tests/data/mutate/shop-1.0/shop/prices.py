"""Prices in cents."""


def total(prices, discount=0):
    """The sum of all prices, less a discount in percent."""
    amount = 0
    for price in prices:
        if price < 0:
            raise ValueError("a price is negative")
        amount += price
    return amount - amount * discount // 100


def cheapest(prices):
    """The smallest price, or None."""
    if not prices:
        return None
    return min(prices)


def between(prices, low, high):
    """The prices from low to high, both included."""
    return [price for price in prices if price >= low and price <= high]


def share(amount, people):
    """Shares of an amount that differ by at most one cent."""
    each, rest = divmod(amount, people)
    return [each + 1] * rest + [each] * (people - rest)
