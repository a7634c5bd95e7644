"""Pick one word."""


def longest(words):
    """Return the longest word."""
    return max(words)


def first(words):
    """Return the first word of the alphabet."""
    return min(words)
