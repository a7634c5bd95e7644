"""One label."""


def label(text, width=6):
    """Return the text in a frame, 8 wide by default."""
    return "[" + text[:width].ljust(width) + "]"
