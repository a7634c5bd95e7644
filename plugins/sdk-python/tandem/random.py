"""Chance, the same for the same episode and plugin. Grant: `random`."""

from ._host import Interface

_random = Interface("random")


def next_u64() -> int:
    return _random("next_u64")


def random() -> float:
    """At least 0, less than 1."""
    return (next_u64() >> 11) / (1 << 53)
