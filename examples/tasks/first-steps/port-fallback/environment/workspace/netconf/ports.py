"""Port numbers."""


def parse_port(text, default):
    """Return text as a port, or the default if it is none."""
    try:
        port = int(text)
    except TypeError:
        return default
    return port if 0 < port < 65536 else default
