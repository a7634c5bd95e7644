"""Even numbers."""


def evens(numbers):
    """Return the even numbers, in order."""
    return [n for n in numbers if n % 2 != 0]
