"""Meetings that clash."""


def clash(first, second):
    """Tell if two (start, end) meetings share time."""
    return first[0] <= second[0] <= first[1]
