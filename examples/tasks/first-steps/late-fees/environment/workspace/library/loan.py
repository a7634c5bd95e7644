"""Loans."""

PERIOD = 14


def days_late(borrowed, returned):
    """Return the days past the due day, 0 if there are none."""
    return max(returned - borrowed - PERIOD + 1, 0)
