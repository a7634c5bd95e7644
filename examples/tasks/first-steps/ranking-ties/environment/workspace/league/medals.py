"""Medals for the best."""

from .table import ranking

MEDALS = ["gold", "silver", "bronze"]


def medals(scores):
    """Return the medal of each of the best three."""
    return dict(zip(MEDALS, ranking(scores)))
