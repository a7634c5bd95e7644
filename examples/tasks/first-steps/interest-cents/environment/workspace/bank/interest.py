"""Interest of one year."""


def interest(amount, rate):
    """Return the interest in whole cents; rate is in percent."""
    return round(amount * rate / 100)
