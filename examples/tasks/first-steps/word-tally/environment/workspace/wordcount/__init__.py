"""Count words."""
