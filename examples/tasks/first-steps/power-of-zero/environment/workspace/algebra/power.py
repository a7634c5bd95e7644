"""Whole powers."""


def power(base, exponent):
    """Return base to a whole exponent from 0 up."""
    if exponent == 1:
        return base
    half = power(base, exponent // 2)
    if exponent % 2 == 0:
        return half * half
    return half * half * base
