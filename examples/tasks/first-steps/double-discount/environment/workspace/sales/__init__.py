"""Sales."""
