"""Rain, day by day."""
