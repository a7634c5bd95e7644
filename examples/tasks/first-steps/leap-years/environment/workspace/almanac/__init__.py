"""Days and years."""
