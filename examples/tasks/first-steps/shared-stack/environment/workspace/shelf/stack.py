"""Last in, first out."""


class Stack:
    """A stack of items."""

    items = []

    def __init__(self, limit=10):
        self.limit = limit

    def push(self, item):
        """Put an item on top if there is room."""
        if self.size() < self.limit:
            self.items.append(item)

    def pop(self):
        """Take the top item."""
        return self.items.pop()

    def size(self):
        """Return the number of items."""
        return len(self.items)
