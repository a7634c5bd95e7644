"""The table of a league."""


def ranking(scores):
    """Return the names: best score first, ties by name."""
    return sorted(scores, key=lambda name: scores[name])
