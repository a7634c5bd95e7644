"""Words on a line."""


def joined(line, word):
    """Return the line with one more word."""
    return f"{line} {word}" if line else word


def fits(line, word, width):
    """Tell if a word has room on a line."""
    return len(joined(line, word)) <= width
