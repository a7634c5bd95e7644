"""Things on shelves."""
