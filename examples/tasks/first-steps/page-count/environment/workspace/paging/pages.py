"""How many pages there are."""


def page_count(total, size):
    """Return the number of pages that hold total items."""
    return (total + size) // size
