"""Addresses of posts."""

from . import text


def slug(title):
    """Return the title as part of an address."""
    words = strip_marks(title).lower().split()
    return "-".join(words)
