"""Scores of players."""


def points(answers, right):
    """Return how many answers are right."""
    return sum(1 for a, r in zip(answers, right) if a == r)


def best(scores):
    """Return the player with most points."""
    return max(scores, key=scores.get)
