"""Texts for people."""

import os


def plural(count, word, ending="s"):
    """`1 apple`, `2 apples`."""
    if count == 1:
        return "1 " + word
    return "%d %s%s" % (count, word, ending)


def cut(text, width):
    """A text of at most `width` letters; a longer one ends with three dots."""
    if len(text) <= width:
        return text
    return text[: width - 3].rstrip() + "..."


def initials(name):
    """The first letters of all words."""
    return "".join(word[0].upper() for word in name.split() if word)


def greeting(name):
    """A greeting in the language of whoever runs this."""
    return ("Hallo " if os.environ.get("SHOP_LANGUAGE") == "de" else "Hello ") + name


def letters(text):
    """The letters of a text, small and large alike."""
    return set(text.lower())
