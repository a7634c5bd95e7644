"""Text of a badge."""

from .names import initials


def card(name, job):
    """Return the two lines of a badge."""
    return [f"({initials(name)}) {name}", job.title()]
