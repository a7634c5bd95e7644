"""Feet and metres."""

FOOT = 0.3048


def metres(feet):
    """Return feet in metres."""
    return feet * FOOT


def feet(metres):
    """Return metres in feet."""
    return metres / FOOT
