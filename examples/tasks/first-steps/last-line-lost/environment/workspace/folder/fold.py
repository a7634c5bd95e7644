"""Fold text to a width."""

from .join import fits, joined


def fold(text, width):
    """Return the lines of a text, at most width wide where words allow it."""
    lines = []
    line = ""
    for word in text.split():
        if not fits(line, word, width):
            lines.append(line)
            line = ""
        line = joined(line, word)
    return lines
