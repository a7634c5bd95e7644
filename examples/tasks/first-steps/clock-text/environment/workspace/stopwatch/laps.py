"""Laps of a run."""

from .text import clock


def laps(times):
    """Return the time of each lap from the times at the line."""
    starts = [0] + times[:-1]
    return [end - start for start, end in zip(starts, times)]


def show(times):
    """Return the laps as text."""
    return " ".join(clock(lap) for lap in laps(times))
