"""The weather."""
