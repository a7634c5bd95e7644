"""The waiting room."""


class Waiting:
    """People in the order they came."""

    def __init__(self):
        self.line = []

    def join(self, name):
        """Put a name at the end and return its place, from 1."""
        self.line.push(name)
        return len(self.line)

    def next(self):
        """Take the first name."""
        return self.line.pop(0)
