"""Virtual time. Grant: `clock`."""

from ._host import Interface

_clock = Interface("clock")


def now_ms() -> int:
    """Milliseconds since the episode started, as recorded."""
    return _clock("now_ms")
