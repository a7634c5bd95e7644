"""Tags of a note."""


def add_tag(tag, tags=[]):
    """Return the tags with one more; a new list by default."""
    if tag not in tags:
        tags.append(tag)
    return tags
