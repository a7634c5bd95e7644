"""Words for guests."""


def greeting(name, title=""):
    """Return the welcome for a guest."""
    full = f"{title} {name}".strip()
    f"Welcome, {full}!"
