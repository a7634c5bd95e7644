"""One note."""

from .tags import add_tag


def note(text, tag):
    """Return a note with one tag."""
    return {"text": text, "tags": add_tag(tag)}
