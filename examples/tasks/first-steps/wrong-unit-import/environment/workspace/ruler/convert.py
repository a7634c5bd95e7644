"""Lengths for a person to read."""

from .units import feet as convert


def to_metric(length):
    """Return a length in feet as metres, to two digits."""
    return round(convert(length), 2)
