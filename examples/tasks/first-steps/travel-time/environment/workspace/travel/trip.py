"""How long a trip takes."""

from .speed import hours


def trip_hours(legs, speed):
    """Return the hours for all legs, in km, at a speed in km/h."""
    return sum(hours(speed, leg) for leg in legs)
