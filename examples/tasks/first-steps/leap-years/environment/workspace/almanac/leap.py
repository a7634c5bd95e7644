"""Leap years."""


def is_leap(year):
    """Tell if a year has a 29th of February."""
    if year % 400 == 0:
        return True
    return year % 4 == 0 or year % 100 != 0
