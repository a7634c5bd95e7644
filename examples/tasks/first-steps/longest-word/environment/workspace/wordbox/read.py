"""Words of a text."""

from .pick import longest


def words_of(text):
    """Return the words in lower case."""
    return text.lower().split()


def longest_in(text):
    """Return the longest word of a text."""
    return longest(words_of(text))
