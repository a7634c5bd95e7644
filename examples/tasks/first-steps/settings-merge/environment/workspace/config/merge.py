"""Put settings together."""


def merge(defaults, changes):
    """Return the defaults with the changes on top."""
    merged = defaults
    for key, value in changes.items():
        merged[key] = value
    return merged
