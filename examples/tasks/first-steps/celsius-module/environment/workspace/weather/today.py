"""The weather of today."""

from .scale import celsius


def today(fahrenheit):
    """Return the temperature as text."""
    return f"{celsius(fahrenheit)} C"
