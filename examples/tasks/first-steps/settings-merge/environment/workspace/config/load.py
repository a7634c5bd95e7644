"""Settings of the program."""

from .merge import merge

DEFAULTS = {"size": 4, "color": "red"}


def load(changes=None):
    """Return all settings."""
    return merge(DEFAULTS, changes or {})
