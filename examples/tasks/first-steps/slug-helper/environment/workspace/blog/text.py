"""Clean text."""


def drop_marks(title):
    """Return the title with letters, digits and spaces only."""
    return "".join(c for c in title if c.isalnum() or c == " ")


def shorten(title, size):
    """Return at most size characters."""
    return title[:size].rstrip()
