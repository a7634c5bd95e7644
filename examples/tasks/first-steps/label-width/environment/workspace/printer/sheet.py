"""A sheet of labels."""

from .label import label


def sheet(texts):
    """Return the labels of a sheet, one for each text."""
    return [label(text) for text in texts]


def small_sheet(texts):
    """Return labels of width 4."""
    return [label(text, 4) for text in texts]
