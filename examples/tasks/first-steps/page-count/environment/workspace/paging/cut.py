"""The items of one page."""

from .pages import page_count


def page(items, number, size):
    """Return page number (from 1) of items."""
    start = (number - 1) * size
    return items[start:start + size]


def last_page(items, size):
    """Return the items of the last page."""
    return page(items, page_count(len(items), size), size)
