"""Orders."""


def reorder(counts, least):
    """Return the names with fewer than least pieces."""
    return [name for name, count in counts.items() if count < least]
