"""Speed and time."""


def hours(distance, speed):
    """Return the time for a distance."""
    return distance / speed


def speed_needed(distance, time):
    """Return the speed that covers a distance in time."""
    return distance / time
