"""Count things."""


def tally(words):
    """Return how often each word is there."""
    counts = {}
    for word in words:
        counts[word] = 1
    return counts
