"""Readings as text."""

from .limits import clamp


def percent(value, full):
    """Return the share of full, from 0 to 100."""
    return clamp(100 * value // full, 0, 100)


def show(value, full):
    """Return a reading as text."""
    return f"{percent(value, full)} %"
