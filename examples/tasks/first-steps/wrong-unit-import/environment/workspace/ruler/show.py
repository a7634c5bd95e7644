"""Lengths as text."""

from .convert import to_metric


def show(length):
    """Return both units."""
    return f"{length} ft = {to_metric(length)} m"
