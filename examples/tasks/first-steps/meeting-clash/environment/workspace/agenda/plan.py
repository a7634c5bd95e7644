"""Plan a day."""

from .clash import clash


def fits(meeting, booked):
    """Tell if a meeting clashes with none of the booked."""
    return not any(clash(meeting, other) for other in booked)


def plan(meetings):
    """Return the meetings that can be held, first come first served."""
    booked = []
    for meeting in meetings:
        if fits(meeting, booked):
            booked.append(meeting)
    return booked
