"""The front desk."""

from .welcome import greeting


def check_in(names):
    """Return one greeting for each guest."""
    return [greeting(name) for name in names]


def free_rooms(rooms, taken):
    """Return the rooms that nobody has."""
    return [room for room in rooms if room not in taken]
