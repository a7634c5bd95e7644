"""Undo and redo."""


class History:
    """The states of a text before and after now."""

    def __init__(self):
        self.past = []
        self.future = []

    def record(self, text):
        """Keep the text as it was before an edit."""
        self.past.append(text)

    def back(self, now):
        """Return the text before now."""
        self.future.append(now)
        return self.past.pop()

    def forward(self, now):
        """Return the text after now."""
        if not self.future:
            return now
        self.past.append(now)
        return self.future.pop()
