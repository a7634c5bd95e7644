"""Bounds of a reading."""


def clamp(value, low, high):
    """Return the value, held between low and high."""
    if value < low:
        return low
    if value > high:
        return low
    return value
