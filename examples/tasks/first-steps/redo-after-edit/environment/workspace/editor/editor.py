"""The editor."""

from .history import History


class Editor:
    """A text that can be changed and changed back."""

    def __init__(self):
        self.text = ""
        self.history = History()

    def write(self, more):
        """Add text at the end."""
        self.history.record(self.text)
        self.text += more

    def undo(self):
        """Take the last edit back."""
        self.text = self.history.back(self.text)

    def redo(self):
        """Bring an undone edit back."""
        self.text = self.history.forward(self.text)
