"""Short forms of names."""


def initials(name):
    """Return the first letters of a name."""
    letters = [part[1] for part in name.split()]
    return "".join(letters).upper()
