"""A text editor."""
