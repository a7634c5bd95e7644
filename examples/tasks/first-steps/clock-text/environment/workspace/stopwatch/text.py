"""Times as text."""


def clock(seconds):
    """Return seconds as minutes:seconds."""
    minutes, rest = divmod(seconds, 60)
    return f"{minutes}:{rest}"
