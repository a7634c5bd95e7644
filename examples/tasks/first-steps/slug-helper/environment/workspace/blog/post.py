"""One post."""

from .slug import slug


def address(year, title):
    """Return the address of a post."""
    return f"/{year}/{slug(title)}"
